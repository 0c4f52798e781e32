"""A hang query to all ranks, and its answer, kept with the incident."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from gpuwatch.diagnose.hang.flight_recorder.job_dumps import NO_PIPES

if TYPE_CHECKING:
    from gpuwatch.diagnose.hang.combined_verdict import HangReport
    from gpuwatch.fleet.fleet import Fleet


class Asking(Protocol):
    """What is needed of `session.hang.hang_query.HangQuery`."""

    @property
    def version(self) -> int:
        """Moves with every answer."""
        ...

    @property
    def waiting(self) -> list[str]:
        """Nodes that have not answered."""
        ...

    @property
    def over(self) -> bool:
        """Whether nothing more will come."""
        ...

    @property
    def asked(self) -> int:
        """How many ranks were asked."""
        ...

    @property
    def progress(self) -> str:
        """What else is being done; empty when nothing is."""
        ...

    def update(self) -> bool:
        """Take in what has come."""
        ...

    def write_dumps(self) -> bool:
        """Have the ranks write dumps; False: none can, or not now."""
        ...

    def hang_report(self, fleet: Fleet) -> HangReport:
        """What has come so far, judged."""
        ...


class Question:
    """One query, since when, and what it has come to."""

    def __init__(self, asking: Asking, incident: str | None, at: float) -> None:
        """Begin.

        Args:
            asking: The query.
            incident: The id of the incident that it is about, where there is one.
            at: Unix seconds.
        """
        self.asking = asking
        self.incident = incident
        self.at = at
        self.version = 0
        self.hang_report: HangReport | None = None
        self._settled = False

    def update(self, fleet: Fleet) -> bool:
        """Take in what came, and judge it anew; True when there is more to report."""
        if self._settled:
            return False
        moved = self.asking.update()
        self._settled = self.asking.over
        if moved or self.hang_report is None or self._settled:
            self.hang_report = self.asking.hang_report(fleet)
            self.version += 1
            return True
        return False

    def write_dumps(self) -> str:
        """Have the ranks write fresh dumps; why that cannot be, else nothing."""
        if not self.asking.over:
            return "ranks are still answering; try again when they have"
        if not self.asking.write_dumps():
            return NO_PIPES
        self._settled = False
        self.version += 1
        return ""

    @property
    def sentence(self) -> str:
        """What is known now."""
        if self.hang_report is None or self.hang_report.verdict is None:
            return "no rank runs on these nodes" if self.asking.over else "querying the ranks"
        return self.hang_report.verdict.sentence
