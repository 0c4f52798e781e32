"""A screen that the pump keeps up to date."""

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
    """Set a part's height only if it changed: textual then lays everything out again."""
    if part.styles.height is None or part.styles.height.value != lines:
        part.styles.height = lines


def set_width(part: Widget, columns: int) -> None:
    """Set a part's width only if it changed."""
    if part.styles.width is None or part.styles.width.value != columns:
        part.styles.width = columns


class LiveScreen(ErrorBoundary, Screen[None]):
    """A screen that repaints its visible Line-API widgets once per frame."""

    BINDINGS: ClassVar[list[BindingType]] = [*keys.PANES]
    kind: ClassVar[str]
    """Identifies the screen without importing it."""
    column_table: ClassVar[Table | None] = None
    """The table whose columns `C` selects."""
    _idle: frozenset[str] = frozenset()
    """The idle actions for which the line of key hints was built."""
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (110, "-wide"), (160, "-vast")]  # noqa: RUF012 - textual types it so

    @property
    def cockpit(self) -> Cockpit:
        """The app, as screens use it."""
        return cast("Cockpit", self.app)

    def arrange_parts(self) -> None:
        """Set the heights of the parts, before they are painted."""

    def pull(self) -> int:
        """Repaint what changed; returns the number of lines."""
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
        """Lay the parts out again for a new size."""
        self.pull()

    def on_screen_resume(self) -> None:
        """Update after another screen was closed."""
        self.pull()

    def copy_text(self) -> str:
        """The text that `y` copies."""
        return self.focused.copy_text() if isinstance(self.focused, SelectableLines) else ""

    def open_filter(self) -> bool:
        """Open a search or filter field; False: this screen has none."""
        return False

    def idle(self) -> frozenset[str]:
        """Actions without effect now; the line of key hints leaves them out."""
        return frozenset()

    def step_back(self) -> bool:
        """Close what is open on this screen, one thing at a time; False: nothing is."""
        return False

    def explained(self) -> str:
        """The id of the rule, alert or metric that `i` explains; "": the topics are listed."""
        return ""

    def rank_place(self) -> PlacedRank | None:
        """The place of the rank under the cursor, running or ended; None: there is none."""
        return None

    def action_target(self) -> ActionTarget | None:
        """The target of the actions key; None: the node of `node_name`, if any."""
        return None

    def node_name(self) -> str | None:
        """The node of this screen, or under its cursor."""
        return None
