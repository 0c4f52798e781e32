"""Whoever reads dumps ends with whoever asked for them, also in the midst of a dump that never ends."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.runs.flight.writing import write
from tests.waiting import alive

WAIT_S = 240.0
NEVER_ENDS = b"\x80\x02}" + b")" + b"2\x86" * 60 + b"K\x01s."
"""A tuple of two equal tuples, 60 deep, as a key: its hash takes 2**60 steps."""
LIVE = """
import sys, time
from pathlib import Path
from gpuwatch.diagnose.hang.flight_recorder.isolated import AnalysisRequest, IsolatedAnalysis
apart = IsolatedAnalysis(Path(sys.argv[1]).parent, AnalysisRequest())
time.sleep(60)
"""


def below(pid: int) -> set[int]:
    """All processes under one."""
    found: set[int] = set()
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in map(int, path.read_text().split()):
            found |= {child} | below(child)
    return found


def busy(pid: int) -> bool:
    """Whether a process has used a tenth of a second of CPU in its own code since it was started."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return False
    return int(fields[11]) + int(fields[12]) >= 10


@pytest.mark.parametrize("who", ["flight", "live judge"])
def test_no_reader_outlives_who_asked_for_it(tmp_path: Path, who: str) -> None:
    folder = tmp_path / "dumps"
    folder.mkdir()
    for rank in range(40):
        write(folder, rank)
    for rank in (41, 42):
        (folder / f"nccl_trace_rank_{rank}").write_bytes(NEVER_ENDS)
    command = ["-m", "gpuwatch", "flight"] if who == "flight" else ["-c", LIVE]
    parent = subprocess.Popen(
        [sys.executable, *command, str(folder)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    readers: set[int] = set()
    until = time.monotonic() + WAIT_S
    depth = 1 if who == "flight" else 2
    while len(readers) < depth or not any(busy(pid) for pid in readers):
        assert time.monotonic() < until, "no reader was started"
        assert parent.poll() is None
        readers |= below(parent.pid)
        time.sleep(0.02)
    readers |= below(parent.pid)
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    while left := {pid for pid in readers if alive(pid)}:
        assert time.monotonic() < until, left
        time.sleep(0.02)


def test_a_judge_that_is_older_than_its_asker_does_not_begin(tmp_path: Path) -> None:
    """The one that asked ended while the judge was imported."""
    folder = tmp_path / "dumps"
    folder.mkdir()
    (folder / "nccl_trace_rank_0").write_bytes(NEVER_ENDS)
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    (tmp_path / "asked.json").write_text("{}")
    judge = [
        sys.executable,
        "-m",
        "gpuwatch.diagnose.hang.flight_recorder.isolated",
        str(tmp_path),
        str(gone.pid),
    ]
    assert subprocess.run(judge, timeout=WAIT_S, check=False).returncode == 0
    assert not (tmp_path / "judged.json").exists()
