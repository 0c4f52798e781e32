"""Reads the IP addresses of this node, by which other nodes' logs may name it."""

import array
import os
import socket
import struct

from ..base.procfs import read_text
from .net import is_plumbing

try:
    import fcntl
except ImportError:  # not a Unix
    fcntl = None  # type: ignore[assignment]  # every use asks for None first

MAX_ADDRESSES = 64
_SIOCGIFCONF = 0x8912
_IFREQ = 40 if struct.calcsize("P") == 8 else 32
"""Size of Linux's `struct ifreq`; the address starts at byte 20, after name, family and port."""
_GLOBAL, _SITE = 0x00, 0x40
"""Scopes of /proc/net/if_inet6; link-local addresses (0x20) identify no node."""


def own_addresses(proc: str = "/proc") -> "list[str]":
    """Return this node's IPv4 and IPv6 addresses, sorted, at most `MAX_ADDRESSES`; empty if none are listed.

    Loopback, link-local and container bridges' addresses are left out, as they are the same on many nodes.
    """
    found = {address for name, address in _ipv4() if _counts(name) and not address.startswith("127.")}
    text = read_text(os.path.join(proc, "net/if_inet6")) or ""
    found.update(address for name, address in ipv6(text) if _counts(name))
    return sorted(found)[:MAX_ADDRESSES]


def _counts(name: str) -> bool:
    return name != "lo" and not is_plumbing(name)


def _ipv4() -> "list[tuple[str, str]]":
    """Return (interface, IPv4 address) pairs, also of secondary addresses; empty if the kernel gives none."""
    if fcntl is None or not os.path.isdir("/proc/net"):
        return []
    room = array.array("B", bytes(_IFREQ * 256))
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
            buffer = struct.pack("iP", len(room), room.buffer_info()[0])
            length = struct.unpack("iP", fcntl.ioctl(asked.fileno(), _SIOCGIFCONF, buffer))[0]
    except OSError:
        return []
    reported = room.tobytes()[:length]
    rows = [reported[at : at + _IFREQ] for at in range(0, length, _IFREQ)]
    return [
        (row[:16].split(b"\0")[0].decode("utf-8", "replace").partition(":")[0], socket.inet_ntoa(row[20:24]))
        for row in rows
    ]


def ipv6(text: str) -> "list[tuple[str, str]]":
    """Return (interface, address) of global and site-local addresses in the text of /proc/net/if_inet6."""
    found = []
    for line in text.splitlines():
        fields = line.split()
        if len(fields) == 6 and len(fields[0]) == 32 and int(fields[3], 16) in (_GLOBAL, _SITE):
            found.append((fields[5], socket.inet_ntop(socket.AF_INET6, bytes(bytearray.fromhex(fields[0])))))
    return found
