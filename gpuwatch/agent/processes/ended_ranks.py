"""Reads the exit status of ranks and launchers in the moment between their end and their parent's wait."""

import ctypes
import fcntl
import os
import select
import struct
import threading
import time

from ..base.user_rights import uid_of
from .process_table import ENDED, read_stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable

    Row = dict[str, object]

MAX_WATCHED = 512
MAX_OF_USER = 256
"""Most processes of one user that are waited for: those of others have room."""
_PIDFD_OPEN = 434
"""System call number, equal on all architectures of Linux 5.3 and later."""
_PIDFD_GET_INFO = 0xC040FF0B
_PIDFD_INFO_EXIT = 1 << 3
"""include/uapi/linux/pidfd.h: Linux 6.15 and later also report the status of reaped processes."""
_INFO_BYTES = 64
_EXIT_CODE_AT = 60


class EndedRanks(object):
    """Waits for the listed ranks and their launchers in a thread, which starts with the first one.

    Reports nothing if the kernel has no pidfds, nor for processes that ended without an error.
    """

    def __init__(self, report: "Callable[[dict[str, object]], None]", proc: str = "/proc") -> None:
        self._report = report
        self._proc = proc
        self._watched: dict[int, tuple[int, str, object]] = {}
        """Descriptor -> pid, `rank` or `launcher`, and its number or name."""
        self._users: dict[int, int] = {}
        """Descriptor -> user (uid) of the process."""
        self._known: set[tuple[int, object]] = set()
        self._poll: select.epoll | None = None

    def watch(self, rows: "list[Row]", starters: "dict[int, tuple[str, object]]") -> None:
        """Wait for the ends of the ranks among `rows` and of their launchers, at most `MAX_WATCHED`.

        `rows`: as from `ProcessReader.read`, `starters`: as `ProcessReader.starters`.
        """
        if self._proc != "/proc" or not hasattr(select, "epoll"):
            return  # the pids of a test's /proc tree belong to other processes here
        wanted: list[tuple[int, object, str, object]] = [
            (row["pid"], row.get("start"), "rank", row["rank"])  # type: ignore[misc]  # the row's values are mixed; these are its pid and rank
            for row in rows
            if "rank" in row and row.get("state") != ENDED
        ]
        wanted += [(pid, start, "launcher", name) for pid, (name, start) in sorted(starters.items())]
        self._known.intersection_update([each[:2] for each in wanted])
        for pid, start, kind, name in wanted:
            if (pid, start) in self._known:
                continue
            uid = uid_of(pid, self._proc)
            users = list(self._users.values())
            if len(users) >= MAX_WATCHED or users.count(uid) >= MAX_OF_USER:
                continue
            descriptor = _open(pid)
            self._known.add((pid, start))
            if descriptor >= 0:
                self._users[descriptor] = uid
                self._watched[descriptor] = (pid, kind, name)
                self._wait_for(descriptor)

    def _wait_for(self, descriptor: int) -> None:
        if self._poll is None:
            self._poll = select.epoll()
            thread = threading.Thread(target=self._run, name="ended ranks")
            thread.daemon = True
            thread.start()
        self._poll.register(descriptor, select.EPOLLIN)

    def _run(self) -> None:
        poll = self._poll
        while poll is not None:
            for descriptor, _ in poll.poll():
                at = time.time()
                pid, kind, name = self._watched[descriptor]
                status = _status(self._proc, pid, descriptor)
                poll.unregister(descriptor)
                del self._watched[descriptor], self._users[descriptor]
                os.close(descriptor)
                if status:
                    self._report(_event(pid, kind, name, status, at))


def _event(pid: int, kind: str, name: object, status: int, at: float) -> "dict[str, object]":
    how = "by signal {}".format(-status) if status < 0 else "with exit code {}".format(status)
    return {
        "event": kind + "_ended",
        "severity": "info",
        "title": "{} {} ended {}".format(kind, name, how),
        "code": status,
        "pid": pid,
        "detail": "pid {} ended {}".format(pid, how),
        "source": "kernel",
        "t": at,
    }


def _open(pid: int) -> int:
    """Return a descriptor that becomes readable when a process ends; -1: there is none."""
    try:
        if hasattr(os, "pidfd_open"):
            return os.pidfd_open(pid)
        return int(ctypes.CDLL(None).syscall(_PIDFD_OPEN, pid, 0))
    except (OSError, AttributeError):
        return -1


def _status(proc: str, pid: int, descriptor: int) -> "int | None":
    """Return the exit code, or minus the signal, of a process that just ended; None: 0, or not visible."""
    found = read_stat(proc, pid)
    if found is not None and found.state == ENDED:
        return found.exit_status
    info = bytearray(struct.pack("Q", _PIDFD_INFO_EXIT).ljust(_INFO_BYTES, b"\0"))
    try:
        fcntl.ioctl(descriptor, _PIDFD_GET_INFO, info)
    except OSError:
        return None
    if not struct.unpack_from("Q", info)[0] & _PIDFD_INFO_EXIT:
        return None
    code = int(struct.unpack_from("i", info, _EXIT_CODE_AT)[0])
    return (-(code & 0x7F) if code & 0x7F else code >> 8) or None
