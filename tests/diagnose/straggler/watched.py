"""A job of 64 ranks under watch, one of them odd."""

from __future__ import annotations

from gpuwatch.diagnose.alert_book import AlertBook
from gpuwatch.diagnose.model.alert import Alert
from gpuwatch.hosts.plan import Thresholds
from tests.diagnose.finding import PACK
from tests.diagnose.simulated_jobs import Cluster, Job, Odd

NODE, GPU, RANK = 2, 1, 17


class Watched(Cluster):
    """One job of 64 ranks, watched by a book."""

    def __init__(self, odd: Odd | None = None, **job: object) -> None:
        super().__init__()
        if odd is not None:
            self.odd = {place.uuid: odd for place in self.places}
        self.book = AlertBook(PACK, Thresholds())
        self.jobs = [Job("train", self.places, **job)]  # type: ignore[arg-type]
        self.run(120)

    @property
    def job(self) -> Job:
        return self.jobs[0]

    def run(self, seconds: float) -> None:
        for _ in range(int(seconds / self.tick_s)):
            self.tick()
            self.book.update(self.fleet, self.now, self.wall)

    def fault(self, odd: Odd) -> None:
        self.odd[self.places[RANK].uuid] = odd

    @property
    def reported(self) -> list[Alert]:
        """All that has fired of ranks and GPUs, and not of the job's pace: of one GPU alone."""
        alerts = [each for each in self.book.alerts.values() if not each.code.startswith("train.")]
        assert {(each.node, each.gpu, each.rank) for each in alerts} <= {(f"gpu-{NODE:03d}", GPU, RANK)}
        return alerts

    def alert(self, code: str) -> Alert:
        (alert,) = (each for each in self.reported if each.code == code)
        return alert
