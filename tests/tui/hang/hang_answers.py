"""A hang query whose answers come when a test says so."""

from __future__ import annotations

from msgspec.structs import replace

from gpuwatch.diagnose.hang.combined_verdict import HangReport, analyze
from gpuwatch.diagnose.hang.flight_recorder.job_dumps import FlightEvidence
from gpuwatch.diagnose.hang.remedies import advised
from gpuwatch.diagnose.hang.stacks.groups import RankStack
from gpuwatch.fleet.fleet import Fleet
from tests.diagnose.hang.rank_stacks import LOADS, WAITS, python

CULPRIT = 85


class Asked:
    """An query whose answers come when the test says so."""

    def __init__(self) -> None:
        self.version = 0
        self.answers: list[RankStack] = []
        self.waiting = ["gpu-001", "gpu-011"]
        self.asked = 128
        self.reported = 0
        self.progress = ""
        self.dumps: FlightEvidence | None = None
        self.wrote = 0

    @property
    def over(self) -> bool:
        return not self.waiting

    def update(self) -> bool:
        moved, self.reported = len(self.answers) != self.reported, len(self.answers)
        return moved

    def hang_report(self, fleet: Fleet) -> HangReport:
        return advised(analyze(self.answers, (), {}, lambda _host, _pid: None, self.dumps), fleet)

    def write_dumps(self) -> bool:
        self.wrote += 1
        return self.dumps is not None

    def answer(self) -> None:
        """Everybody does: one is in its data loader."""
        ranks = (python(rank, LOADS if rank == CULPRIT else WAITS) for rank in range(128))
        self.answers = [replace(each, job="418207") for each in ranks]
        self.waiting = []
