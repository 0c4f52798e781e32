"""Queries RAS, NCCL's built-in job monitor (2.24 and later), on a TCP port of every rank's node.

The protocol is that of NCCL's src/ras/client_support.cc: commands and answers are lines, the answer to STATUS
ends with the connection. Ranks of two jobs of a user on one node may share the port; either may
answer. Of two users' ranks only those of the user who listens are answered for.
"""

import base64
import os
import re
import socket
import time
import zlib
from functools import partial

from ..base.background import Background
from ..base.procfs import clean, read_bytes
from ..processes.process_table import values_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

USUAL = "localhost:28028"
MAX_ADDRESSES = 8
MAX_PIDS = 256
MAX_ANSWER = 64 << 20
MAX_PACKED = 700 * 1024
"""Most packed bytes; a reply is limited to 1 MiB."""
MAX_QUERY_S = 30.0
LISTENER = re.compile(r" *\d+: ([0-9A-F]{8,32}):([0-9A-F]{4}) [0-9A-F]+:0000 0A(?: +\S+){3} +(\d+) ")
OWNER = re.compile(rb"\nUid:\t\d+\t(\d+)")
LEG_S = 5
"""RAS's own limit in seconds for ranks to answer each other (RAS_COLLECTIVE_LEG_TIMEOUT)."""


def ras(request: "dict[str, Any]", proc: str = "/proc") -> "dict[str, Any]":
    """Query each RAS address that the pids use, once for each user; return `wire.RasAnswers`."""
    pids = [pid for pid in request.get("pids", ()) if isinstance(pid, int) and pid > 0][:MAX_PIDS]
    longest = min(MAX_QUERY_S, max(1.0, float(request.get("timeout_s", 10.0))))
    deadline = time.monotonic() + longest
    used = in_turn(addresses(proc, pids))
    queries = []
    for address, user, _ in used:
        query = Background(partial(ask, address, deadline, {user}, MAX_PACKED // len(used)), "ras")
        query.start()
        queries.append(query)
    answers = []
    for query, (address, _, users) in zip(queries, used):  # noqa: B905 - Python 3.6
        query.wait(deadline)
        unanswered = {"error": "no answer in {:.0f} s".format(longest), "seconds": round(longest, 3)}
        answers.append(dict(query.answer() or unanswered, address=address, pids=users))  # type: ignore[call-overload]  # dict() of two dicts has no overload for keywords of other types
    return {"answers": answers}


def addresses(proc: str, pids: "list[int]") -> "dict[tuple[int, str], list[int]]":
    """Return (uid, RAS address) -> the user's pids that use it: NCCL listens in the processes of the ranks.

    Left out are pids that disabled RAS, are unreadable, or whose network is not that of this process.
    """
    here = _network(proc, "self")
    found: dict[tuple[int, str], list[int]] = {}
    for pid in pids:
        environ = read_bytes(os.path.join(proc, str(pid), "environ"), 1 << 20)
        user = OWNER.search(read_bytes(os.path.join(proc, str(pid), "status")) or b"")
        if environ is None or user is None or _network(proc, str(pid)) not in (here, None):
            continue
        values = values_of(environ)
        if values.get(b"NCCL_RAS_ENABLE") == b"0":
            continue
        named = values.get(b"NCCL_RAS_ADDR", b"").decode("utf-8", "replace")
        found.setdefault((int(user.group(1)), clean(named, 200) or USUAL), []).append(pid)
    return found


def in_turn(found: "dict[tuple[int, str], list[int]]") -> "list[tuple[str, int, list[int]]]":
    """Return (address, uid, pids) of at most `MAX_ADDRESSES` addresses, one of each user in turn."""
    turns: dict[int, int] = {}
    ordered = []
    for user, address in sorted(found):
        turns[user] = turns.get(user, 0) + 1
        ordered.append((turns[user], address, user))
    return [(address, user, found[user, address]) for _, address, user in sorted(ordered)[:MAX_ADDRESSES]]


def _network(proc: str, pid: str) -> "str | None":
    """Return the network namespace of a process; None: it cannot be read."""
    try:
        return os.readlink(os.path.join(proc, pid, "ns/net"))
    except OSError:
        return None


def listener(host: str, port: int, proc: str = "/proc") -> "int | None":
    """Return the uid of the process that listens on a port of this node; None: unknown.

    A listener on the address itself counts before one on all addresses, which counts for addresses of this
    node alone.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    raw = socket.inet_pton(family, host)
    known = "".join(raw[at : at + 4][::-1].hex() for at in range(0, len(raw), 4)).upper()
    users: dict[str, int] = {}
    for name in ("tcp6", "tcp"):
        table = read_bytes(os.path.join(proc, "self/net", name), 8 << 20) or b""
        for line in table.decode("ascii", "replace").split("\n"):
            found = LISTENER.match(line)
            if found is not None and int(found.group(2), 16) == port:
                users[found.group(1)[-8:] if len(known) == 8 else found.group(1)] = int(found.group(3))
    everywhere = users.get("0" * len(known), users.get("0" * 32))
    return users.get(known, everywhere if everywhere is not None and _is_local(family, host) else None)


def _is_local(family: int, host: str) -> bool:
    """Return True if an address is of this node: only such a one can be bound."""
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.bind((host, 0))
    except OSError:
        return False
    return True


def ask(
    address: str, deadline: float, users: "set[int] | None" = None, most: int = MAX_PACKED
) -> "dict[str, Any]":
    """Query RAS at one address; return the fields of `wire.RasAnswer`, without the pids, as a dict.

    `deadline`: monotonic seconds. `users`: who may answer; None: anybody. `most`: packed bytes.
    """
    began = time.monotonic()
    reported: dict[str, Any] = {"address": address}
    try:
        reported.update(_ask(address, deadline, users, most))
    except socket.timeout:
        reported["error"] = "no answer in {:.0f} s".format(time.monotonic() - began)
    except OSError as error:
        reported["error"] = clean((error.strerror or str(error)).lower(), 200)
    except ValueError as error:
        reported["error"] = clean(str(error), 200)
    reported["seconds"] = round(time.monotonic() - began, 3)
    return reported


def _ask(address: str, deadline: float, users: "set[int] | None", most: int) -> "dict[str, Any]":
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise ValueError("not an address: " + address)
    host = host.strip("[]")
    if users is not None:
        known = socket.getaddrinfo(host, int(port), 0, socket.SOCK_STREAM)
        hosts = [str(each[4][0]) for each in known if listener(str(each[4][0]), int(port)) in users]
        if not hosts:
            raise ValueError("no process of the ranks' user listens there")
        host = hosts[0]
    connection = socket.create_connection((host, int(port)), timeout=max(0.1, deadline - time.monotonic()))
    try:
        lines = RasConnection(connection, deadline)
        protocol = lines.command("CLIENT PROTOCOL 2")
        if not protocol.startswith("SERVER PROTOCOL"):
            raise ValueError("another program listens there: " + (protocol or "it sends nothing"))
        lines.command("TIMEOUT {}".format(LEG_S))
        form = "json" if lines.command("SET FORMAT json") == "OK" else "text"
        packed = base64.b64encode(lines.packed_rest("VERBOSE STATUS", most * 3 // 4)).decode("ascii")
    finally:
        connection.close()
    return {"format": form, "packed": packed, "protocol": clean(protocol.rpartition(" ")[2], 20)}


class RasConnection(object):
    """A connection to RAS, on which commands are sent and answers received."""

    def __init__(self, connection: "socket.socket", deadline: float) -> None:
        self._connection = connection
        self._deadline = deadline
        self._rest = b""

    def command(self, text: str) -> str:
        """Send a command line and return the line of the answer.

        Raises:
            OSError: the connection failed, or the deadline is over.
        """
        self._connection.sendall(text.encode("ascii") + b"\n")
        while b"\n" not in self._rest and len(self._rest) < 65536:
            if not self._more():
                break
        line, _, self._rest = self._rest.partition(b"\n")
        return line.decode("utf-8", "replace").strip()

    def packed_rest(self, text: str, most: int) -> bytes:
        """Send the last command; return all that the peer sends until it closes, packed by zlib.

        Raises:
            OSError: the connection failed, or the deadline is over.
            ValueError: the answer has over `MAX_ANSWER` bytes, or over `most` packed.
        """
        self._connection.sendall(text.encode("ascii") + b"\n")
        packer = zlib.compressobj(6)
        packed, size, more = b"", 0, True
        while more and size <= MAX_ANSWER and len(packed) <= most:
            size += len(self._rest)
            packed += packer.compress(self._rest)
            self._rest = b""
            more = self._more()
        packed += packer.flush()
        if more or len(packed) > most:
            raise ValueError("an answer of more than {} MB, too long to forward".format(size >> 20))
        return packed

    def _more(self) -> bool:
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise socket.timeout()
        self._connection.settimeout(left)
        piece = self._connection.recv(65536)
        self._rest += piece
        return bool(piece)
