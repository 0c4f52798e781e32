"""Ranks that lack the last step of a shared file, and runs of which one stops without a word."""

from __future__ import annotations

import pytest

from gpuwatch.diagnose.error_outcome.step_track import Mark, StepTrack
from gpuwatch.diagnose.job_end.jobs_apart import runs_that_stop
from gpuwatch.diagnose.job_end.training_tracks import behind_in_step


def shared(ends: dict[int, int], late: int = 0) -> list[StepTrack]:
    """Ranks that write each step together into one file; `late`: bytes by which rank 0 lags."""
    return [
        StepTrack(
            None, "out", rank, None,
            [Mark(step, None, 100 * step + rank + (late if rank == 0 else 0)) for step in range(1, end + 1)],
            1000, alone=False,
        )
        for rank, end in ends.items()
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("ends", "late", "behind"),
    [
        ({0: 30, 1: 30, 2: 29, 3: 30}, 0, (2,)),
        ({0: 30, 1: 30, 2: 29, 3: 29}, 0, ()),
        ({0: 30, 1: 30, 2: 30, 3: 30}, 0, ()),
        ({0: 29, 1: 30, 2: 30, 3: 30}, 150, ()),
        ({0: 30, 1: 29, 2: 30}, 0, ()),
    ],
)
def test_one_missing_line_names_a_rank_only_where_all_step_together(
    ends: dict[int, int], late: int, behind: tuple[int, ...]
) -> None:
    assert behind_in_step(shared(ends, late)) == behind


def run(file: str, last: int, at: float | None, node: str | None = None) -> StepTrack:
    marks = [Mark(step, None if at is None else at + step, 9 * step) for step in range(1, last + 1)]
    return StepTrack(node, file, None, None, marks, 60)


@pytest.mark.parametrize(
    ("tracks", "stopped"),
    [
        ([run("a/log", 60, 0), run("b/log", 20, 900)], ["b/log"]),
        ([run("a/log", 20, 0), run("b/log", 60, 900)], []),
        ([run("a/log", 60, None), run("b/log", 20, None)], ["b/log"]),
        ([run("try1/log", 20, None), run("try2/log", 60, None)], []),
        ([run("fold1/log", 20, None), run("fold2/log", 60, None)], ["fold1/log"]),
        ([run("a.log", 60, 0), run("b.log", 20, 5)], []),
        ([run("a/log", 60, 0, "h1"), run("b/log", 20, 900, "h2")], []),
        ([run("a/log", 60, 0), run("b/log", 50, 900)], []),
    ],
)
def test_a_run_that_stops_beside_one_that_finished(tracks: list[StepTrack], stopped: list[str]) -> None:
    found = runs_that_stop(tracks)
    assert [file for file, own in found.items() if not own[0].complete] == stopped
