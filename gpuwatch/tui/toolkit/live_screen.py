"""A screen that is kept true by the pump."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, cast

from textual.screen import Screen
from textual.widget import Widget

from gpuwatch.diagnose.actions.action import ActionTarget
from gpuwatch.tui.model.preferences import Table
from gpuwatch.tui.toolkit import keys
from gpuwatch.tui.toolkit.cockpit import Cockpit
from gpuwatch.tui.toolkit.error_boundary import ErrorBoundary
from gpuwatch.tui.toolkit.line_view import LineView
from gpuwatch.tui.toolkit.selectable_lines import SelectableLines

if TYPE_CHECKING:
    from textual.binding import BindingType

    from gpuwatch.diagnose.training.job_view.rank_placement import PlacedRank


def set_height(part: Widget, lines: int) -> None:
    """Give a part its height; textual lays everything out again, so only when it changed."""
    if part.styles.height is None or part.styles.height.value != lines:
        part.styles.height = lines


def set_width(part: Widget, columns: int) -> None:
    """The same with its width."""
    if part.styles.width is None or part.styles.width.value != columns:
        part.styles.width = columns


class LiveScreen(ErrorBoundary, Screen[None]):
    """Pulls its visible Line-API widgets once a frame."""

    BINDINGS: ClassVar[list[BindingType]] = [*keys.PANES]
    kind: ClassVar[str]
    """Which screen it is, for those who do not import it."""
    column_table: ClassVar[Table | None] = None
    """The table whose columns `C` chooses."""
    _idle: frozenset[str] = frozenset()
    """For which actions the line of key hints was made."""
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (110, "-wide"), (160, "-vast")]  # noqa: RUF012 - textual types it so

    @property
    def cockpit(self) -> Cockpit:
        """The app, as screens use it."""
        return cast("Cockpit", self.app)

    def arrange_parts(self) -> None:
        """Give the parts their heights, before they are pulled."""

    def pull(self) -> int:
        """Repaint what moved; returns the number of lines."""
        if not self.is_mounted:
            return 0
        try:
            self.arrange_parts()
            if (idle := self.idle()) != self._idle:
                self._idle = idle
                self.refresh_bindings()
        except Exception as error:
            self.cockpit.report_fault(self.part, error)
        return sum(part.pull() for part in self.query(LineView) if part.is_on_screen)

    def on_resize(self) -> None:
        """Another size: the parts share the room anew before they are painted."""
        self.pull()

    def on_screen_resume(self) -> None:
        """Back in sight: catch up."""
        self.pull()

    def copy_text(self) -> str:
        """What `y` copies."""
        return self.focused.copy_text() if isinstance(self.focused, SelectableLines) else ""

    def open_filter(self) -> bool:
        """Ask what to find here; False: nothing is found on this screen."""
        return False

    def idle(self) -> frozenset[str]:
        """Actions that would do nothing now; the line of key hints leaves them out."""
        return frozenset()

    def step_back(self) -> bool:
        """Close what is open on this screen, one thing at a time; False: there is nothing."""
        return False

    def explained(self) -> str:
        """What `i` explains: the id of a rule, an alert or a metric; empty: the topics are listed."""
        return ""

    def rank_place(self) -> PlacedRank | None:
        """Where the rank under the cursor runs, or ran; None: there is none."""
        return None

    def action_target(self) -> ActionTarget | None:
        """What `A` acts on; None: the node of `node_name`, if any."""
        return None

    def node_name(self) -> str | None:
        """The node that this screen is about, or its cursor is on."""
        return None
