"""Profiles running processes: py-spy samples their Python stacks for some seconds.

Its output stays in this process's memory, and it ends with this process.
"""

import base64
import os
import re
import resource
import signal
import subprocess
import time
import zlib

from ..base.procfs import clean
from ..logs.ipc.lifeline import die_with
from .stacks import ABSENT, find_py_spy
from .uploaded_pyspy import memory_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MAX_PROCESSES = 8
MAX_SECONDS, MAX_RATE = 60, 500
INTERRUPT_AFTER_S = 3.0
"""Seconds after the sampling time at which SIGINT ends py-spy (it then writes what it has).

After as long again SIGKILL.

py-spy first reads the interpreter's symbols, and may fall behind.
"""
MAX_TEXT = 4 << 20
MAX_WRITTEN = 4 * MAX_TEXT
"""Bytes that py-spy may write into memory: the profiled process chooses the names of its functions."""
MAX_PACKED_BYTES = 600 * 1024
"""Packed bytes of all processes; a reply is limited to 1 MiB."""
COUNTS = re.compile(rb"Samples: (\d{1,12}) Errors: (\d{1,12})")


def profile(request: "dict[str, Any]", proc: str, uploaded: "str | None") -> "dict[str, Any]":
    """Sample the stacks of the requested pids; return `wire.Profiles`.

    `uploaded`: path of the uploaded py-spy, None: none.
    """
    pids = [pid for pid in request.get("pids", ()) if isinstance(pid, int) and pid > 0][:MAX_PROCESSES]
    programs = find_py_spy(proc, pids, str(request.get("py_spy") or ""), uploaded)
    rows = [{"pid": pid, "why": ABSENT} for pid in pids if pid not in programs]
    runs = [_PySpyRun(program, pid, request) for pid, program in programs.items()]
    while any(not run.over() for run in runs):
        time.sleep(0.02)
    rows += [run.row(MAX_PACKED_BYTES // len(runs)) for run in runs]
    return {"processes": rows, "lacks_py_spy": len(programs) < len(pids)}


class _PySpyRun(object):
    """A run of py-spy that samples one process, and its result."""

    def __init__(self, program: str, pid: int, request: "dict[str, Any]") -> None:
        seconds = min(MAX_SECONDS, max(1, int(request.get("seconds") or 10)))
        rate = min(MAX_RATE, max(1, int(request.get("rate") or 100)))
        self._row: dict[str, Any] = {"pid": pid}
        self._began, self._me = time.monotonic(), os.getpid()
        self._deadline, self._signal = self._began + seconds + INTERRUPT_AFTER_S, signal.SIGINT
        self._child = None
        try:
            self._stacks, self._words = memory_file(b"stacks"), memory_file(b"words")
            arguments = [program, "record", "--pid", str(pid), "--duration", str(seconds)]
            arguments += ["--rate", str(rate), "--format", "raw", "--idle", "--threads", "--full-filenames"]
            arguments += [] if request.get("blocking") is True else ["--nonblocking"]
            self._child = subprocess.Popen(
                arguments + ["--output", "/proc/self/fd/{}".format(self._stacks)],
                stdin=subprocess.DEVNULL,
                stdout=self._words,
                stderr=self._words,
                pass_fds=(self._stacks,),
                preexec_fn=self._limit,  # noqa: PLW1509 - two system calls
            )
        except OSError as error:
            self._row["why"] = "py-spy cannot be run: {}".format(error.strerror)

    def _limit(self) -> None:
        """Limit the child process: it ends with this process, and no file of it outgrows `MAX_WRITTEN`."""
        die_with(self._me)
        resource.setrlimit(resource.RLIMIT_FSIZE, (MAX_WRITTEN, MAX_WRITTEN))

    def over(self) -> bool:
        """Return True if py-spy has ended; it is killed if it takes too long."""
        if self._child is None or self._child.returncode is not None:
            return True
        if time.monotonic() > self._deadline:
            os.kill(self._child.pid, self._signal)
            self._deadline, self._signal = self._deadline + INTERRUPT_AFTER_S, signal.SIGKILL
        pid, status, used = os.wait4(self._child.pid, os.WNOHANG)
        if pid:
            self._child.returncode = status
            self._row["seconds"] = round(time.monotonic() - self._began, 3)
            self._row["py_spy_cpu_s"] = round(used.ru_utime + used.ru_stime, 3)
        return bool(pid)

    def row(self, most: int) -> "dict[str, Any]":
        """Return the result as `wire.ProcessProfile`, with at most `most` bytes of packed stacks."""
        if self._child is None:
            return self._row
        words, text = (os.pread(each, MAX_TEXT, 0) for each in (self._words, self._stacks))
        os.close(self._words)
        os.close(self._stacks)
        counts = COUNTS.search(words)
        if counts is not None and text:
            self._row["errors"] = int(counts.group(2))
            self._row["packed"], self._row["left_out"] = _packed(text, most)
        else:
            lines = words.decode("utf-8", "replace").split("\n")
            last = ([line for line in lines if line.strip()] or ["no samples"])[-1]
            self._row["why"] = clean("py-spy: " + last, 200)
        return self._row


def _packed(text: bytes, most: int) -> "tuple[str, int]":
    """Return (py-spy's stacks as zlib in base64, number of samples in the rare stacks left out)."""
    lines = sorted(text.splitlines(), key=_count, reverse=True)
    kept = len(lines)
    while True:
        packed = base64.b64encode(zlib.compress(b"\n".join(lines[:kept]))).decode("ascii")
        if len(packed) <= most or kept < 2:
            return packed, sum(map(_count, lines[kept:]))
        kept //= 2


def _count(line: bytes) -> int:
    last = line.rpartition(b" ")[2]
    return int(last) if last.isdigit() and len(last) < 13 else 0
