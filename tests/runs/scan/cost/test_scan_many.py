"""The work of a scan grows with the number of files, and no faster."""

from __future__ import annotations

import cProfile
import pstats
from pathlib import Path

import pytest
from click.testing import CliRunner

from gpuwatch.cli.analysis.scan import scan
from gpuwatch.diagnose.error_outcome.step_track import Mark, StepTrack
from gpuwatch.diagnose.job_end.job_end import job_end
from gpuwatch.plain import plain
from gpuwatch.runs.files import files
from gpuwatch.runs.scan import scan as scan_files

BASE, FEW, MANY = 4, 40, 240
MOST = 1.06
"""Calls for one more file at `MANY` files, as a share of those at `FEW`."""

STEPS = "2026-11-22 10:00:00 INFO step 1 loss 2.1\n"
LINES = {
    "steps": "2026-11-22 10:00:{second:02d} INFO step {number} loss 2.1\n" * 5,
    "last step": "2026-11-22T10:00:{second:02d}.{number:06d}Z INFO step 10/10 loss 2.1\n"
    "2026-11-22T10:01:{second:02d}.{number:06d}Z INFO done\n",
    "one error": STEPS + "2026-11-22 10:01:00 ERROR cannot parse shard {number}\n",
    "exception": STEPS + "Traceback (most recent call last):\n  File \"t.py\", line {number}, in f\n"
    "ValueError: shard {number}\n",
    "out of memory": STEPS + "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {number} MiB.\n",
    "time-out": STEPS + "[rank{number}]:[E] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7, "
    "OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600{number:03d} milliseconds "
    "before timing out.\n",
    "peer": STEPS + "[rank{number}]: RuntimeError: [gloo] Connection closed by peer [10.0.0.{second}]:4711\n",
    "host names": "gpu-{number:04d}: step {number} loss 2.1\n",
    "table": "  rank      : {number} (local_rank: 0)\n  host      : gpu-{number}\n"
    "  exitcode  : 1 (pid: {number})\n",
}  # fmt: skip


def calls(folder: Path, line: str, count: int, name: str) -> int:
    """Calls of functions that a scan of so many files takes, compiling the rules left out."""
    folder.mkdir()
    for number in range(count):
        path = folder / name.format(number)
        path.parent.mkdir(exist_ok=True)
        path.write_text(line.format(number=number, second=number % 60))
    profile = cProfile.Profile()
    profile.enable()
    result = CliRunner().invoke(scan, ["--json", str(folder)])
    profile.disable()
    assert result.exit_code in (0, 1), result.output
    total: int = pstats.Stats(profile).total_calls  # type: ignore[attr-defined]
    return total


class ComparedName(str):
    """A file's name that counts comparisons of names: a search through a list is no call of a function."""

    __slots__ = ()
    compared = 0

    def __eq__(self, other: object) -> bool:
        ComparedName.compared += 1
        return str.__eq__(self, other)

    __hash__ = str.__hash__


@pytest.mark.parametrize(("few", "many", "read"), [(200, 800, False), (20, 80, True)])
def test_files_are_looked_up_by_name_not_searched_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, few: int, many: int, read: bool
) -> None:
    monkeypatch.setattr(files, "plain", lambda text: ComparedName(plain(text)))
    begin = scan_files.Begin.of((), "agent")

    def compared(count: int) -> int:
        folder = tmp_path / str(count)
        folder.mkdir()
        for number in range(count):
            (folder / f"rank_{number}.log").write_text(LINES["steps"].format(number=number, second=1))
        ComparedName.compared = 0
        found = files.gather([folder])
        if read:
            scan_files.scan(found, (), "agent", cores=1, begin=begin)
        assert len(found.files) == count
        return ComparedName.compared

    assert compared(many) <= 1.5 * many / few * compared(few) + many


LONG = ("exception", "out of memory", "peer", "table")


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=[pytest.mark.long] if kind in LONG else []) for kind in LINES]
)
def test_one_more_file_is_the_same_work_however_many_there_are(tmp_path: Path, kind: str) -> None:
    name = "rank_{}.log" if kind != "host names" else "gpu-{:04d}/out.log"
    calls(tmp_path / "warm", LINES[kind], 2, name)
    base = calls(tmp_path / "base", LINES[kind], BASE, name)
    few = (calls(tmp_path / "few", LINES[kind], FEW, name) - base) / (FEW - BASE)
    many = (calls(tmp_path / "many", LINES[kind], MANY, name) - base) / (MANY - BASE)
    assert many < few * MOST


def test_the_end_of_a_job_of_many_ranks_at_many_steps() -> None:
    """Ranks behind the others are looked up by their steps, not among each other."""

    def count(ranks: int) -> int:
        tracks = [
            StepTrack(None, f"rank_{rank}.log", rank, None, [Mark(rank, None, 0)]) for rank in range(ranks)
        ]
        profile = cProfile.Profile()
        profile.enable()
        job_end(tracks, [], {}, growing=False, settled=True)
        profile.disable()
        total: int = pstats.Stats(profile).total_calls  # type: ignore[attr-defined]
        return total

    assert count(1600) < 4.2 * count(400)
