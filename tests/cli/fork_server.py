"""A process that has imported every command and forks a copy of itself for each call.

A call costs a fork instead of 0.7 s of imports. The copy gets the arguments, streams, folder and environment
of its caller, runs the same `main`, and ends as every interpreter does, so its status, signals and output are
those of the command. What a start of Python decides (import errors, `PYTHON...` variables, the time of
imports) is not tested this way: the tests of that start the command anew.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from pkgutil import walk_packages
from typing import Any, NoReturn

import pytest

import gpuwatch

MAX_REQUEST = 1 << 18
USUAL_LINES = """\
2026-11-22 20:00:00 step 1/600 loss 2.0 lr 1.0e-04
[rank0]: Traceback (most recent call last):
[rank0]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB
NVRM: Xid (PCI:0000:c3:00): 79, pid=4711, GPU has fallen off the bus.
"""
LIBC = ctypes.CDLL(None, use_errno=True)
CLONE_NEWNS, CLONE_NEWPID = 0x20000, 0x20000000
MS_REC, MS_PRIVATE = 0x4000, 0x40000
ROOT = Path(__file__).parents[2]


class ForkedCommand:
    """One call of the command: its pid, and its status when it has ended."""

    def __init__(self, pid: int, status: socket.socket) -> None:
        self.pid = pid
        self._status = status
        self._ended: int | None = None

    def poll(self) -> int | None:
        """The exit status as `subprocess` gives it: a signal is negative. None: it has not ended."""
        if self._ended is None and select.select([self._status], [], [], 0)[0]:
            self._ended = int(self._status.recv(64))
            self._status.close()
        return self._ended

    def wait(self, timeout: float) -> int:
        """Wait for its end.

        Raises:
            TimeoutError: it has not ended in time; it is killed.
        """
        if not select.select([self._status], [], [], timeout)[0]:
            os.kill(self.pid, signal.SIGKILL)
            raise TimeoutError
        ended = self.poll()
        assert ended is not None
        return ended


@dataclass(frozen=True)
class Call:
    """What the server is asked for."""

    arguments: Sequence[str]
    cwd: str
    environment: Mapping[str, str]
    module: str = "gpuwatch.cli.main"
    """Whose `main` is called."""
    own_processes: bool = False
    """In a pid namespace and with a /proc of its own; needs root."""


def forked(call: Call, streams: Sequence[int]) -> ForkedCommand:
    """Start a command from the server; `streams`: the descriptors for stdin, stdout and stderr."""
    ours, theirs = socket.socketpair()
    with theirs:
        request = json.dumps(asdict(call)).encode()
        assert len(request) < MAX_REQUEST
        socket.send_fds(_server(), [request], [*streams, theirs.fileno()])
    return ForkedCommand(int(ours.recv(64)), ours)


@cache
def _server() -> socket.socket:
    """Start the fork server of this process and return its socket; it ends when that is closed."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, MAX_REQUEST)
    with theirs:
        subprocess.run(
            [sys.executable, "-m", "tests.cli.fork_server", str(theirs.fileno())],
            cwd=ROOT,
            env={**{name: os.environ[name] for name in ("PATH", "XDG_CACHE_HOME")}, "PYTHONPATH": str(ROOT)},
            pass_fds=[theirs.fileno()],
            start_new_session=True,
            check=True,
        )
    return ours


def serve(requests: socket.socket) -> None:
    """Fork for each request until the asking process is gone.

    Only copies of this process return, when their command has ended.
    """
    prepare()
    while True:
        request, descriptors, _, _ = socket.recv_fds(requests, MAX_REQUEST, 4)
        if not request:
            os._exit(0)
        if os.fork() == 0:
            break
        for each in descriptors:
            os.close(each)
    requests.close()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    *streams, status = descriptors
    call = Call(**json.loads(request))
    if call.own_processes:
        _check(LIBC.unshare(CLONE_NEWNS | CLONE_NEWPID))
    pid = os.fork()
    if pid:
        _report(pid, socket.socket(fileno=status))
    os.close(status)
    if call.own_processes:
        _check(LIBC.mount(b"none", b"/proc", None, MS_REC | MS_PRIVATE, None))
        _check(LIBC.mount(b"proc", b"/proc", b"proc", 0, None))
    os.setsid()
    become(call, streams)
    importlib.import_module(call.module).main()


def prepare() -> None:
    """Import all commands, and load what every one of them loads."""
    from gpuwatch.link.demo.logs import rules  # noqa: PLC0415 - loaded by this test alone
    from gpuwatch.link.start.bundle import bundle  # noqa: PLC0415 - loaded by this test alone
    from gpuwatch.link.start.log_settings import packed_rules  # noqa: PLC0415 - loaded by this test alone

    for module in walk_packages(gpuwatch.__path__, "gpuwatch."):
        if not module.name.endswith("__main__"):
            with suppress(ImportError):  # of an optional package
                importlib.import_module(module.name)
    rules()
    packed_rules(())
    bundle({})
    _scan_once()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    gc.collect()
    gc.freeze()


def _scan_once() -> None:
    """Prepare the rules and compile the patterns of usual lines, which take 0.2 s of each scan."""
    from gpuwatch.rules.load import load_packs  # noqa: PLC0415 - loaded by this process alone
    from gpuwatch.runs.files.files import gather  # noqa: PLC0415 - loaded by this process alone
    from gpuwatch.runs.scan.scan import scan  # noqa: PLC0415 - loaded by this process alone
    from tests.packs import share_begins  # noqa: PLC0415 - loaded by this process alone

    share_begins(pytest.MonkeyPatch())
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "rank_0.log").write_text(USUAL_LINES)
        scan(gather([Path(folder)]), load_packs().all)


def become(call: Call, streams: list[int]) -> None:
    """Take over streams, folder, environment and arguments, as a new interpreter would."""
    for number, each in enumerate(streams):
        os.dup2(each, number)
    for each in streams:
        if each > 2:
            os.close(each)
    os.chdir(call.cwd)
    os.environ.clear()
    os.environ.update(call.environment)
    time.tzset()
    encoding, _, errors = call.environment.get("PYTHONIOENCODING", "").partition(":")
    kind: dict[str, Any] = {"encoding": encoding or None, "errors": errors or None, "closefd": False}
    sys.stdin = open(0, **kind)  # noqa: SIM115 - like the interpreter's
    sys.stdout = open(1, "w", **kind)  # noqa: SIM115 - like the interpreter's
    sys.stderr = open(2, "w", errors="backslashreplace", buffering=1, closefd=False)  # noqa: SIM115 - the process keeps it open
    sys.argv = ["gpuwatch", *call.arguments]


def _check(status: int) -> None:
    if status:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def _report(pid: int, status: socket.socket) -> NoReturn:
    status.send(b"%d" % pid)
    ended = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    status.send(b"%d" % ended)
    os._exit(0)


if __name__ == "__main__":
    if os.fork():  # no child of the asking process: tests count those
        os._exit(0)
    serve(socket.socket(fileno=int(sys.argv[1])))
