"""A hang query to all ranks, and its result so far."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from gpuwatch.diagnose.hang.flight_recorder.job_dumps import NO_PIPES

if TYPE_CHECKING:
    from gpuwatch.diagnose.hang.combined_verdict import HangReport
    from gpuwatch.fleet.fleet import Fleet


class Asking(Protocol):
    """The parts of `session.hang.hang_query.HangQuery` that the screens need."""

    @property
    def version(self) -> int:
        """Increases with every answer."""
        ...

    @property
    def waiting(self) -> list[str]:
        """Names of the nodes that have not answered."""
        ...

    @property
    def over(self) -> bool:
        """True if nothing more will be received."""
        ...

    @property
    def asked(self) -> int:
        """Number of ranks queried."""
        ...

    @property
    def progress(self) -> str:
        """The activity besides receiving answers (uploading py-spy, fetching dumps); "" for none."""
        ...

    def update(self) -> bool:
        """Process what was received; return True if there is anything new."""
        ...

    def write_dumps(self) -> bool:
        """Request fresh dumps from the ranks; return False if none can write one, or not now."""
        ...

    def hang_report(self, fleet: Fleet) -> HangReport:
        """Return the report of the hang query from the answers received so far."""
        ...


class Question:
    """One hang query, when it began, and its result so far."""

    def __init__(self, asking: Asking, incident: str | None, at: float) -> None:
        """Wrap a query that has just begun.

        Args:
            asking: The query.
            incident: The id of the incident that it is about, if any.
            at: When it began (unix seconds).
        """
        self.asking = asking
        self.incident = incident
        self.at = at
        self.version = 0
        self.hang_report: HangReport | None = None
        self._settled = False

    def update(self, fleet: Fleet) -> bool:
        """Process what was received and update the result; return True if there is anything new."""
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
        """Request fresh dumps from the ranks; return why that is impossible, "" if it was done."""
        if not self.asking.over:
            return "ranks are still answering; try again when they have"
        if not self.asking.write_dumps():
            return NO_PIPES
        self._settled = False
        self.version += 1
        return ""

    @property
    def sentence(self) -> str:
        """The verdict so far in one sentence; before it, that ranks are being queried, or that none runs."""
        if self.hang_report is None or self.hang_report.verdict is None:
            return "no rank runs on these nodes" if self.asking.over else "querying the ranks"
        return self.hang_report.verdict.sentence
