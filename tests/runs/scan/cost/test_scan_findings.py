"""The work of a scan for one more finding does not grow with the lines around it."""

from __future__ import annotations

import cProfile
import pstats
from pathlib import Path

import pytest

from gpuwatch.agent.logs.lines import normalise, timestamps
from gpuwatch.cli.analysis.scan import scan
from gpuwatch.runs.files.times import MAX_LINES_TRIED, Times, TimesAround, stretches

LINE = "[rank{}]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB\n"


def looked_at(folder: Path, count: int) -> int:
    """How often a line was searched for a time or for its speaker, in a log of so many undated findings."""
    folder.mkdir()
    (folder / "rank0.log").write_text("".join(LINE.format(rank) for rank in range(count)))
    profile = cProfile.Profile()
    profile.enable()
    scan.main(["--json", str(folder)], standalone_mode=False)
    profile.disable()
    known = pstats.Stats(profile).stats  # type: ignore[attr-defined]
    names = {(normalise.__file__, "messages"), (timestamps.__file__, "time_of")}
    return sum(calls[1] for (file, _, name), calls in known.items() if (file, name) in names)


def test_lines_around_undated_findings_are_read_a_few_times_each(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    few, many = looked_at(tmp_path / "few", 100), looked_at(tmp_path / "many", 300)
    capsys.readouterr()
    assert many < 3.3 * few
    assert many < 12 * 300


def test_the_nearest_times_are_found_within_bounds() -> None:
    dated = b"2026-11-22 10:00:0%d INFO step\n"
    bare = b"no time here\n"
    data = dated % 1 + bare * (MAX_LINES_TRIED - 1) + b"HERE\n" + bare * MAX_LINES_TRIED + dated % 2
    around = TimesAround(data, 2e9)
    here = data.index(b"HERE")
    found = around.of(here)
    assert (found.above is None, found.below) == (False, None)
    assert around.of(here + len(b"HERE\n")).below is not None
    assert around.of(here + len(b"HERE\n")).above is None
    assert TimesAround(b"", 2e9).of(0) == Times()


def test_findings_that_are_near_are_dated_together() -> None:
    assert list(stretches([5, 20, 100, 110, 119, 131], around=10, most=25)) == [
        [5, 20],
        [100, 110, 119],
        [131],
    ]
