"""The exit status of a rank, which only its parent gets, is read before the parent collects it."""

from __future__ import annotations

import os
import signal
import subprocess
import time

import pytest

from gpuwatch.agent.processes.ended_ranks import EndedRanks

pytestmark = pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="needs Linux and Python 3.9")
WAIT_S = 240.0


def ends(processes: list[subprocess.Popen[bytes]], count: int) -> list[dict[str, object]]:
    """What is reported of ranks 0, 1, ... that these processes are, once there are so many."""
    reported: list[dict[str, object]] = []
    watch = EndedRanks(reported.append)
    rows: list[dict[str, object]] = [
        {"pid": each.pid, "start": 1.0, "state": "S", "rank": rank} for rank, each in enumerate(processes)
    ]
    watch.watch(rows, {})
    watch.watch(rows, {})  # the next list
    for rank, each in enumerate(processes):
        if rank == 0:
            each.send_signal(signal.SIGKILL)
        elif each.stdin is not None:
            each.stdin.close()
    until = time.monotonic() + WAIT_S
    while len(reported) < count and time.monotonic() < until:
        time.sleep(0.01)
    for each in processes:
        each.wait()
    return reported


def rank(status: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen(["/bin/sh", "-c", f"read line; exit {status}"], stdin=subprocess.PIPE)


def test_signals_and_exit_codes_of_ranks_are_reported_once() -> None:
    found = ends([rank(0), rank(3), rank(0)], 2)
    assert sorted(str(each["code"]) for each in found) == ["-9", "3"]


def test_a_process_without_a_rank_is_not_waited_for() -> None:
    reported: list[dict[str, object]] = []
    process = rank(3)
    EndedRanks(reported.append).watch([{"pid": process.pid, "state": "S"}], {})
    process.kill()
    process.wait()
    assert not reported


def test_the_signal_that_ended_a_launcher_is_reported() -> None:
    reported: list[dict[str, object]] = []
    process = rank(3)
    watch = EndedRanks(reported.append)
    for _ in range(2):
        watch.watch([], {process.pid: ("torchrun", 1.0)})
    process.kill()
    until = time.monotonic() + WAIT_S
    while not reported and time.monotonic() < until:
        time.sleep(0.01)
    process.wait()
    assert [(each["event"], each["code"], each["pid"]) for each in reported] == [
        ("launcher_ended", -9, process.pid)
    ]
