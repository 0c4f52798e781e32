"""The GPUs of one node in one widget, drawn as large as possible."""

from __future__ import annotations

from collections.abc import Hashable
from itertools import zip_longest
from typing import ClassVar

from rich.segment import Segment

from gpuwatch.fleet.nodes.node import Gpu
from gpuwatch.tui.model.log_folder import NOT_IN_LOGS
from gpuwatch.tui.node.gpu_card import (
    Shape,
    as_card,
    as_line,
    as_pair,
    line_heading,
    lines_of,
    shape_for,
)
from gpuwatch.tui.node.gpu_columns import GpuValue, selected
from gpuwatch.tui.node.gpu_subject import Subject, incident_marks
from gpuwatch.tui.toolkit.lines.rows import Row, highlighted, text_of, wrapped
from gpuwatch.tui.toolkit.lines.selectable_lines import RebuiltPage
from gpuwatch.tui.toolkit.styles import clean
from gpuwatch.tui.toolkit.text import link_words


class GpuPanels(RebuiltPage):
    """The widget with one line, two lines or a card per GPU of a node; the cursor moves over GPUs."""

    DEFAULT_CSS: ClassVar[str] = "GpuPanels { height: 9; }"

    def __init__(self, name: str, uuid: str | None) -> None:
        super().__init__(id="gpus")
        self.node_name = name
        self.room = 9
        """Number of lines that it may use; set by the screen."""
        self.shape: Shape = "line"
        self.across = 1
        self._wanted = uuid
        self._made_for: Hashable = None

    def gpus(self) -> list[Gpu]:
        """Return the node's GPUs, by index."""
        view = self.cockpit.overview.views.get(self.node_name)
        return view.gpus if view else []

    @property
    def chosen_columns(self) -> list[GpuValue]:
        """The values that the settings select for the table `gpus`."""
        return selected(self.cockpit.preferences.columns.get("gpus", ()))

    @property
    def _lines(self) -> int:
        return lines_of(self.shape, len(self.chosen_columns))

    def chosen(self) -> Gpu | None:
        gpus = self.gpus()
        return gpus[self.at] if self.at < len(gpus) else None

    def prepare(self) -> None:
        """Rebuild the lines for new values, another time or another size.

        A screen that opens prepares its parts several times in one frame.
        """
        if self._state() != self._made_for:
            super().prepare()
            self._made_for = self._state()

    def _state(self) -> Hashable:
        """Return everything on which the lines depend."""
        state, view = self.view_state, self.cockpit.overview.views.get(self.node_name)
        return (
            (state.now, id(state.snapshot), id(view), view and view.node.version, id(self.look)),
            (self.columns, self.room, self._wanted, self.at, self.has_focus),
            tuple(self.cockpit.preferences.columns.get("gpus", ())),
        )

    def build(self, width: int) -> list[Row]:
        view = self.cockpit.overview.views.get(self.node_name)
        gpus = self.gpus()
        if view is None or not gpus:
            return self._without_gpus(width)
        if self._wanted is not None:
            self.at = next((i for i, gpu in enumerate(gpus) if gpu.info.uuid == self._wanted), 0)
            self._wanted = None
        self.shape, self.across = shape_for(len(gpus), len(self.chosen_columns), width, self.room)
        marks = incident_marks(view.node, self.view_state.snapshot.incidents, self.view_state.wall())
        subjects = [Subject(gpu, view.node, view, self.view_state.now, marks) for gpu in gpus]
        self.pinned = 0 if self.shape == "card" else 1
        if self.shape == "card":
            return self._cards(subjects, width)
        columns = self.chosen_columns
        rows: list[Row] = [line_heading(columns, width, self.look)]
        for index, subject in enumerate(subjects):
            own = (
                [as_line(subject, columns, width, self.look)]
                if self.shape == "line"
                else as_pair(subject, columns, width, self.look)
            )
            if index == self.at and self.has_focus:
                own[0] = highlighted(own[0], width, self.look.cursor)
            rows += own
        return rows

    def _without_gpus(self, width: int) -> list[Row]:
        self.pinned = 0
        node = self.view_state.node(self.node_name)
        if node is None or node.hello is None:
            words = (link_words(node, self.view_state.now) if node else "") or "waiting for the first message"
            return wrapped(words, width, self.look.severity["unknown"])
        if self.view_state.folder is not None:
            return wrapped(f"GPU and host values: {NOT_IN_LOGS}.", width, self.look.dim)
        words = "No NVIDIA GPU on this node; host metrics only."
        if node.spec.link == "local":
            words += " For a cluster: gpuwatch hosts.yaml. For a simulated one: gpuwatch --demo."
        return wrapped(words, width, self.look.dim)

    def _cards(self, subjects: list[Subject], width: int) -> list[Row]:
        each, columns = (width - 2 * (self.across - 1)) // self.across, self.chosen_columns
        rows: list[Row] = []
        for first in range(0, len(subjects), self.across):
            cards = [
                as_card(
                    subject,
                    columns,
                    each,
                    self.look,
                    chosen=self.has_focus and first + i == self.at,
                )
                for i, subject in enumerate(subjects[first : first + self.across])
            ]
            rows += [self._side_by_side(line, each) for line in zip_longest(*cards, fillvalue=())]
        return rows

    @staticmethod
    def _side_by_side(parts: tuple[Row, ...], each: int) -> Row:
        out: list[Segment] = []
        for position, part in enumerate(parts):
            out += part
            if position + 1 < len(parts):
                out.append(Segment(" " * (each - sum(s.cell_length for s in part) + 2)))
        return tuple(out)

    def key(self, line: int) -> object:
        return self._rows[line]

    def row(self, line: int, width: int) -> Row:  # noqa: ARG002 - made for this width already
        return self._rows[line]

    # ---- the cursor

    def items(self) -> int:
        return len(self.gpus())

    def first_line(self, item: int) -> int:
        """Return the first line of the GPU with this position in the list."""
        return self.pinned + item // self.across * self._lines

    def item_at(self, line: int, x: int) -> int | None:
        """Return the list position of the GPU at a line and column; None on the heading."""
        if line < self.pinned:
            return None
        column = min(self.across - 1, x * self.across // max(1, self.columns))
        return (line - self.pinned) // self._lines * self.across + column

    def steps(self, dx: int, dy: int) -> int:
        """Return the GPUs to move by: up and down move by a whole row of cards."""
        return dx + dy * self.across

    def copy_text(self) -> str:
        gpu, view = self.chosen(), self.cockpit.overview.views.get(self.node_name)
        if gpu is None or view is None:
            return ""
        subject = Subject(gpu, view.node, view, self.view_state.now)
        line = text_of(as_line(subject, self.chosen_columns, 160, self.look))
        return f"{clean(view.name)} {line} {clean(gpu.info.uuid)}"
