"""Pages whose cursor moves over items of one or more lines; other lines may stand between them."""

from __future__ import annotations

from collections.abc import Hashable, Iterable

from msgspec import Struct
from rich.segment import Segment
from rich.style import Style

from gpuwatch.diagnose.model.alert import Alert
from gpuwatch.tui.toolkit.lines.rows import Row, highlighted, wrapped
from gpuwatch.tui.toolkit.lines.selectable_lines import RebuiltPage


def hanging(head: Row, text: str, width: int, style: Style) -> tuple[Row, ...]:
    """Return a head followed by a wrapped text, all lines of which begin in the same column."""
    indent = sum(part.cell_length for part in head)
    rows = wrapped(text, width, style, indent=indent)
    if not rows:
        return (head,)
    return ((*head, Segment(rows[0][0].text[indent:], style)), *rows[1:])


class PageItem(Struct, frozen=True):
    """Something on a page that the cursor can select."""

    key: Hashable
    """Identifies the item when the lines around it change."""
    rows: tuple[Row, ...]
    """The lines of the item, at least one."""
    alert: Alert | None = None
    """The alert that Enter opens."""
    text: str = ""
    """The text to copy; "": the first line."""
    more: tuple[Row, ...] = ()
    """Lines that are shown below `rows` while the cursor is on the item and the page has the focus."""


class MultiLinePage(RebuiltPage):
    """The base of pages whose items have one or more lines; rebuilt when something has changed."""

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 - textual's name
        super().__init__(id=id)
        self._starts: list[int] = []
        """The first line of each item."""
        self._on: Hashable = None
        """The key of the item under the cursor."""
        self._made_for: Hashable = None

    def made_for(self) -> Hashable:
        """Return everything on which the lines depend except width, style and time.

        A change rebuilds them.
        """
        raise NotImplementedError

    def prepare(self) -> None:
        """Rebuild the lines if something has changed, and once per second because of ages."""
        made_for = (
            self.made_for(),
            int(self.view_state.now),
            self.columns,
            id(self.look),
            self.at,
            self.has_focus,
        )
        if made_for != self._made_for:
            self._made_for = made_for
            super().prepare()

    def first_line(self, item: int) -> int:
        """Return the first line of an item; 0 if there is no such item."""
        return self._starts[item] if item < len(self._starts) else 0

    def item_at(self, line: int, x: int) -> int | None:  # noqa: ARG002 - the whole line belongs to it
        """Return the index of the item that contains a line, else of the one above; None above the first."""
        return next((i for i, start in reversed(list(enumerate(self._starts))) if start <= line), None)

    def key(self, line: int) -> Hashable:
        """Return the line itself, because the cursor is painted into it."""
        return self._rows[line]

    def row(self, line: int, width: int) -> Row:  # noqa: ARG002 - made for this width already
        return self._rows[line]


class ItemPage(MultiLinePage):
    """A page whose subclasses yield its lines and items in `parts`.

    The cursor stays on its item while others appear and disappear.
    """

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 - textual's name
        super().__init__(id=id)
        self.page_items: list[PageItem] = []

    def parts(self, width: int) -> Iterable[Row | PageItem]:
        """Return all lines and items, from top to bottom; subclasses implement it."""
        raise NotImplementedError

    def build(self, width: int) -> list[Row]:
        """Return all lines, those of the selected item on the cursor's background."""
        parts = list(self.parts(width))
        self.page_items = [part for part in parts if isinstance(part, PageItem)]
        self._find()
        rows: list[Row] = []
        self._starts = []
        for part in parts:
            if not isinstance(part, PageItem):
                rows.append(part)
                continue
            here = self.has_focus and len(self._starts) == self.at
            self._starts.append(len(rows))
            rows += [highlighted(row, width, self.look.cursor) for row in part.rows] if here else part.rows
            rows += part.more if here else ()
        return rows

    def _find(self) -> None:
        """Move the cursor to the new position of its item; if that is gone, to the item now in its place."""
        self.at = max(0, min(self.at, len(self.page_items) - 1))
        if not self.page_items or self.page_items[self.at].key == self._on:
            return
        self.at = next((i for i, each in enumerate(self.page_items) if each.key == self._on), self.at)
        self._on = self.page_items[self.at].key

    def items(self) -> int:
        return len(self.page_items)

    def go(self, item: int) -> None:
        """Select an item and scroll all of it into view; for the first one also the lines above it.

        On a page without items, scroll by a line.
        """
        if not self.page_items:
            self.scroll_relative(y=1 if item > 0 else -1, animate=False)
            return
        self.at = max(0, min(item, len(self.page_items) - 1))
        self._on = self.page_items[self.at].key
        self.pull()
        selected = self.page_items[self.at]
        span = len(selected.rows) + len(selected.more)
        self.show_line(0 if self.at == 0 else self._starts[self.at], span=span)
        self.pull()
        self.post_message(self.Moved(self))

    def go_to(self, key: Hashable) -> None:
        """Select the item with this key, now or when it appears."""
        self._on = key
        item = next((i for i, each in enumerate(self.page_items) if each.key == key), None)
        if item is not None:
            self.go(item)

    def chosen(self) -> PageItem | None:
        """Return the item under the cursor; None without items."""
        return self.page_items[self.at] if self.at < len(self.page_items) else None

    def copy_text(self) -> str:
        """Return the text to copy of the item under the cursor; "" without items."""
        item = self.chosen()
        return "" if item is None else item.text or super().copy_text()
