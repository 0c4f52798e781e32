"""Reads the node's network interfaces and addresses from the kernel (rtnetlink(7))."""

import os
import socket
import struct

from gpuwatch.agent.base.procfs import read_int, read_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Iterator

MAX_NICS = 256
_HEADER = struct.Struct("=IHHII")
_ADDRESS = struct.Struct("=BBBBI")
_ATTRIBUTE = struct.Struct("=HH")
_GETADDR, _NEWADDR, _DONE, _ERROR = 22, 20, 3, 2
_REQUEST_DUMP = 0x1 | 0x300
_IFA_ADDRESS, _IFA_LOCAL = 1, 2
_SCOPE_LINK = 253
_LOOPBACK: "list[dict[str, Any]]" = [{"name": "lo", "address": "127.0.0.1", "prefix": 8}]


def read(sys: str = "/sys") -> "list[dict[str, Any]]":
    """Return one dict per address (at most MAX_NICS) with the keys of `protocol.InventoryNic`.

    Loopback is included, link-local IPv6 is not. If the kernel has no rtnetlink (macOS), only loopback is
    returned.
    """
    try:
        found = list(_addresses())
    except (OSError, AttributeError):
        return list(_LOOPBACK)
    return [dict(one, **_state(sys, one["name"])) for one in found[:MAX_NICS]]


def _state(sys: str, name: str) -> "dict[str, Any]":
    folder = os.path.join(sys, "class/net", name)
    state = read_text(os.path.join(folder, "operstate"), 64)
    facts: dict[str, Any] = {"up": state in ("up", "unknown", None)}
    megabits = read_int(os.path.join(folder, "speed"))
    if megabits is not None and megabits > 0:
        facts["speed_bps"] = megabits * 1e6 / 8
    return facts


def _addresses() -> "Iterator[dict[str, Any]]":
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as kernel:
        kernel.settimeout(2.0)
        body = _ADDRESS.pack(socket.AF_UNSPEC, 0, 0, 0, 0)
        kernel.send(_HEADER.pack(_HEADER.size + len(body), _GETADDR, _REQUEST_DUMP, 1, 0) + body)
        while True:
            data = kernel.recv(1 << 18)
            for kind, payload in _messages(data):
                if kind in (_DONE, _ERROR):
                    return
                reported = _address(payload) if kind == _NEWADDR else None
                if reported is not None:
                    yield reported


def _messages(data: bytes) -> "Iterator[tuple[int, bytes]]":
    while len(data) >= _HEADER.size:
        length, kind = _HEADER.unpack_from(data)[:2]
        if length < _HEADER.size:
            return
        yield kind, data[_HEADER.size : length]
        data = data[(length + 3) & ~3 :]


def _address(payload: bytes) -> "dict[str, Any] | None":
    family, prefix, _, scope, index = _ADDRESS.unpack_from(payload)
    if family not in (socket.AF_INET, socket.AF_INET6):
        return None
    if family == socket.AF_INET6 and scope == _SCOPE_LINK:
        return None
    attributes: dict[int, bytes] = {}
    rest = payload[_ADDRESS.size :]
    while len(rest) >= _ATTRIBUTE.size:
        length, kind = _ATTRIBUTE.unpack_from(rest)
        if length < _ATTRIBUTE.size:
            break
        attributes[kind] = rest[_ATTRIBUTE.size : length]
        rest = rest[(length + 3) & ~3 :]
    raw = attributes.get(_IFA_LOCAL) or attributes.get(_IFA_ADDRESS)
    try:
        name = socket.if_indextoname(index)
        return {"name": name, "address": socket.inet_ntop(family, raw or b""), "prefix": prefix}
    except (OSError, ValueError):
        return None  # it has gone meanwhile
