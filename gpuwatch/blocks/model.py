"""The blocks of a report: their texts and meanings, without colours, widths or markup.

Pure functions make them from facts; `gpuwatch.report` prints them, `gpuwatch.tui` paints them, and the other
modules of this folder write them as text and Markdown.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Literal, TypeAlias, get_args

from msgspec import Struct

from gpuwatch.blocks.plot import Plot

Style: TypeAlias = Literal["plain", "ok", "info", "warning", "error", "critical", "muted", "strong", "code"]
"""The meaning of a text.

A severity, `muted` for what matters less, `strong` for what matters most, `code` for a name or a command.
"""
STYLES: tuple[Style, ...] = get_args(Style)
SeveritySign: TypeAlias = Literal["ok", "info", "warning", "error", "critical", "unknown"]
Sign: TypeAlias = Literal["", "pointer", "dot", "bullet"] | SeveritySign
"""The sign before an item: none, a pointer, a dot, a bullet, or the sign of a severity."""
_COMMAND = re.compile(r"`([^`]+)`")


def known_style(name: str) -> Style:
    """Return a severity that another program reported as a style; `plain` if there is no such severity."""
    return next((style for style in STYLES if style == name), "plain")


class Line(Struct, frozen=True):
    """A line of text."""

    text: str
    style: Style = "plain"
    hang: int = 0
    """Columns by which a terminal indents continuation lines."""


class Heading(Struct, frozen=True):
    """The title of the blocks that follow; its first letter is a capital."""

    text: str
    level: int = 3
    """1: of the whole report, 2: of a part, 3: of a section."""
    anchor: str = ""
    """Its id in a page, in the characters of a URL's fragment."""


class Property(Struct, frozen=True):
    """A property and its value, with a detail such as the reason: `confidence  high: ...`."""

    label: str
    text: str
    detail: str = ""
    style: Style = "plain"


class Item(Struct, frozen=True):
    """An entry of a list, which a cursor can select and copy."""

    text: str
    number: int = 0
    """1, 2, 3, ... in a numbered list; 0: the list has no numbers."""
    sign: Sign = ""
    style: Style = "plain"
    below: tuple[str, ...] = ()
    """Further lines below the item, such as who wrote it or where it was seen."""
    below_style: Style = "muted"
    copy: str = ""
    """The text to copy; empty: the whole text."""
    target: str = ""
    """The anchor of the heading of the same page that it is a link to."""
    about: object = None
    """What a screen opens."""


class Quote(Struct, frozen=True):
    """Log lines or a value as evidence, with their place."""

    text: str
    """The key line."""
    place: str
    """Node, rank and file, or `file:line`."""
    lines: tuple[str, ...] = ()
    """The lines around the key line, which is one of them; empty: the key line alone is known."""
    key: int = 0
    """Index of the key line."""
    code: str = ""
    """Failure class of the alert that the quote proves."""
    more: int = 0
    """Number of further alerts of the same class."""
    offset: int | None = None
    """Byte offset in the file."""
    at: float | None = None
    """When the quoted line was written (unix seconds); None: unknown."""
    timed: bool = True
    """False: `at` is when the line was first seen; the line may be older."""
    of_cause: bool = False
    about: object = None
    """What a screen opens."""


class TimelineEvent(Struct, frozen=True):
    """An entry of a timeline."""

    clock: str
    """Local time of the day; `undated` if the time is not known."""
    since: str
    """Time since the cause, or how the time is bounded: `+30.1s`, `before`."""
    role: str
    text: str
    """Text of the event: what happened, and how often."""
    who: str
    sign: SeveritySign = "info"
    about: object = None
    """What a screen opens."""


class Table(Struct, frozen=True):
    """A table of texts. A table with the columns `PAIRS` lists names and values, and needs no headings."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    title: str = ""
    folded: bool = False
    """True if the table is long and less important, so that it is shown folded."""
    linked: bool = False
    """True if the first column names files beside the report, in the characters of a URL's path."""


PAIRS = ("Name", "Value")

TextBlock: TypeAlias = Line | Heading | Property | Item | Quote | TimelineEvent
Block: TypeAlias = TextBlock | Table | Plot


def numbered(steps: Iterable[str]) -> list[Item]:
    """Return steps as a numbered list, each with its first command to copy."""
    return [Item(step, number, copy=command_in(step)) for number, step in enumerate(steps, 1)]


def checks(texts: Iterable[str]) -> list[Item]:
    """Return the checks that would confirm a verdict as list items, each with its first command to copy."""
    return [Item(text, number, "pointer", copy=command_in(text)) for number, text in enumerate(texts, 1)]


def commands(steps: Iterable[tuple[str, str]]) -> list[Item]:
    """Return (what, command) as a numbered list, each with its command to copy."""
    return [
        Item(f"{what}: {command}", number, copy=command) for number, (what, command) in enumerate(steps, 1)
    ]


def titled(title: str, blocks: Sequence[TextBlock], level: int = 3) -> list[TextBlock]:
    """Return a heading with the title, followed by the blocks; empty if there are no blocks."""
    return [Heading(title, level), *blocks] if blocks else []


def command_in(text: str) -> str:
    """Return the first command between backticks in a text; without one, the whole text."""
    found = _COMMAND.findall(text)
    return str(found[0]) if found else text
