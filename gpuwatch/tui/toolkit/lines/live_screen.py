"""The base of the screens that are updated once per frame."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, cast

from textual.screen import Screen
from textual.widget import Widget

from gpuwatch.diagnose.actions.action import ActionTarget
from gpuwatch.tui.model.preferences import Table
from gpuwatch.tui.toolkit import keys
from gpuwatch.tui.toolkit.cockpit import Cockpit
from gpuwatch.tui.toolkit.error_boundary import ErrorBoundary
from gpuwatch.tui.toolkit.lines.line_view import LineView
from gpuwatch.tui.toolkit.lines.selectable_lines import SelectableLines

if TYPE_CHECKING:
    from textual.binding import BindingType

    from gpuwatch.diagnose.training.job_view.rank_placement import PlacedRank


def set_height(part: Widget, lines: int) -> None:
    """Set a widget's height if it differs: each change makes Textual lay out the screen again."""
    if part.styles.height is None or part.styles.height.value != lines:
        part.styles.height = lines


def set_width(part: Widget, columns: int) -> None:
    """Set a widget's width if it differs: each change makes Textual lay out the screen again."""
    if part.styles.width is None or part.styles.width.value != columns:
        part.styles.width = columns


def leave_hidden_part(screen: Screen[Any]) -> None:
    """Move the focus to the next visible part if the focused part is hidden, such as a closed text field.

    A hidden field would take every key.
    """
    focused = screen.focused
    if focused is not None and not all(
        each.display for each in focused.ancestors_with_self if isinstance(each, Widget)
    ):
        screen.focus_next()


class LiveScreen(ErrorBoundary, Screen[None]):
    """A screen that repaints its visible line views once per frame."""

    BINDINGS: ClassVar[list[BindingType]] = [*keys.PANES]
    kind: ClassVar[str]
    """The name of the kind of screen; other modules identify the screen by it without an import."""
    column_table: ClassVar[Table | None] = None
    """The only table whose columns `C` selects, if any."""
    _hinted: tuple[frozenset[str], Mapping[str, str]] = (frozenset(), {})
    """The idle actions and the labels for which the line of key hints was built."""
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (110, "-wide"), (160, "-vast")]  # noqa: RUF012 - textual types it so

    @property
    def cockpit(self) -> Cockpit:
        """The app, with the interface that screens use."""
        return cast("Cockpit", self.app)

    def table_of_columns(self) -> Table | None:
        """Return the table whose columns `C` selects now; None if the screen has none."""
        return self.column_table

    def arrange_parts(self) -> None:
        """Set the sizes of the parts before they are painted; called once per frame."""

    def pull(self) -> int:
        """Repaint what has changed; return the number of repainted lines."""
        if not self.is_mounted:
            return 0
        try:
            self.arrange_parts()
            if (hinted := (self.idle(), self.labels())) != self._hinted:
                self._hinted = hinted
                self.refresh_bindings()
        except Exception as error:
            self.cockpit.report_fault(self.part, error)
        return sum(part.pull() for part in self.query(LineView) if part.is_on_screen)

    def on_resize(self) -> None:
        """Lay the parts out for the new size."""
        self.pull()

    def on_screen_resume(self) -> None:
        """Update the screen after the one above it was closed."""
        self.pull()

    def copy_text(self) -> str:
        """Return the text that the copy key copies; "" if there is none."""
        return self.focused.copy_text() if isinstance(self.focused, SelectableLines) else ""

    def open_filter(self) -> bool:
        """Open the screen's search or filter field; return False if it has none."""
        return False

    def idle(self) -> frozenset[str]:
        """Return the actions without effect now, which the line of key hints leaves out."""
        return frozenset()

    def labels(self) -> Mapping[str, str]:
        """Return action -> what it does now, for the line of key hints; others have their usual labels."""
        return {}

    def step_back(self) -> bool:
        """Close what was opened last on this screen; return False if nothing is."""
        return False

    def explained(self) -> str:
        """Return the id of the rule, alert or metric to explain; "" if none is under the cursor."""
        return ""

    def rank_place(self) -> PlacedRank | None:
        """Return the rank under the cursor, running or ended; None if there is none."""
        return None

    def action_target(self) -> ActionTarget | None:
        """Return the target of the actions key; None: the node of `node_name`, if any."""
        return None

    def node_name(self) -> str | None:
        """Return the node of this screen, or under its cursor; None if there is none."""
        return None
