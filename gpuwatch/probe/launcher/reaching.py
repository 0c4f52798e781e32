"""Tests which nodes can be reached from one address, all at once, and states why others cannot."""

import errno
import os
import selectors
import socket
import time

from gpuwatch.probe.launcher.listening import family_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_RESERVED_DESCRIPTORS = 64
"""Number of file descriptors that are not used for connection attempts."""

_WORDS = {
    errno.ECONNREFUSED: "refused: nothing listens there any more, or a firewall rejects it",
    errno.EHOSTUNREACH: "no route to it: the host is off, or a router or firewall rejects it",
    errno.ENETUNREACH: "no route: the network of {target} cannot be reached from {source}",
    errno.EADDRNOTAVAIL: "{source} is not an address of this node",
    errno.EACCES: "forbidden by this node's own firewall",
    errno.EPERM: "forbidden by this node's own firewall",
    errno.ECONNRESET: "reset while connecting: something on the path resets connections",
    errno.EMFILE: "no file descriptor is left on this node",
}


class _Try(object):
    def __init__(self, target: "dict[str, Any]") -> None:
        self.target = target
        self.socket: Any = None
        self.since = 0.0
        self.result: dict[str, Any] | None = None


def reach_all(source: str, targets: "list[dict[str, Any]]", timeout_s: float) -> "list[dict[str, Any]]":
    """Connect from `source` to every {node, address, port}.

    Return {node, ok, connect_s, error} in this order.

    Each attempt has `timeout_s`. As many run at once as there are descriptors.
    """
    tries = [_Try(target) for target in targets]
    waiting = list(reversed(tries))
    room = _room(len(tries))
    selector = selectors.DefaultSelector()
    running: set[_Try] = set()
    while waiting or running:
        while waiting and len(running) < room:
            one = waiting.pop()
            if _begin(one, source):
                running.add(one)
                selector.register(one.socket, selectors.EVENT_WRITE, one)
        _wait(selector, running, source, timeout_s)
        for one in [each for each in running if each.result is not None]:
            running.remove(one)
            selector.unregister(one.socket)
            _close(one)
    selector.close()
    return [one.result for one in tries if one.result is not None]


def _begin(one: "_Try", source: str) -> bool:
    """Start a connection; return True if it must be waited for, False if it has failed (noted in `one`)."""
    address, port = str(one.target["address"]), int(one.target["port"])
    one.since = time.monotonic()
    try:
        one.socket = socket.socket(family_of(address), socket.SOCK_STREAM)
        one.socket.setblocking(False)
        one.socket.bind((source, 0))
        code = one.socket.connect_ex((address, port))
    except OSError as error:
        code = error.errno or errno.EINVAL
    except (ValueError, OverflowError):
        code = errno.EINVAL
    if code in (0, errno.EINPROGRESS):
        return True
    _settle(one, code, source)
    _close(one)
    return False


def _wait(selector: "selectors.BaseSelector", running: "set[_Try]", source: str, timeout_s: float) -> None:
    """Wait for an event; finish the attempts that connected, failed, or timed out."""
    if not running:
        return
    oldest = min(one.since for one in running)
    for key, _ in selector.select(max(0.0, oldest + timeout_s - time.monotonic())):
        _settle(key.data, key.fileobj.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR), source)  # type: ignore[union-attr]  # the selector was given sockets
    now = time.monotonic()
    for one in running:
        if one.result is None and now - one.since >= timeout_s:
            error = "no answer within {:g} s: a firewall drops the packets, or the host is down".format(
                timeout_s
            )
            one.result = {"node": one.target["node"], "ok": False, "error": error}


def _settle(one: "_Try", code: int, source: str) -> None:
    one.result = {"node": one.target["node"], "ok": code == 0}
    if code == 0:
        one.result["connect_s"] = round(time.monotonic() - one.since, 6)
        return
    message = _WORDS.get(code, "{why}").format(
        source=source, target=one.target["address"], why=os.strerror(code).lower()
    )
    if code == errno.ECONNREFUSED and one.target["address"] == source:
        message += " ({} is this node's own address too)".format(source)
    one.result["error"] = message


def _close(one: "_Try") -> None:
    if one.socket is not None:
        one.socket.close()


def _room(wanted: int) -> int:
    """Return how many of the `wanted` sockets may be open at once; raise the soft limit if necessary."""
    try:
        import resource  # noqa: PLC0415 - not on every system

        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if soft != resource.RLIM_INFINITY and soft < wanted + 2 * _RESERVED_DESCRIPTORS:
            most = wanted + 2 * _RESERVED_DESCRIPTORS
            soft = most if hard == resource.RLIM_INFINITY else min(hard, most)
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        return wanted if soft == resource.RLIM_INFINITY else max(1, min(wanted, soft - _RESERVED_DESCRIPTORS))
    except (ImportError, OSError, ValueError):
        return min(wanted, _RESERVED_DESCRIPTORS) or 1
