"""Has running ranks record their GPU kernels: takes the place of the daemon that libkineto asks for orders.

A process that was started with KINETO_USE_DAEMON=1 asks the daemon `dynolog` every 5 to 10 s whether to
trace, over an abstract unix socket (libkineto/src/IpcFabricConfigClient.cpp in pytorch/kineto). Its trace is
a file in its /dev/shm, deleted here once it is open, or by a guard process if this one ends before.
"""

import errno
import os
import select
import socket
import stat
import struct
import subprocess
import time

from ..base.procfs import clean, read_bytes, read_link, read_text
from ..processes.process_table import seen_by, values_of
from .kernel_times import TraceError, kernel_times

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

VARIABLE = b"KINETO_USE_DAEMON"
ADDRESS = b"\0dynolog\0"
HEADER = struct.Struct("<Q32s")
"""Bytes of the payload, and the kind of the message."""
REQUEST, CREDENTIALS = struct.Struct("<i"), struct.Struct("3i")
ACTIVITIES = 2
"""The bit of a request that takes the configuration of a trace."""
CONFIGURATION = "PROFILE_START_TIME=0\nACTIVITIES_LOG_FILE={}\nACTIVITIES_DURATION_MSECS={}\n"
FOLDER = "/dev/shm"  # noqa: S108 - of the rank, which names the file by a random number
MAX_PROCESSES, MAX_SECONDS = 8, 10
ASKING_S = 15.0
"""Seconds within which a process must have requested a trace from the agent."""
TRACING_S = 25.0
"""Seconds after the end of a trace within which its file must be complete."""
MAX_BYTES = 256 << 20
TOO_LARGE = "its trace is larger than {} MiB; fewer --seconds need less".format(MAX_BYTES >> 20)
FREE_BYTES = 2 * MAX_BYTES
"""Bytes that must be free in the rank's /dev/shm, because its collectives and loaders use that too."""
GUARD = (
    "trap '' HUP INT TERM; read -r _; n=0; "
    'while [ -d "$2" ] && [ "$n" -lt 600 ] && [ ! -e "$3" ] && [ ! -L "$3" ]; do sleep 1; n=$((n+1)); done; '
    'rm -f -- "$1"*'
)
"""Arguments: prefix of the files, folder of the rank in /proc, name of the complete file.

Waits until this process ends or closes the pipe, then until the file is complete, the rank has ended or 10
minutes have passed; deletes the files.
It is a process of its own because a request's thread ends with the agent, and the rank may write later.
"""
_LEFT_GUARDS: "list[subprocess.Popen[bytes]]" = []
"""Guard processes that still run and must be waited for."""


def kernels(request: "dict[str, Any]", proc: str) -> "dict[str, Any]":
    """Have the requested processes record their GPU kernels; return `wire.Kernels`."""
    _LEFT_GUARDS[:] = [each for each in _LEFT_GUARDS if each.poll() is None]
    seconds = min(MAX_SECONDS, max(1, int(request.get("seconds") or 1)))
    pids = [pid for pid in request.get("pids", ()) if isinstance(pid, int) and pid > 0][:MAX_PROCESSES]
    ranks = [_TracedRank(proc, pid) for pid in pids]
    try:
        for rank in ranks:
            rank.prepare()
        if any(not rank.over for rank in ranks):
            _trace({rank.pid: rank for rank in ranks if not rank.over}, seconds)
    finally:
        for rank in ranks:
            rank.close()
    return {"processes": [rank.row for rank in ranks]}


def _trace(ranks: "dict[int, _TracedRank]", seconds: int) -> None:
    """Send trace requests to these processes when they ask, and read their traces."""
    try:
        daemon = _listening()
    except OSError as error:
        taken = "another daemon (dynolog, or a second gpuwatch) answers the ranks of this node"
        why = taken if error.errno == errno.EADDRINUSE else "no socket: {}".format(error.strerror)
        for rank in ranks.values():
            rank.refuse(why)
        return
    began = time.monotonic()
    try:
        while any(not rank.over for rank in ranks.values()):
            if select.select([daemon], [], [], 0.1)[0]:
                _answer(daemon, ranks, seconds)
            for rank in ranks.values():
                if not rank.over:
                    rank.check(time.monotonic() - began, seconds)
    finally:
        daemon.close()


def _listening() -> "socket.socket":
    daemon = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        daemon.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        daemon.bind(ADDRESS)
    except OSError:
        daemon.close()
        raise
    daemon.setblocking(False)
    return daemon


def _answer(daemon: "socket.socket", ranks: "dict[int, _TracedRank]", seconds: int) -> None:
    """Answer one message to the daemon's socket, if the kernel attests that one of the ranks sent it."""
    try:
        message, ancillary, _, sender = daemon.recvmsg(65536, socket.CMSG_SPACE(CREDENTIALS.size))
    except OSError:
        return
    rank = ranks.get(_pid(ancillary))
    if rank is None or rank.over or not sender or len(message) < HEADER.size + REQUEST.size:
        return
    kind = HEADER.unpack_from(message)[1]
    wanted = REQUEST.unpack_from(message, HEADER.size)[0]
    name = kind.partition(b"\0")[0]
    asks = name == b"req" and wanted & ACTIVITIES and not rank.asked
    if name == b"ctxt":
        payload = REQUEST.pack(1)
    elif name == b"req":
        payload = rank.configuration(seconds).encode("ascii") if asks and rank.guarded() else b""
    else:
        return
    try:
        daemon.sendto(HEADER.pack(len(payload), kind) + payload, sender)
    except OSError:
        return
    rank.asked = rank.asked or bool(name == b"req" and payload)


def _pid(ancillary: "list[tuple[int, int, bytes]]") -> int:
    for level, kind, data in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_CREDENTIALS) and len(data) >= CREDENTIALS.size:
            return int(CREDENTIALS.unpack_from(data)[0])
    return 0


class _TracedRank(object):
    """A process that records a trace on request, and the file that it writes."""

    def __init__(self, proc: str, pid: int) -> None:
        self.pid, self.over, self.asked = pid, False, False
        self.row: dict[str, Any] = {"pid": pid}
        self._proc = os.path.join(proc, str(pid))
        self._prefix = "gpuwatch-" + "".join("{:02x}".format(each) for each in os.urandom(12))
        self._name = ""
        self._user, self._folder = -1, -1
        self._guard: subprocess.Popen[bytes] | None = None
        self._written = False

    def refuse(self, why: str) -> None:
        self.over, self.row["why"] = True, clean(why, 300)

    def prepare(self) -> None:
        """Check that the process can be asked for a trace, and that its file can be read and deleted."""
        environ = read_bytes(os.path.join(self._proc, "environ"), 1 << 20)
        if environ is None:
            return self.refuse("its environment cannot be read: it has ended, or is another user's")
        if VARIABLE not in values_of(environ):
            return self.refuse("it was not started with KINETO_USE_DAEMON=1")
        networks = {read_link(os.path.join(each, "ns/net")) for each in (self._proc, "/proc/self")}
        if len(networks) > 1 and None not in networks:
            return self.refuse(
                "it is in a container with a network of its own, where gpuwatch cannot answer it"
            )
        status = read_text(os.path.join(self._proc, "status")) or ""
        lines = [line.split() for line in status.splitlines() if line.startswith(("Uid:", "NSpid:"))]
        numbers = {words[0]: words[-1] for words in lines}
        self._user = int(numbers.get("Uid:", "-1"))
        self._name = "{}_{}.json".format(self._prefix, int(numbers.get("NSpid:", str(self.pid))))
        if os.geteuid() not in (0, self._user):
            return self.refuse("it is another user's: its trace could not be deleted")
        return self._open_folder()

    def _open_folder(self) -> None:
        try:
            place = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
            self._folder = os.open(seen_by(self._proc, FOLDER), place)
            space = os.fstatvfs(self._folder)
        except OSError as error:
            return self.refuse("its {}: {}".format(FOLDER, error.strerror))
        free = space.f_bavail * space.f_frsize
        if free < FREE_BYTES:
            words = "its {} has {} MiB free; a trace may need {}"
            return self.refuse(words.format(FOLDER, free >> 20, FREE_BYTES >> 20))
        return None

    def configuration(self, seconds: int) -> str:
        return CONFIGURATION.format("{}/{}.json".format(FOLDER, self._prefix), 1000 * seconds)

    def guarded(self) -> bool:
        """Start the guard process of the trace file, unless it runs; return False if that is impossible."""
        if self._guard is None:
            try:
                self._guard = subprocess.Popen(
                    ["/bin/sh", "-c", GUARD, "gpuwatch-guard", self._prefix, self._proc, self._name],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    start_new_session=True,
                    preexec_fn=lambda: os.fchdir(self._folder),  # noqa: PLW1509 - one system call
                )
            except OSError as error:
                self.refuse(
                    "the process that would delete its trace file cannot be started: {}".format(
                        error.strerror
                    )
                )
        return self._guard is not None

    def check(self, passed: float, seconds: int) -> None:
        """Read the trace if it is complete; refuse the process if the trace is too large, late or unreadable.

        Also if the process has ended, or has not asked for orders. `passed`: seconds since the request;
        `seconds`: those to trace.
        """
        try:
            self._written = self._exists(self._name)
            if self._written:
                self._read()
            elif self._exists(self._name + ".tmp", MAX_BYTES):
                self.refuse(TOO_LARGE)
            elif not self.asked and passed > ASKING_S:
                self.refuse(
                    "it did not contact the agent within {:.0f} s (a torch without Kineto?)".format(passed)
                )
            elif passed > seconds + TRACING_S:
                self.refuse("its trace was not complete after {:.0f} s".format(passed))
            elif not os.path.isdir(self._proc):
                self.refuse("it has ended")
        except (OSError, TraceError) as error:
            self.refuse(getattr(error, "strerror", None) or str(error))

    def _exists(self, name: str, larger_than: int = -1) -> bool:
        try:
            return os.stat(name, dir_fd=self._folder, follow_symlinks=False).st_size > larger_than
        except FileNotFoundError:
            return False

    def _read(self) -> None:
        plain = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
        descriptor = os.open(self._name, plain, dir_fd=self._folder)
        try:
            found = os.fstat(descriptor)
            self._remove()
            if not stat.S_ISREG(found.st_mode) or found.st_uid != self._user:
                self.refuse("its trace is not a separate file")
            elif found.st_size > MAX_BYTES:
                self.refuse(TOO_LARGE)
            else:
                left = [found.st_size]

                def read(most: int) -> bytes:
                    piece = os.read(descriptor, min(most, left[0]))
                    left[0] -= len(piece)
                    return piece

                self.row.update(kernel_times(read), trace_bytes=found.st_size)
                self.over = True
        finally:
            os.close(descriptor)

    def _remove(self) -> None:
        """Delete all files of this trace."""
        for name in os.listdir("/proc/self/fd/{}".format(self._folder)):
            if name.startswith(self._prefix):
                os.unlink(name, dir_fd=self._folder)

    def close(self) -> None:
        """Delete the trace files, unless a trace is being written: then the guard process does it later."""
        if self._folder < 0:
            return
        complete = self._written or not self.asked
        try:
            if complete:
                self._remove()
        except OSError as error:
            complete = False
            words = "its trace {}/{} is not deleted: {}"
            self.refuse(words.format(FOLDER, self._name, error.strerror))
        os.close(self._folder)
        if self._guard is None or self._guard.stdin is None:
            return
        if complete:
            self._guard.kill()
        self._guard.stdin.close()
        if complete:
            self._guard.wait()
        else:
            _LEFT_GUARDS.append(self._guard)
