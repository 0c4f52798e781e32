"""Two jobs in one fleet, watched by a book of alerts."""

from __future__ import annotations

from typing import Any

from gpuwatch import wire
from gpuwatch.diagnose.alert_book import AlertBook
from gpuwatch.diagnose.model.incident import Incident
from gpuwatch.hosts.plan import Thresholds
from tests.diagnose.finding import PACK
from tests.fleet.jobs.two_jobs import WALL, Several, rank

ONE, OTHER = "127.0.0.1:29500", "127.0.0.1:29501"


class Watched(Several):
    """The same with a book of alerts, whose clock follows the reports."""

    def __init__(self, nodes: int = 1) -> None:
        super().__init__(nodes)
        self.book = AlertBook(PACK, Thresholds())

    def look(self, at: float) -> None:
        """Seconds pass."""
        self.book.update(self.fleet, at, WALL + at)

    def incidents(self, at: float = 1000.0) -> dict[str | None, Incident]:
        """Job -> its incident; of none there are two."""
        for second in range(4):
            self.look(at + 5 * second)
        found = {each.job: each for each in self.book.incidents}
        assert len(found) == len(self.book.incidents)
        return found


def stated(incident: Incident) -> list[tuple[str, int | None]]:
    """Codes and ranks of the lines that are in it."""
    return sorted((alert.code, alert.rank) for alert in incident.alerts if alert.proof[0].kind == "line")


def both(reported: Several, node: str = "n1", **other: Any) -> None:
    """Two jobs of two ranks on a node, with the files that they write."""
    ranks = [rank(number, 900 + number, 2, master=ONE, start=WALL - 90) for number in range(2)]
    more = [
        rank(number, 800 + number, 2, **{"master": OTHER, "start": WALL - 80, **other}) for number in range(2)
    ]
    reported.run(node, *ranks, *more)
    reported.list_files(
        node, *(wire.LogFile(each.logs[0], pids=[each.pid]) for each in [*ranks, *more] if each.logs)
    )
