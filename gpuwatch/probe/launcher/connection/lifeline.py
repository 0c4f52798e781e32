"""Ensures that nothing on the node outlives the connection.

All started processes are in one process group, which is killed.
"""

import os
import signal
import sys
import threading
import time

from gpuwatch.agent.base.procfs import read_bytes
from gpuwatch.agent.processes.process_table import pids

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

    from gpuwatch.probe.launcher.connection.lines import LineWriter

_NCCL_FILE = b"/dev/shm/nccl-"
_SWEEP_S = 0.5

_BIND = (
    "import ctypes,os,sys\n"
    "p=getattr(ctypes.CDLL(None),'prctl',None)\n"
    "p and p(1,9,0,0,0)\n"  # PR_SET_PDEATHSIG, SIGKILL; an exec leaves it as it is
    "os.getppid()==int(sys.argv[1]) or os._exit(1)\n"
    "os.execvp(sys.argv[2],sys.argv[2:])\n"
)


def bound(argv: "list[str]") -> "list[str]":
    """Return the argv for a process that the kernel kills when the thread that started it ends.

    The setting is made by the process itself, because code between fork and exec is unsafe in a process with
    threads.
    """
    return [sys.executable, "-ISc", _BIND, str(os.getpid())] + argv


class Lifeline(object):
    """Kills the whole process group: on request or at the absolute deadline."""

    def __init__(self, outlet: "LineWriter") -> None:
        self._outlet = outlet

    def take_group(self) -> None:
        """Become the leader of a process group, and let signals end it without running any Python code."""
        try:
            os.setsid()
        except OSError:
            pass  # we lead one already
        signal.signal(signal.SIGINT, signal.SIG_DFL)

    def end_at(self, deadline: float) -> None:
        """Kill everything at `deadline` (monotonic seconds), whatever hangs then."""

        def wait() -> None:
            while True:
                left = deadline - time.monotonic()
                if left <= 0:
                    self.cut("the time limit of the whole probe was reached")
                time.sleep(min(left, 60.0))

        thread = threading.Thread(target=wait, name="deadline")
        thread.daemon = True
        thread.start()

    def cut(self, reason: str) -> "NoReturn":
        """Send the reason, then SIGKILL to the group, including this process; just exit if it leads none.

        NCCL's shared memory of the group is removed before.
        """
        others = group_members()
        _remove_shared_memory(others)
        self._outlet.last_word(reason)
        if os.getpgrp() == os.getpid():
            os.killpg(os.getpid(), signal.SIGKILL)
        os._exit(1)

    def leave(self, reason: str) -> "NoReturn":
        """Leave in order: kill the rest of the process group, send the reason, and exit with status 0."""
        end_others()
        self._outlet.last_word(reason)
        os._exit(0)


def end_others() -> None:
    """Kill the other processes of the group, and wait until they are gone: at most 1 s, up to three times."""
    for _ in range(3):  # a process that is being made while we look is met the next time
        others = group_members()
        if not others:
            return
        _remove_shared_memory(others)
        for pid in others:
            _kill(pid)
        _wait_until_gone(others)


def group_members() -> "list[int]":
    """Return the pids of the other running processes of the group.

    Empty if /proc is unreadable, or if this process leads no group.
    """
    me = os.getpid()
    if os.getpgrp() != me:
        return []
    return [pid for pid in pids("/proc") if pid != me and _is_live_member(pid, me)]


def _is_live_member(pid: int, group: int) -> bool:
    fields = (read_bytes("/proc/{}/stat".format(pid), 2048) or b"").rpartition(b")")[2].split()
    return len(fields) > 2 and int(fields[2]) == group and fields[0] not in (b"Z", b"X")


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except OSError:
        pass  # gone already


def _wait_until_gone(members: "list[int]") -> None:
    deadline = time.monotonic() + 1.0
    me = os.getpid()
    while any(_is_live_member(pid, me) for pid in members) and time.monotonic() < deadline:
        time.sleep(0.01)


def _remove_shared_memory(members: "list[int]") -> None:
    """Remove the shared-memory segments of NCCL that these ranks have not unlinked."""

    def remove() -> None:
        for pid in members:
            text = read_bytes("/proc/{}/maps".format(pid), 1 << 22) or b""
            for path in {line.rpartition(b" ")[2] for line in text.splitlines()}:
                if path.startswith(_NCCL_FILE):
                    try:
                        os.unlink(path)
                    except OSError:
                        pass  # another rank of ours has done it

    # the maps of a process that hangs in the kernel may never come
    sweep = threading.Thread(target=remove, name="shared memory")
    sweep.daemon = True
    sweep.start()
    sweep.join(_SWEEP_S)
