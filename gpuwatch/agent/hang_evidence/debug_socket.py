"""Reads Python stacks from the debug sockets of ranks, if their job has them.

A job that sets TORCH_WORKER_SERVER_SOCKET and enters torch's `worker_main()` answers HTTP on that unix socket
(torch.distributed.elastic.control_plane); `dump_traceback` is faulthandler's text of all threads. It needs
the interpreter lock: a rank whose C code holds it does not answer.
"""

import os
import re
import select
import socket
import struct
import time

from ..base.background import TimedCalls
from ..base.procfs import clean, read_bytes
from ..processes.process_table import seen_by, values_of
from .pyspy import MAX_FRAMES, MAX_THREADS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

VARIABLE = b"TORCH_WORKER_SERVER_SOCKET"
REQUEST = b"POST /handler/dump_traceback HTTP/1.0\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n"
MAX_ANSWER = 1 << 20
OPENING_S = 1.0
"""Seconds for opening all files and sockets."""
CREDENTIALS = struct.Struct("3i")
"""pid, uid and gid of the listener, from SO_PEERCRED."""
THREAD = re.compile(r"(?:Current thread|Thread) 0x[0-9a-f]+ (?:\[(.*)\] )?\(most recent call first\):$")
FRAME = re.compile(r'  File "(.*)", line (\d{1,9}) in (.+)$')


def own_stacks(
    proc: str, pids: "list[int]", seconds: float
) -> "dict[int, tuple[list[dict[str, Any]], str | None]]":
    """Return pid -> (threads as `wire.PythonThread`, None), or ([], why), for processes with a debug socket.

    All are queried at the same time. Left out: a process that names no socket, or whose files hang.
    """
    opened = TimedCalls(OPENING_S).ask({pid: _opening(proc, pid) for pid in pids})
    found: dict[int, tuple[list[dict[str, Any]], str | None]] = {}
    open_ones: dict[int, tuple[int, socket.socket]] = {}
    for pid, result in opened.items():
        if isinstance(result, socket.socket):
            open_ones[result.fileno()] = pid, result
        elif result is not None:
            found[pid] = [], str(result)
    try:
        found.update(_answers(open_ones, time.monotonic() + seconds, seconds))
    finally:
        for _, connection in open_ones.values():
            connection.close()
    return found


def _opening(proc: str, pid: int) -> "Callable[[], object]":
    return lambda: _open(os.path.join(proc, str(pid)), pid)


def _open(folder: str, pid: int) -> "socket.socket | str | None":
    """Return a connection to a process's debug socket with the request sent, or why there is none.

    None: the process names no socket.
    """
    environ = read_bytes(os.path.join(folder, "environ"), 1 << 20) or b""
    path = os.fsdecode(values_of(environ).get(VARIABLE, b""))
    if not path:
        return None
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.settimeout(OPENING_S)
        _connect(connection, seen_by(folder, path))
        peer = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, CREDENTIALS.size)
        listens = CREDENTIALS.unpack(peer)[0]
        if listens == pid:
            connection.sendall(REQUEST)
            return connection
        trouble = "it belongs to another process ({})".format(listens)
    except OSError as error:
        trouble = (error.strerror or str(error)).lower()
    connection.close()
    return clean("its debug socket: " + trouble, 200)


def _connect(connection: "socket.socket", path: str) -> None:
    """Connect to a unix socket through the descriptor of its folder.

    Socket paths are limited to 107 bytes, and those of containers are longer.
    """
    folder = os.open(os.path.dirname(path), os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        connection.connect("/proc/self/fd/{}/{}".format(folder, os.path.basename(path)))
    finally:
        os.close(folder)


def _answers(
    connections: "dict[int, tuple[int, socket.socket]]", deadline: float, seconds: float
) -> "dict[int, tuple[list[dict[str, Any]], str | None]]":
    # noqa: E501 - a type comment is one line
    found: dict[int, tuple[list[dict[str, Any]], str | None]] = {}
    output = dict.fromkeys(connections, b"")
    poll = select.poll()
    for descriptor in connections:
        poll.register(descriptor, select.POLLIN)
    while output:
        left = deadline - time.monotonic()
        ready = poll.poll(1000.0 * left) if left > 0 else []
        if not ready:
            break
        for descriptor, _ in ready:
            pid, connection = connections[descriptor]
            try:
                piece = connection.recv(65536)
            except OSError:
                piece = b""
            output[descriptor] += piece
            if not piece or len(output[descriptor]) > MAX_ANSWER:
                poll.unregister(descriptor)
                found[pid] = _read(output.pop(descriptor))
    for descriptor in output:
        silent = "its debug socket is silent for {:.0f} s: it is stopped, or C code holds the interpreter"
        found[connections[descriptor][0]] = [], silent.format(seconds)
    return found


def _read(answer: bytes) -> "tuple[list[dict[str, Any]], str | None]":
    head, _, body = answer.partition(b"\r\n\r\n")
    status = head.split()[1:2]
    if status != [b"200"]:
        reported = b" ".join(status).decode("ascii", "replace") or "nothing"
        return [], clean("its debug socket answers {}".format(reported), 200)
    threads = _threads(body.decode("utf-8", "replace"))
    if not threads:
        return [], "its debug socket reported no main thread"
    return threads, None


def _threads(text: str) -> "list[dict[str, Any]]":
    """Return the threads (`wire.PythonThread`) in a text that faulthandler wrote, the main one first.

    Empty if the main thread is missing: faulthandler lists the newest thread first, and at most 100.
    """
    threads: list[dict[str, Any]] = []
    for line in text.splitlines():
        head, frame = THREAD.match(line), FRAME.match(line)
        if head is not None:
            threads.append({"name": clean(head.group(1) or "", 60), "main": False, "frames": []})
        elif frame is not None and threads:
            reported = {"function": clean(frame.group(3), 100), "file": clean(frame.group(1), 200)}
            threads[-1]["frames"].append(dict(reported, line=int(frame.group(2))))
    threads = [each for each in threads if each["frames"]]
    mains = [each for each in threads if each["frames"][-1]["function"] != "_bootstrap"]
    if not mains:
        return []
    main = mains[-1]
    main.update(main=True, name="MainThread")
    for each in threads:
        del each["frames"][MAX_FRAMES if each is main else MAX_FRAMES // 4 :]
    return [main] + [each for each in threads if each is not main][: MAX_THREADS - 1]
