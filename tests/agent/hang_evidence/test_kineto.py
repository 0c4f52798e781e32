"""Processes that ask for orders as libkineto does; whatever they write, no file is left."""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from gpuwatch.agent.hang_evidence import kineto
from gpuwatch.wire import Kernels, ProcessKernels
from tests.agent.hang_evidence import kineto_rank

PATIENCE_S = 240.0
ROOT = Path(__file__).parents[3]
AGENT = """
import sys
from gpuwatch.agent.hang_evidence import kineto
kineto.ADDRESS, kineto.FREE_BYTES = bytes.fromhex(sys.argv[1]), 0
kineto.kernels({"pids": [int(sys.argv[2])], "seconds": 1}, "/proc")
"""


@pytest.fixture(autouse=True)
def address(monkeypatch: pytest.MonkeyPatch) -> bytes:
    """A socket of this test; the shared memory of a container may be small."""
    own = b"\0gpuwatch-test-" + os.urandom(6).hex().encode()
    monkeypatch.setattr(kineto, "ADDRESS", own)
    monkeypatch.setattr(kineto, "FREE_BYTES", 0)
    return own


@contextmanager
def rank(address: bytes, form: str = "whole") -> Iterator[subprocess.Popen[str]]:
    argv = [sys.executable, kineto_rank.__file__, address.hex(), form]
    env = {**os.environ, "KINETO_USE_DAEMON": "1"}
    with subprocess.Popen(
        argv, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    ) as process:
        assert reply_of(process) == "started"
        yield process
        process.kill()


def order(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("go\n")


def reply_of(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def asked(*pids: int) -> list[ProcessKernels]:
    return msgspec.convert(kineto.kernels({"pids": pids, "seconds": 1}, "/proc"), Kernels).processes


def left_of(path: str) -> list[Path]:
    return list(Path(path).parent.glob(Path(path).name.partition("_")[0] + "*"))


def gone(path: str) -> None:
    """Wait until no file of the trace is left."""
    deadline = time.monotonic() + PATIENCE_S
    while left_of(path):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_rank_records_its_kernels_and_its_file_is_deleted(address: bytes) -> None:
    with rank(address) as process:
        order(process)
        (found,) = asked(process.pid)
        path = reply_of(process)
        assert path.startswith("/dev/shm/gpuwatch-")
        assert left_of(path) == []
    assert found.why is None
    assert [(each.category, each.name, each.count, each.seconds) for each in found.work] == [
        ("kernel", "gemm", 1, 30.5e-6)
    ]
    assert (found.busy_s, found.span_s, found.trace_bytes) == (30.5e-6, 1e-3, len(kineto_rank.TRACE))
    assert kineto._LEFT_GUARDS == []


@pytest.mark.parametrize("form", ["link", "pipe", "huge", "growing", "cut"])
def test_a_file_that_is_no_whole_trace_of_the_rank_gives_no_times_and_is_deleted(
    address: bytes, form: str
) -> None:
    with rank(address, form) as process:
        order(process)
        (found,) = asked(process.pid)
        path = reply_of(process)
        reply_of(process)
        assert found.why
        assert (found.work, found.busy_s, found.trace_bytes) == ([], None, 0)
        assert form == "growing" or left_of(path) == []
    gone(path)  # of a rank that still writes, when it has ended


def test_a_strangers_request_is_not_answered(address: bytes) -> None:
    stranger = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    stranger.bind(address + b"-stranger")
    stranger.setblocking(False)
    with rank(address) as process:
        rows: list[ProcessKernels] = []
        running = threading.Thread(target=lambda: rows.extend(asked(process.pid)))
        running.start()
        path = reply_of(process)  # so the agent listens
        own = struct.pack("<iiqi", 3, 1, 0, process.pid)  # the pid of another process
        for message in (b"", b"x" * 39, kineto.HEADER.pack(len(own), b"req") + own):
            stranger.sendto(message, address)
        order(process)
        running.join(PATIENCE_S)
    with pytest.raises(BlockingIOError):
        stranger.recv(65536)
    stranger.close()
    assert rows[0].why is None
    assert left_of(path) == []


def test_an_agent_that_is_killed_leaves_no_file(address: bytes) -> None:
    """The rank writes after the agent's end."""
    with rank(address) as process:
        argv = [sys.executable, "-c", AGENT, address.hex(), str(process.pid)]
        with subprocess.Popen(argv, cwd=ROOT) as agent:
            path = reply_of(process)
            agent.kill()
        order(process)
        assert reply_of(process) == "written"
        gone(path)


def test_a_trace_that_comes_too_late_is_deleted(address: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    with rank(address) as process:
        rows: list[ProcessKernels] = []
        running = threading.Thread(target=lambda: rows.extend(asked(process.pid)))
        running.start()
        path = reply_of(process)
        monkeypatch.setattr(kineto, "TRACING_S", -100.0)
        running.join(PATIENCE_S)
        assert rows[0].why
        order(process)
        assert reply_of(process) == "written"
        gone(path)


def test_a_process_that_cannot_be_traced_gets_the_reason_without_a_wait(
    address: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    (plain,) = asked(os.getpid())
    assert "KINETO_USE_DAEMON" in str(plain.why)
    (ended,) = asked(1 << 22)
    assert ended.why
    with rank(address) as process:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as daemon:
            daemon.bind(address)
            (taken,) = asked(process.pid)
        assert "another daemon" in str(taken.why)
        monkeypatch.setattr(kineto, "FREE_BYTES", 1 << 62)
        (full,) = asked(process.pid)
        assert "free" in str(full.why)
        monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 12345)
        (foreign,) = asked(process.pid)
        assert "deleted" in str(foreign.why)
