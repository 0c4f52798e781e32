"""A process chooses how large its stacks are; the agent's memory stays bounded."""

from __future__ import annotations

import os
import time
from pathlib import Path

from gpuwatch.agent.hang_evidence import profile
from gpuwatch.agent.hang_evidence.profile import _PySpyRun
from gpuwatch.agent.hang_evidence.pyspy import MAX_OUTPUT, python_stacks

LIMIT_S = 120.0


def program(folder: Path, text: str) -> str:
    path = folder / "py-spy"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


def test_endless_stacks_are_given_up_at_a_size(tmp_path: Path) -> None:
    began = time.monotonic()
    endless = program(tmp_path, f"head -c {2 * MAX_OUTPUT} /dev/zero; exec sleep 600")
    threads, why = python_stacks(endless, 7, LIMIT_S)
    assert (threads, bool(why)) == ([], True)
    assert time.monotonic() - began < LIMIT_S


def test_what_it_prints_before_its_end_is_read_whole(tmp_path: Path) -> None:
    frame = '{"name": "f", "filename": "a.py", "line": 3}'
    text = f'[{{"thread_name": "MainThread", "os_thread_id": 7, "frames": [{frame}]}}]'
    threads, why = python_stacks(program(tmp_path, f"echo '{text}'; echo odd >&2"), 7, LIMIT_S)
    assert why is None
    assert [each["main"] for each in threads] == [True]
    threads, why = python_stacks(program(tmp_path, "echo first >&2; echo last >&2; exit 3"), 7, LIMIT_S)
    assert (threads, str(why).split()[-1]) == ([], "last")


def test_a_profile_without_an_end_fills_no_memory(tmp_path: Path) -> None:
    run = _PySpyRun(program(tmp_path, "exec cat /dev/zero >/dev/fd/1"), 7, {"seconds": 1})
    deadline = time.monotonic() + LIMIT_S
    while not run.over():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    size = os.fstat(run._words).st_size
    assert 0 < size <= profile.MAX_WRITTEN
    assert run.row(1000)["why"]
