"""Screen 6: how a job trains, and how its ranks compare."""

from __future__ import annotations

from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType

from gpuwatch.diagnose.actions.action import ActionTarget
from gpuwatch.diagnose.playbook.topics import metric_meanings
from gpuwatch.diagnose.training.job_view.rank_placement import PlacedRank
from gpuwatch.tui.actions.action_targets import about_place
from gpuwatch.tui.chrome.key_hints import KeysLine
from gpuwatch.tui.chrome.status_bar import StatusLine
from gpuwatch.tui.toolkit import keys
from gpuwatch.tui.toolkit.cockpit import OpenRequest
from gpuwatch.tui.toolkit.lines.live_screen import LiveScreen, set_height
from gpuwatch.tui.toolkit.lines.selectable_lines import SelectableLines
from gpuwatch.tui.training.curves import TrainingCurves
from gpuwatch.tui.training.header import TrainingHead
from gpuwatch.tui.training.job_view import TrainingView
from gpuwatch.tui.training.rank_table import STATISTICS, RankTable

FRAME_LINES = 3
"""Lines of the status bar (2) and the footer."""
MIN_RANK_ROWS = 5
"""Minimum number of visible ranks."""
MAX_CURVE_HEIGHT = 11


class TrainingScreen(LiveScreen):
    """The screen of one job at a time: summary, curves, ranks."""

    kind = "training"
    column_table = "ranks"
    BINDINGS: ClassVar[list[BindingType]] = [
        *keys.TRAINING,
        *keys.borrowed("Training"),
    ]

    def __init__(self, view: TrainingView) -> None:
        super().__init__()
        self.view = view
        self.head = TrainingHead(view)
        self.curves = TrainingCurves(view)
        self.ranks = RankTable(view)
        self._jobs = 0
        """The number of jobs for which the footer's keys were computed."""

    def compose(self) -> ComposeResult:
        yield StatusLine(id="status")
        yield self.head
        yield self.curves
        yield self.ranks
        yield KeysLine(self.kind)

    def on_mount(self) -> None:
        self.ranks.take_order(self.cockpit.preferences.sort.get("ranks", ""))
        self.view.refresh()
        self.ranks.focus()

    def pull(self) -> int:
        """Repaint what has changed, then compute the job if due; return the number of repainted lines."""
        painted = super().pull()
        if self.is_mounted:
            self.view.refresh()
        return painted

    def arrange_parts(self) -> None:
        """Set the height of each part: the summary gets all its lines; curves and ranks share the rest."""
        if (jobs := len(self.view.jobs)) != self._jobs:
            self._jobs = jobs
            self.refresh_bindings()
        self.head.prepare()
        facts = self.view.facts
        room = self.size.height - FRAME_LINES - self.head.count()
        set_height(self.head, self.head.count())
        ranks = len(facts.rows) if facts else 0
        self.ranks.statistics = 0 if ranks < 2 else 1 if room < 20 else len(STATISTICS)
        least = 1 + self.ranks.statistics + min(MIN_RANK_ROWS, max(1, ranks))
        lines = min(MAX_CURVE_HEIGHT, room - least, max(5, room // 4))
        self.curves.display = lines >= 3 and self.curves.is_reported()
        self.curves.lines = max(3, lines)
        set_height(self.curves, self.curves.lines)

    # ---- what the cursor is on

    def node_name(self) -> str | None:
        row = self.ranks.chosen()
        return row.node if row and row.node in self.cockpit.view_state.fleet.nodes else None

    def rank_place(self) -> PlacedRank | None:
        row, facts = self.ranks.chosen(), self.view.facts
        if row is None or row.rank is None or facts is None:
            return None
        return self.cockpit.view_state.placement.jobs.get(facts.job, {}).get(row.rank)

    def action_target(self) -> ActionTarget | None:
        row, facts = self.ranks.chosen(), self.view.facts
        if row is None or facts is None or self.node_name() is None:
            return None
        return about_place(self.cockpit.view_state, row.node, rank=row.rank, job=facts.job)

    @on(SelectableLines.Chosen, "#ranks")
    def _open(self) -> None:
        row = self.ranks.chosen()
        if row is None:
            return
        if row.uuid is not None and self.cockpit.view_state.gpu(row.node, row.uuid) is not None:
            self.cockpit.show_place(row.node, row.uuid)
        else:
            self.action_next_mode(1)

    # ---- gestures

    def action_next_mode(self, step: int) -> None:  # noqa: ARG002 - there is one other way to show it
        """Open the rank's log at the line that reported its newest step."""
        row = self.ranks.chosen()
        if row is None or row.file is None:
            self.notify("no log file of this rank is known", timeout=3)
            return
        offset = None if row.writer is None else row.writer.offset
        ranks = () if row.rank is None else (row.rank,)
        self.cockpit.show_logs(OpenRequest(row.node, row.file, offset, ranks=ranks))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Return False for the key of the next job if there is only one; else as Textual does."""
        if action == "next_item":
            return len(self.view.jobs) > 1
        return super().check_action(action, parameters)

    def idle(self) -> frozenset[str]:
        """Return the actions that do nothing now, for lack of a listed rank or of its log."""
        row = self.ranks.chosen()
        if row is None and not self.ranks.only_flagged:
            return frozenset({"choose", "sort", "unhealthy", "next_mode"})
        return frozenset() if row is not None and row.file is not None else frozenset({"next_mode"})

    def step_back(self) -> bool:
        """Show all ranks again; return False if they are already shown."""
        if not self.ranks.only_flagged:
            return False
        self.action_unhealthy()
        return True

    def action_next_item(self, step: int) -> None:
        """Show the job `step` places further in the list."""
        self.view.turn(step)
        self.pull()

    def explained(self) -> str:
        name = self.ranks.sort_name
        return f"rank.{name}" if name in metric_meanings()["rank"] else ""

    def action_sort(self) -> None:
        self.ranks.sort_next()

    def action_reverse(self) -> None:
        self.ranks.reverse()

    def action_unhealthy(self) -> None:
        """Switch between showing only the outliers and all ranks."""
        self.ranks.only_flagged = not self.ranks.only_flagged
        self.ranks.repaint()
