"""The evidence bundle that a key starts; it is written in slices, one per frame."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeAlias

from gpuwatch.diagnose.model.incident import Incident
from gpuwatch.number_text import plural

if TYPE_CHECKING:
    from gpuwatch.diagnose.hang.combined_verdict import HangReport

REPORT_EVERY_S = 1.0


class EvidenceWork(Protocol):
    """The parts of `report.evidence.run.EvidenceRun` that the app uses."""

    out: Path
    over: bool

    @property
    def progress(self) -> str:
        """The current step of the work, as text for the user."""
        ...

    @property
    def troubles(self) -> list[tuple[str, str]]:
        """(what, why) of everything that is missing from the bundle."""
        ...

    def update(self) -> None:
        """Continue to write the bundle for a slice of time; sets `over` at the end.

        Raises:
            OSError: The bundle cannot be written.
        """
        ...

    def close(self) -> None:
        """Stop writing the bundle, and delete incomplete files."""
        ...


BeginEvidence: TypeAlias = "Callable[[Incident | None, str | None, HangReport | None], EvidenceWork]"
"""Begins a bundle of an incident, or of a job, with the ranks' answers.

Raises OSError if it cannot be written, and LookupError if the job is unknown.
"""


class EvidenceBundle:
    """Writes one evidence bundle at a time, and reports its progress as notices."""

    def __init__(self, notify: Callable[[str, bool], None]) -> None:
        """`notify` shows a sentence; its second argument is True for a warning."""
        self.begin: BeginEvidence | None = None
        """None: this view has no session that could write one."""
        self._notify = notify
        self._work: EvidenceWork | None = None
        self._reported_at = 0.0

    def start(self, incident: Incident | None, job: str | None, hang: HangReport | None) -> None:
        """Begin the bundle of an incident, or of a job if `incident` is None; `hang` has its ranks' answers.

        If a bundle is being written, report its progress instead.
        """
        if self._work is not None:
            self._notify(f"evidence: {self._work.progress}", False)
        elif self.begin is None:
            self._notify("an evidence bundle cannot be written here", True)
        elif incident is None and job is None:
            self._notify("no incident, and no job is chosen: nothing to bundle", False)
        else:
            try:
                self._work = self.begin(incident, job, hang)
            except OSError as error:
                self._notify(f"evidence not written: {error.strerror or error}", True)
            except LookupError as error:
                self._notify(f"evidence not written: {error}", True)

    def update(self, now: float) -> None:
        """Continue the bundle, if there is one, for a slice of time. `now`: monotonic seconds."""
        work = self._work
        if work is None:
            return
        try:
            work.update()
        except OSError as error:
            self.close()
            self._notify(f"evidence not written: {error.strerror or error}", True)
            return
        if work.over:
            self._work = None
            left_out = len(work.troubles)
            more = f"; {plural(left_out, 'item')} could not be included, see its index.md" if left_out else ""
            self._notify(f"evidence written: {work.out}{more}", False)
        elif now - self._reported_at >= REPORT_EVERY_S:
            self._reported_at = now
            self._notify(f"evidence: {work.progress}", False)

    def close(self) -> None:
        """Stop the running bundle, if there is one, and delete its incomplete files."""
        if self._work is not None:
            self._work.close()
            self._work = None
