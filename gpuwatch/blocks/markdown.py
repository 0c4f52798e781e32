"""Blocks as Markdown, with markup in the texts of logs and nodes escaped."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from gpuwatch.blocks.model import Block, Heading, Item, Line, Property, Quote, TimelineEvent
from gpuwatch.plain import plain

_SPECIAL = re.compile(r"([\\`*_\[\]<>#|~])")
_LINKED = re.compile(r"@|://|(?i:\bwww\.)")
"""Words that a chat would turn into a mention or a link: `@everyone`, `http://...`."""


def markdown(blocks: Iterable[Block], *, trusted_steps: bool = True) -> str:
    """Return the blocks as Markdown. `trusted_steps`: the commands between backticks in steps are code."""
    parts: list[str] = []
    before: type[Block] | None = None
    for block in blocks:
        if parts and not (type(block) is before and isinstance(block, Property | Item | TimelineEvent)):
            parts.append("")
        parts += _lines(block, trusted_steps=trusted_steps)
        before = type(block)
    return "\n".join(parts) + "\n"


def _lines(block: Block, *, trusted_steps: bool) -> Iterator[str]:
    match block:
        case Line():
            yield escaped(block.text)
        case Heading():
            yield f"{'#' * block.level} {escaped(block.text)}"
        case Property():
            text = code(block.text) if block.style == "code" else escaped(block.text)
            yield f"- {block.label}: {text}{f' ({escaped(block.detail)})' if block.detail else ''}"
        case Item():
            step = " ".join(plain(block.text).split()) if trusted_steps else escaped(block.text)
            yield f"{block.number}. {step}" if block.number else f"- {escaped(block.text)}"
        case Quote():
            offset = "" if block.offset is None else f" +{block.offset}"
            others = f", and {block.more} more of this kind" if block.more else ""
            yield from (f"{escaped(block.place)}{offset}{others}:", "")
            yield from fenced(block.lines or (block.text,))
        case TimelineEvent():
            when = f"{block.clock} {block.since}".rstrip()
            who = f": {escaped(block.who)}" if block.who else ""
            yield f"- {when} {escaped(block.text)}{who}"


def escaped(text: str) -> str:
    """Return text of a log or node with markup escaped; possible mentions and links become code."""
    return " ".join(
        code(word) if _LINKED.search(word) else _SPECIAL.sub(r"\\\1", word) for word in plain(text).split()
    )


def code(text: str) -> str:
    """Return a name or a command as code."""
    return f"`{plain(text).replace('`', '')}`"


def fenced(lines: Iterable[str]) -> Iterator[str]:
    """Yield log lines in a fence that none of them can close."""
    texts = [plain(line) for line in lines]
    longest = max((len(run) for text in texts for run in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    yield from (fence, *texts, fence)
