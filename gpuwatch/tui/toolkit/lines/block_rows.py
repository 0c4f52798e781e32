"""Blocks as painted lines, and as items that the cursor of a page can select."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType

from rich.segment import Segment
from rich.style import Style

from gpuwatch.blocks import model
from gpuwatch.blocks.model import Heading, Item, Line, Property, Quote, TextBlock, TimelineEvent
from gpuwatch.diagnose.model.alert import Alert
from gpuwatch.tui.toolkit.lines.item_page import PageItem, hanging
from gpuwatch.tui.toolkit.lines.rows import Row, heading, text_of, wrapped
from gpuwatch.tui.toolkit.styles import StyleSet, clean

MAX_QUOTED_LINES = 3
"""Number of lines shown of evidence other than the cause's; Enter opens all of it."""
CLOCK_COLUMNS = 8
SINCE_COLUMNS = 7
NO_NOTES: Mapping[str, str] = MappingProxyType({})


def style_of(style: model.Style, look: StyleSet) -> Style:
    """Return a theme's style for a meaning: `plain`, `strong`, `muted`, `code`, or a severity."""
    meanings = {"plain": look.text, "strong": look.strong, "muted": look.dim, "code": look.dim}
    return meanings[style] if style in meanings else look.severity[style]


def painted(
    blocks: Iterable[TextBlock],
    width: int,
    look: StyleSet,
    notes: Mapping[str, str] = NO_NOTES,
    ago: Callable[[float], str] = str,
) -> Iterator[Row | PageItem]:
    """Yield blocks as lines and items; the key of an item is its section and its number there.

    Args:
        blocks: What to paint.
        width: Columns.
        look: Styles and glyphs.
        notes: The title of a section -> a note at the end of its heading.
        ago: Returns the age of a time in unix seconds as text.
    """
    section, number = "", 0
    for block in blocks:
        number += 1
        match block:
            case Heading():
                section, number = block.text, 0
                yield heading(clean(section), width, look, notes.get(section, ""))
            case Line():
                yield from wrapped(block.text, width, style_of(block.style, look), indent=3)
            case Item():
                yield _item(block, width, look, (section, number))
            case Quote():
                yield _quote(block, width, look, (section, number, block.place), ago)
            case TimelineEvent():
                yield _event(block, width, look, (section, number))
            case Property():
                yield from wrapped(f"{block.label}: {block.text}", width, look.text, indent=3)


def _item(item: Item, width: int, look: StyleSet, key: tuple[object, ...]) -> PageItem:
    text = item.text.replace("`", "") if f"`{item.copy}`" in item.text else item.text
    style = style_of(item.style, look)
    head = _head(item, look)
    rows = hanging(head, text, width, style) if head else wrapped(text, width, style, indent=3)
    under = style_of(item.below_style, look)
    below = [row for line in item.below for row in wrapped(line, width, under, indent=3)]
    return PageItem(key, (*rows, *below), _alert(item.about), clean(item.copy or item.text))


def _head(item: Item, look: StyleSet) -> Row:
    """Return the segments in front of an item: its sign, else its number."""
    match item.sign:
        case "pointer":
            return (Segment(f" {look.glyphs.slope} ", look.dim),)
        case "dot":
            return (Segment(f" {look.glyphs.dot} ", look.dim),)
        case "bullet":
            return (Segment(f" {look.glyphs.bullet} ", look.dim),)
        case "":
            pass
        case severity:
            return Segment(" "), look.mark(severity), Segment(" ")
    return (Segment(f" {item.number} ", look.title),) if item.number else ()


def _alert(about: object) -> Alert | None:
    return about if isinstance(about, Alert) else None


def _quote(
    quote: Quote, width: int, look: StyleSet, key: tuple[object, ...], ago: Callable[[float], str]
) -> PageItem:
    age = "" if quote.at is None else f"{'' if quote.timed else 'no later than '}{ago(quote.at)}"
    rest = f"and {quote.more} more of this kind" if quote.more else ""
    place = "  ".join(part for part in (quote.place, age, rest) if part)
    text = wrapped(quote.text, width, look.text, indent=3)
    if not quote.of_cause and len(text) > MAX_QUOTED_LINES:
        text = [*text[: MAX_QUOTED_LINES - 1], (Segment("   ...", look.dim),)]
    rows = (*text, *wrapped(place, width, look.dim, indent=3))
    return PageItem(key, rows, _alert(quote.about), clean(quote.text))


def _event(event: TimelineEvent, width: int, look: StyleSet, key: tuple[object, ...]) -> PageItem:
    clock = f"{event.clock:{CLOCK_COLUMNS}} {event.since:>{SINCE_COLUMNS}}  "
    style = look.severity["critical"] if event.sign == "critical" else look.text
    start = (Segment(" "), look.mark(event.sign), Segment(f" {clock}", look.dim))
    lines = hanging(start, event.text, width, style)
    whose = wrapped(event.who, width, look.dim, indent=len(clock) + 3)
    if len(lines) == len(whose) == 1 and len(text_of(lines[0])) + len(event.who) + 3 < width:
        lines, whose = ((*lines[0], Segment(f"  {clean(event.who)}", look.dim)),), []
    text = f"{event.clock} {clean(event.text)} {clean(event.who)}"
    return PageItem(key, (*lines, *whose), _alert(event.about), text)
