"""Sources of the kernel log: the kernel's device, or the journal."""

import ctypes
import errno
import glob
import os
import re
import signal
import subprocess
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable

MAX_RECORDS = 4000
"""Records read per poll; the rest of a flood follows."""
_RECORD_BYTES = 8192
_PR_SET_PDEATHSIG = 1
_FACILITY = 0
"""The kernel's facility in a record's priority; programs that write to /dev/kmsg cannot use it."""
_JOURNALS = ("/var/log/journal/*/system.journal", "/run/log/journal/*/system.journal")


class Kmsg(object):
    """Reads /dev/kmsg, one record per read, non-blocking.

    A record's time is the kernel's time since boot, which drifts by seconds over months; records that arrive
    live are therefore dated between the previous poll and now.
    """

    name = "/dev/kmsg"

    def __init__(
        self,
        descriptor: int,
        clock: "Callable[[], float]" = time.time,
        monotonic: "Callable[[], float]" = time.monotonic,
    ) -> None:
        self._descriptor = descriptor
        self._clock = clock
        self._monotonic = monotonic
        self._caught_up_at: float | None = None

    def read(self) -> "list[tuple[float, str]]":
        """Return the new records as (unix seconds, text), at most `MAX_RECORDS`.

        Raises:
            OSError: the device cannot be read.
        """
        records: list[tuple[float, str]] = []
        boot, now = self._clock() - self._monotonic(), self._clock()
        for _ in range(MAX_RECORDS):
            try:
                data = os.read(self._descriptor, _RECORD_BYTES)
            except OSError as error:
                if error.errno in (errno.EPIPE, errno.EINTR):
                    continue  # EPIPE: overwritten unread; the next read continues with the oldest record
                if error.errno == errno.EAGAIN:
                    self._caught_up_at = now
                    break
                raise
            if not data:
                raise OSError(errno.ENODATA, "the kernel log ended")
            record = parse_kmsg(data)
            if record is not None:
                t = min(boot + record[0], now)
                records.append((t if self._caught_up_at is None else max(t, self._caught_up_at), record[1]))
        return records

    def close(self) -> None:
        """Close the device."""
        os.close(self._descriptor)


def parse_kmsg(data: bytes) -> "tuple[float, str] | None":
    """Return (seconds since boot, text) of a record of /dev/kmsg; None: other bytes, or a program's text.

    A record is `priority,sequence,microseconds,flags;text` (Documentation/ABI/testing/dev-kmsg of the
    kernel).
    """
    head, separator, rest = data.partition(b";")
    fields = head.split(b",")
    if not separator or len(fields) < 3 or not fields[2].isdigit():
        return None
    if fields[0].isdigit() and int(fields[0]) >> 3 != _FACILITY:
        return None
    text = rest.split(b"\n", 1)[0].decode("utf-8", "replace")
    return int(fields[2]) / 1e6, re.sub(r"\\x([0-9a-f]{2})", lambda found: chr(int(found.group(1), 16)), text)


def open_kmsg(path: str = "/dev/kmsg") -> "int | None":
    """Return a descriptor at the oldest record; None if this user may not read it."""
    try:
        return os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None


class Journal(object):
    """Runs `journalctl` on this boot's kernel messages, in a child that ends with the agent."""

    name = "journalctl"

    def __init__(self, command: "list[str]") -> None:
        self._partial = b""
        self._child = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            preexec_fn=_die_with_parent(),  # noqa: PLW1509 - one prepared system call
        )
        assert self._child.stdout is not None  # noqa: S101 - asked for above
        self._pipe = self._child.stdout.fileno()
        os.set_blocking(self._pipe, False)

    def read(self) -> "list[tuple[float, str]]":
        """Return the new records as (unix seconds, text).

        Raises:
            OSError: journalctl has ended.
        """
        data, ended = self._partial, False
        while len(data) < (4 << 20):
            try:
                piece = os.read(self._pipe, 1 << 16)
            except BlockingIOError:
                break
            if not piece:
                ended = True
                break
            data += piece
        if ended and len(data) == len(self._partial):
            raise OSError(errno.ENODATA, "journalctl ended")
        whole, newline, self._partial = data.rpartition(b"\n")
        return parse_journal((whole + newline).decode("utf-8", "replace"))

    def close(self) -> None:
        """End the child and reap it."""
        self._child.kill()
        self._child.wait()
        if self._child.stdout is not None:
            self._child.stdout.close()


def parse_journal(text: str) -> "list[tuple[float, str]]":
    """Return (unix seconds, text) of the kernel's records that `journalctl -o short-unix` printed.

    Indented lines continue a record.
    """
    records: list[tuple[float, str]] = []
    is_kernel = False
    for line in text.splitlines():
        match = re.match(r"(\d{9,11}\.\d+) \S+ kernel: (.*)", line)
        if match:
            records.append((float(match.group(1)), match.group(2)))
        elif records and line[:1] == " " and is_kernel:
            t, before = records[-1]
            records[-1] = (t, before + "\n" + line.strip())
        is_kernel = match is not None or (is_kernel and line[:1] == " ")
    return records


def journal_command() -> "list[str] | None":
    """Return the `journalctl` command that follows the kernel log; None if this user may not read it.

    Without permission `journalctl` waits forever, so the files are checked first.
    """
    readable = any(os.access(path, os.R_OK) for pattern in _JOURNALS for path in glob.glob(pattern))
    program = next((p for p in ("/usr/bin/journalctl", "/bin/journalctl") if os.access(p, os.X_OK)), None)
    if program is None or not readable:
        return None
    options = ["-f", "-o", "short-unix", "-n", "2000", "--no-pager", "-q"]
    return [program, "-k", *options, "SYSLOG_FACILITY={}".format(_FACILITY)]


def _die_with_parent() -> "Callable[[], None] | None":
    """Return a function that the child calls so that the kernel ends it when this thread ends.

    None: the C library has no such call.
    """
    try:
        prctl = ctypes.CDLL(None).prctl
    except (AttributeError, OSError):
        return None
    parent = os.getpid()

    def arm() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
        if os.getppid() != parent:
            os._exit(0)

    return arm
