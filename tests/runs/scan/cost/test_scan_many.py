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
