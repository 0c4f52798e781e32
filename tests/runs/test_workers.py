"""Processes that tasks end by what they take: the task has failed with the reason, the others have not."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gpuwatch.runs.scan.workers import Dial, Workers


def begin() -> Callable[[int, Dial], int]:
    def do(size: int, _dial: Dial) -> int:
        return len(bytearray(size))

    return do


def test_a_task_that_needs_more_memory_than_it_may_fails_alone(capfd: pytest.CaptureFixture[str]) -> None:
    workers: Workers[int, int] = Workers(1, begin, memory=256 << 20)
    try:
        done = list(workers.results([1000, 1 << 30, 2000], lambda _: None))
    finally:
        workers.close()
    assert [each.result for each in done] == [1000, None, 2000]
    assert "256 MiB" in (done[1].fault or "")
    assert not capfd.readouterr().err
