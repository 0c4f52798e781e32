"""Blocks as lines of a text report: labelled facts, numbered steps, quotes with their key line marked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gpuwatch.blocks.model import Heading, Item, Line, Property, Quote, TextBlock, TimelineEvent
from gpuwatch.plain import plain

INDENT = "   "
LABEL = 12
HANG = len(INDENT) + LABEL
"""Columns before the text of a fact."""
MAX_QUOTED_LINES = 6
"""Most lines of a quote that are shown around its key line."""


def text_lines(blocks: Iterable[TextBlock]) -> Iterator[Line]:
    """Yield the blocks as lines of text, indented below an unindented line; a `Line` is unchanged."""
    for block in blocks:
        match block:
            case Line():
                yield block
            case Heading():
                yield Line(f"{INDENT}{block.text[:1].lower()}{plain(block.text[1:])}")
            case Property():
                yield fact_line(block)
            case Item():
                yield item_line(block)
            case Quote():
                yield from quote_lines(block)
            case TimelineEvent():
                yield Line(f"{INDENT}  {plain(event_text(block))}")


def fact_line(fact: Property) -> Line:
    """Return the labelled line of a property: `   confidence  high: ...`."""
    detail = f": {fact.detail}" if fact.detail else ""
    return Line(f"{INDENT}{fact.label:{LABEL}}{plain(fact.text + detail)}", hang=HANG)


def item_line(item: Item) -> Line:
    """Return the line of a list's entry: `     1. ...`."""
    if not item.number:
        return Line(f"{INDENT}  {plain(item.text)}", item.style)
    return Line(f"{INDENT}  {item.number}. {plain(item.text)}", item.style, hang=len(INDENT) + 5)


def quote_lines(quote: Quote) -> Iterator[Line]:
    """Yield the place and the class, then the lines around the key line, which is marked.

    They are at most `MAX_QUOTED_LINES`.
    """
    yield Line(f"{INDENT}  {plain(quote.place)}  {quote.code}")
    if not quote.lines:
        yield Line(f"{INDENT}  > {plain(quote.text)}")
    first = max(0, min(quote.key - 1, len(quote.lines) - MAX_QUOTED_LINES))
    for number, text in list(enumerate(quote.lines))[first : first + MAX_QUOTED_LINES]:
        is_key = number == quote.key
        yield Line(f"{INDENT}  {'>' if is_key else '|'} {plain(text)}", "plain" if is_key else "muted")


def event_text(event: TimelineEvent) -> str:
    """Return an event's line: `12:03:11   +0.0s  root   Xid 79: GPU lost  rank 17 on gpu-003`."""
    who = f"  {event.who}" if event.who else ""
    return f"{event.clock:8}  {event.since:>7}  {event.role:5}  {event.text}{who}"
