"""Explanations as text and as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, TextIO

from gpuwatch.blocks.model import Heading, Item, Line
from gpuwatch.diagnose.explanations.explanation import Explanation
from gpuwatch.diagnose.explanations.search import Matches
from gpuwatch.plain import plain, plain_json
from gpuwatch.report.output.console import console_on, show

MAX_SHOWN_MATCHES = 12
INDENT, CODE_INDENT = 2, 6


def explanation_json(matches: Matches) -> str:
    """Return JSON: `explanation`, the exact match (`null` if none), and `matches`, the others.

    A match has the keys `ident`, `kind` and `title`.
    """
    exact = matches.exact
    facts = {
        "explanation": None if exact is None else _facts(exact),
        "matches": [{"ident": each.ident, "kind": each.kind, "title": each.title} for each in matches.others],
    }
    return plain_json(json.dumps(facts, indent=2, ensure_ascii=False))


def _facts(explanation: Explanation) -> dict[str, Any]:
    """Return an explanation as data: its blocks grouped below their headings, each a text, a step or code."""
    parts: list[dict[str, Any]] = []
    for block in explanation.blocks:
        if isinstance(block, Heading):
            parts.append({"heading": block.text, "lines": []})
        elif isinstance(block, Line | Item):
            style = "code" if block.style == "code" else "step" if isinstance(block, Item) else "text"
            parts[-1]["lines"].append({"text": numbered_text(block), "style": style})
    words = list(explanation.words)
    return {"ident": explanation.ident, "kind": explanation.kind, "title": explanation.title} | {
        "parts": parts,
        "words": words,
    }


def numbered_text(block: Line | Item) -> str:
    """Return the text of a block, preceded by its number if it has one; its command is not highlighted."""
    if isinstance(block, Line):
        return block.text
    text = block.text.replace(f"`{block.copy}`", block.copy) if block.copy else block.text
    return f"{block.number}. {text}" if block.number else text


def print_explanation(explanation: Explanation, others: Sequence[Explanation], out: TextIO) -> None:
    """Write one explanation, then the first four other matches."""
    with console_on(out) as console:
        for line in explanation_lines(explanation):
            show(console, line)
        for line in match_lines(others[:4], "See also"):
            show(console, line)


def print_matches(found: Sequence[Explanation], heading: str, out: TextIO) -> None:
    """Write the ids and titles of these explanations below a heading."""
    with console_on(out) as console:
        for line in match_lines(found, heading):
            show(console, line)


def explanation_lines(explanation: Explanation) -> Iterator[Line]:
    """Yield the title, then each part under its heading."""
    yield Line(plain(f"{explanation.title}  ({explanation.kind} {explanation.ident})"), "info")
    for block in explanation.blocks:
        if isinstance(block, Heading):
            yield Line("")
            yield Line(block.text)
        elif isinstance(block, Line | Item):
            indent = CODE_INDENT if block.style == "code" else INDENT
            for number, text in enumerate(numbered_text(block).split("\n")):
                hang = indent + (3 if isinstance(block, Item) and number == 0 else 0)
                yield Line(" " * indent + plain(text), block.style, hang)


def match_lines(found: Sequence[Explanation], heading: str) -> Iterator[Line]:
    """Yield the heading, then one aligned line per id; nothing if none matches.

    At most `MAX_SHOWN_MATCHES` unless all are topics.
    """
    if not found:
        return
    shown = found if all(each.kind == "topic" for each in found) else found[:MAX_SHOWN_MATCHES]
    width = max(len(each.ident) for each in shown)
    yield Line("")
    yield Line(heading)
    for each in shown:
        yield Line(plain(f"  {each.ident:<{width}}  {each.kind:<9}  {each.title}"), hang=width + 15)
    if len(found) > len(shown):
        yield Line(f"  and {len(found) - len(shown)} more: add a word to narrow the search", "muted")
