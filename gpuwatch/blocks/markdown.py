"""Blocks as Markdown, with markup in the texts of logs and nodes escaped."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Literal, TypeAlias

from gpuwatch.blocks.model import Block, Heading, Item, Line, Property, Quote, Table, TimelineEvent
from gpuwatch.blocks.plot import Plot, number_text
from gpuwatch.plain import plain

_SPECIAL = re.compile(r"([\\`*_\[\]<>#|~$&])")
_LINKED = re.compile(r"@|://|(?i:\bwww\.)|#\d|(?i:\bmailto:)|:[a-z_+-][\w+-]{0,40}:")
"""Matches text that a chat or a forge would turn into something else.

That is a mention or a link (`@everyone`, `http://...`, `#12`), or a picture (`:rocket:`).
"""
_OPEN_PIPE = re.compile(r"(?<!\\)\|")


Trusted: TypeAlias = Literal["nothing", "steps", "all"]
"""Kinds of texts that are gpuwatch's own, with commands between backticks; all other texts are escaped."""


def markdown(blocks: Iterable[Block], trusted: Trusted = "steps") -> str:
    """Return the blocks as Markdown. `trusted`: the texts that are not escaped."""
    parts: list[str] = []
    before: Block | None = None
    for block in _without_plots(blocks):
        is_command = isinstance(block, Line) and block.style == "code" and isinstance(before, Item)
        if parts and not is_command and not (type(block) is type(before) and _in_list(block)):
            parts.append("")
        parts += [f"   {line}" if is_command else line for line in _lines(block, trusted)]
        before = before if is_command else block
    return "\n".join(parts) + "\n"


def _without_plots(blocks: Iterable[Block]) -> Iterator[Block]:
    """Yield the blocks; plots that follow one another become one table."""
    for kind, group in groupby(blocks, type):
        if kind is Plot:
            yield _plots(block for block in group if isinstance(block, Plot))
        else:
            yield from group


def _in_list(block: Block) -> bool:
    return isinstance(block, Property | Item | TimelineEvent) and not _is_note(block)


def _is_note(block: Block) -> bool:
    return isinstance(block, Item) and block.sign == "warning"


def _lines(block: Block, trusted: Trusted) -> Iterator[str]:
    match block:
        case Line():
            yield code(block.text) if block.style == "code" else _text(block.text, trusted == "all")
        case Heading():
            if block.anchor:
                yield f'<a id="{block.anchor}"></a>'
            yield f"{'#' * block.level} {escaped(block.text)}"
        case Property():
            text = code(block.text) if block.style == "code" else escaped(block.text)
            yield f"- {block.label}: {text}{f' ({escaped(block.detail)})' if block.detail else ''}"
        case Item():
            mark = f"{block.number}." if block.number else ">" if _is_note(block) else "-"
            own = trusted == "all" or (trusted == "steps" and block.number > 0)
            text = _text(block.text, own)
            yield f"{mark} [{text}](#{block.target})" if block.target else f"{mark} {text}"
        case Quote():
            offset = "" if block.offset is None else f" +{block.offset}"
            others = f", and {block.more} more of this kind" if block.more else ""
            yield from (f"{escaped(block.place)}{offset}{others}:", "")
            yield from fenced(block.lines or (block.text,))
        case TimelineEvent():
            when = f"{block.clock} {block.since}".rstrip()
            who = f": {escaped(block.who)}" if block.who else ""
            yield f"- {when} {escaped(block.text)}{who}"
        case Table():
            if block.title:
                yield from (f"### {escaped(block.title)}", "")
            yield from _table(block, own=trusted == "all")
        case Plot():
            yield from _lines(_plots([block]), trusted)


def _table(table: Table, *, own: bool) -> Iterator[str]:
    """Yield the lines of a table; the columns' names, and the cells unless they are `own`, are escaped."""
    yield f"| {' | '.join(_cell(name, own=False) for name in table.columns)} |"
    yield f"|{'---|' * len(table.columns)}"
    for first, *others in table.rows:
        is_file = table.linked and not first.endswith("/")
        name = f"[{first}]({first})" if is_file else _cell(first, own=own)
        yield f"| {' | '.join([name, *(_cell(text, own=own) for text in others)])} |"


def _plots(plots: Iterable[Plot]) -> Table:
    """Return the first, last, lowest and highest values of the lines: Markdown has no plots."""
    rows = []
    for plot in plots:
        for one in plot.series:
            values = [value for _, value in one.points]
            numbers = (values[0], values[-1], min(values), max(values))
            rows.append((plot.title, one.label, *map(number_text, numbers)))
    return Table(("Quantity", "Line", "First", "Last", "Lowest", "Highest"), tuple(rows))


def _cell(text: str, *, own: bool) -> str:
    """Return text for a cell of a table, in which code may not have a bare `|` either."""
    return _OPEN_PIPE.sub(r"\|", _text(text, own))


def _text(text: str, own: bool) -> str:
    return " ".join(plain(text).split()) if own else escaped(text)


def escaped(text: str) -> str:
    """Return text of a log or node with markup escaped; possible mentions and links become code."""
    return " ".join(
        code(word) if _LINKED.search(word) else _SPECIAL.sub(r"\\\1", word) for word in plain(text).split()
    )


def code(text: str) -> str:
    """Return a name or a command as Markdown code, without the backticks in it."""
    return f"`{plain(text).replace('`', '')}`"


def fenced(lines: Iterable[str]) -> Iterator[str]:
    """Yield log lines as a code block, in a fence that none of the lines can close."""
    texts = [plain(line) for line in lines]
    longest = max((len(run) for text in texts for run in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    yield from (fence, *texts, fence)
