"""The agent asks ranks for their flight recorders' dumps through real pipes."""

from __future__ import annotations

import os
import select
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpuwatch.agent.hang_evidence.flight_pipe import trigger
from tests.parts import SEEN_BY_EVERY_AGENT
from tests.sentences import Sentences

pytestmark = SEEN_BY_EVERY_AGENT


@pytest.fixture
def rank(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Rank 3 of a job that was started with pipes and a place for its dumps."""
    env = {**os.environ, "RANK": "3", "WORLD_SIZE": "4"}
    env |= {
        "TORCH_NCCL_DEBUG_INFO_PIPE_FILE": f"{tmp_path}/fr_",
        "TORCH_FR_DUMP_TEMP_FILE": f"{tmp_path}/dump_",
    }
    code = "print(1, flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", code], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process
        process.communicate(b"\n")


def asked(pid: int) -> dict[str, Any]:
    (answer,) = trigger({"pids": [pid]})["processes"]
    assert isinstance(answer, dict)
    return answer


def test_a_byte_reaches_the_rank_and_the_place_of_the_dump_is_reported(
    rank: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    pipe = tmp_path / "fr_3.pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        answer = asked(rank.pid)
        assert select.select([reader], [], [], 5)[0]
        assert len(os.read(reader, 16)) == 1
    finally:
        os.close(reader)
    assert answer == {"pid": rank.pid, "pipe": str(pipe), "dump": f"{tmp_path}/dump_3"}


def test_nothing_but_its_pipe_is_written(
    rank: subprocess.Popen[bytes], tmp_path: Path, sentences: Sentences
) -> None:
    pipe, other = tmp_path / "fr_3.pipe", tmp_path / "precious"
    sentences(asked(rank.pid)["error"])
    other.write_text("kept")
    pipe.symlink_to(other)
    assert "error" in asked(rank.pid)
    pipe.unlink()
    pipe.write_text("kept")
    assert "not a pipe" in asked(rank.pid)["error"]
    assert (pipe.read_text(), other.read_text()) == ("kept", "kept")
    pipe.unlink()
    os.mkfifo(pipe)
    assert "process reads" in asked(rank.pid)["error"]


def test_a_job_without_pipes_says_what_it_lacks() -> None:
    assert "TORCH_NCCL_DEBUG_INFO_PIPE_FILE" in asked(os.getpid())["error"]
    assert trigger({}) == {"processes": []}
