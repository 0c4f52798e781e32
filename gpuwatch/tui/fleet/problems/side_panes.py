"""The panes beside or under the node table: the problem list, and on a wide screen the training job."""

# ruff: noqa: PLC0415  the job's panes are imported when they are first shown: the first paint needs them seldom

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.app import ComposeResult
from textual.containers import Vertical

from gpuwatch.tui.fleet.problems.active_problems import ActiveProblems
from gpuwatch.tui.model.view_state import ViewState
from gpuwatch.tui.toolkit.lines.live_screen import set_height

if TYPE_CHECKING:
    from gpuwatch.tui.training.curves import TrainingCurves
    from gpuwatch.tui.training.header import TrainingHead
    from gpuwatch.tui.training.job_view import TrainingView

CURVE_LINES, MAX_CURVE_LINES, MIN_PROBLEMS = 9, 20, 12
"""Lines of the curves, at least and at most, and the minimum for the problems; curves are dropped first."""
SPARE_PROBLEMS = 4
"""Lines kept free under the problems, so that a further one does not change the curves."""


class SidePanes(Vertical):
    """The part of the fleet screen with the problem list, and above it one job if the screen is wide.

    The job is that of the scope, else the first of `jobs_of`: running jobs come before ended ones.
    """

    def __init__(self, view_state: ViewState) -> None:
        super().__init__(id="fleet-side")
        self.situation = ActiveProblems()
        self._view_state = view_state
        self._job: TrainingView | None = None
        self._parts: tuple[TrainingHead, TrainingCurves] | None = None

    def compose(self) -> ComposeResult:
        yield self.situation

    def share(self, lines: int, *, wide: bool) -> None:
        """Set the heights of the parts within `lines`; the job is shown only if `wide` and there is one.

        No effect until the parts are mounted.
        """
        if wide and self._parts is None and self.is_mounted:
            self._mount_job()
        if self._parts is None or self._job is None or not all(part.is_mounted for part in self._parts):
            return
        head, curves = self._parts
        head.display = wide and bool(self._job.jobs)
        if not head.display:
            curves.display = False
            return
        head.prepare()
        used = min(head.count(), max(1, lines - MIN_PROBLEMS))
        set_height(head, used)
        spare = lines - used - max(MIN_PROBLEMS, self.situation.least_lines + SPARE_PROBLEMS)
        curves.lines = max(CURVE_LINES, min(MAX_CURVE_LINES, spare))
        set_height(curves, curves.lines)
        # set once: to hide and show it in one frame lays out the whole screen again
        curves.display = curves.is_reported() and lines - used - CURVE_LINES >= MIN_PROBLEMS

    def _mount_job(self) -> None:
        from gpuwatch.tui.training.curves import TrainingCurves
        from gpuwatch.tui.training.header import TrainingHead
        from gpuwatch.tui.training.job_view import TrainingView

        self._job = TrainingView(self._view_state)
        self._parts = TrainingHead(self._job, turns=False), TrainingCurves(self._job)
        self.mount(*self._parts, before=self.situation)

    def work(self) -> None:
        """Continue to compute the job's values, if its panes were ever shown."""
        if self._job is not None:
            self._job.refresh()
