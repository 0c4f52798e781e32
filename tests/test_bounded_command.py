"""A command ends within its bounds, whatever it prints, reads or leaves behind."""

from __future__ import annotations

import os
import subprocess
import tracemalloc
from collections.abc import Sequence
from pathlib import Path

import pytest

from gpuwatch.bounded_command import MAX_WORDS_BYTES, CommandEnd, OutputTooLongError, run_bounded

LONG_S = 60.0


def shell(line: str, seconds: float = LONG_S, most: int = 1 << 20, data: bytes = b"") -> CommandEnd:
    return run_bounded(["sh", "-c", line], seconds, most, data=data, new_session=True)


def test_both_streams_the_status_and_what_it_reads() -> None:
    sent = b"x" * 300_000
    done = shell("cat; echo words >&2; exit 3", data=sent)
    assert (done.status, done.stdout, done.stderr) == (3, sent, b"words\n")
    assert shell("kill -9 $$").status == -9
    assert shell("echo lost", most=0).stdout == b""


def test_endless_output_ends_at_the_bound_and_takes_no_memory() -> None:
    tracemalloc.start()
    with pytest.raises(OutputTooLongError):
        shell("exec yes", most=4 << 20)
    assert shell("yes | head -c 2000000 >&2", most=1).stderr == b"y\n" * (MAX_WORDS_BYTES // 2)
    assert tracemalloc.get_traced_memory()[1] < 16 << 20
    tracemalloc.stop()


@pytest.mark.parametrize("line", ["exec sleep 600", "exec yes >&2", "exec >&- 2>&-; sleep 600"])
def test_one_that_does_not_end_is_killed(line: str, tmp_path: Path) -> None:
    number = tmp_path / "pid"
    for seconds in (0.5, 5.0, 30.0):
        with pytest.raises(subprocess.TimeoutExpired):
            shell(f"echo $$ > {number}; {line}", seconds=seconds)
        if number.exists():  # on a busy machine it may not have begun
            break
    with pytest.raises(ProcessLookupError):
        os.kill(int(number.read_text()), 0)


def test_what_it_leaves_in_the_background_is_not_waited_for() -> None:
    done = shell("sleep 600 & echo $!")
    os.kill(int(done.stdout), 9)  # it still runs
    assert done.status == 0


def test_one_that_reads_nothing_is_no_error() -> None:
    assert shell("exec true", data=b"x" * 1_000_000).status == 0


@pytest.mark.parametrize("argv", [["/nonexistent"], ["true", "\0"]])
def test_one_that_cannot_be_started_is_an_os_error(argv: Sequence[str]) -> None:
    with pytest.raises(OSError) as refused:
        run_bounded(argv, LONG_S, 1)
    assert refused.value.strerror
