"""Masks secrets in the lines of configurations, also values on the lines after their name. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from gpuwatch.agent.base.secret_forms import MASK
from gpuwatch.agent.base.secret_masking import masked
from gpuwatch.plain import plain
from gpuwatch.telemetry.base.masks import is_secret_name

MAX_NAME_CHARS = 200
_NAME = r"(-{0,2}[A-Za-z][\w.-]{1,80})"
_OPENED = re.compile(
    rf"(?:^|[\s{{,(\[-])[\"']?{_NAME}[\"']?\s{{0,40}}[:=]\s{{0,40}}(?:[|>][+-]?\d?|[\[{{(]|\"\"\"|''')?\s{{0,40}}$"
)
"""A name at the end of a line, whose value begins on the next one."""
_LIST_ITEM = re.compile(rf"^-?\s{{0,8}}[\"']?{_NAME}[\"']?,?$")
"""An option that is an item of a list."""
_PAIR = re.compile(rf"([\"']){_NAME}\1(\s{{0,8}},\s{{0,8}})([\"'])([^\"']{{1,4096}})\4")
"""An option and its value as neighbours in a list."""
_KEY_BEGINS = re.compile(r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY")
_KEY_ENDS = re.compile(r"-----END [A-Z ]{0,40}PRIVATE KEY[A-Z -]{0,20}")
_QUOTES = ('"""', "'''")
_TAIL_CHARS = 400
"""Characters of a line in which an opened value is looked for."""


def masked_lines(lines: Iterable[str]) -> Iterator[str]:
    """Yield the lines without line ends, with their indentation."""
    state = _OpenValue()
    for line in lines:
        indent = line[: len(line) - len(line.lstrip(" \t"))]
        text = plain(line[len(indent) :])
        yield indent[:MAX_NAME_CHARS] + state.taken(text, len(indent))


class _OpenValue:
    """What the previous lines have opened: a private key, or the value of a secret."""

    def __init__(self) -> None:
        self._in_key = False
        self._indent: int | None = None
        """Of the line with the name; None: no value is open."""
        self._quote = ""
        self._is_one = False
        """True if the value has one line."""

    def taken(self, text: str, indent: int) -> str:
        """Return the next line without secrets. `indent`: its indentation in characters."""
        if self._in_key or _KEY_BEGINS.search(text) is not None:
            return self._of_key(text)
        if self._indent is not None and text:
            shown = self._of_value(text, indent)
            if shown is not None:
                return shown
        self._open(text, indent)
        return masked(_PAIR.sub(_without_value, text))

    def _of_key(self, text: str) -> str:
        begins, ends = _KEY_BEGINS.search(text), _KEY_ENDS.search(text)
        head = masked(text[: begins.start()]) if begins is not None else ""
        self._in_key = ends is None
        tail = "" if ends is None else masked(text[ends.end() :])
        return f"{head}{MASK}{tail}"

    def _of_value(self, text: str, indent: int) -> str | None:
        """Return the line masked as part of the open value; None if the value has ended before it."""
        is_one, quote = self._is_one, self._quote
        if quote:
            self._indent = None if quote in text else self._indent
            return MASK
        is_within = indent > (self._indent or 0) or text.startswith(("- ", '"', "'"))
        if not is_one and not is_within:
            self._indent = None
            return None
        if is_one:
            self._indent = None
            self._open(text, indent)
            head = text[: len(text) - len(text.lstrip("-\"' "))]
            closing = re.match(r"[^\"']{0,4096}([\"'].*)", text[len(head) :]) if head else None
            return head + MASK + ("" if closing is None else masked(_PAIR.sub(_without_value, closing[1])))
        return MASK

    def _open(self, text: str, indent: int) -> None:
        tail = text[-_TAIL_CHARS:]
        named, listed = _OPENED.search(tail), _LIST_ITEM.match(text)
        if named is not None and is_secret_name(named[1].lstrip("-")):
            end = tail.rstrip()
            self._quote = next((quote for quote in _QUOTES if end.endswith(quote)), "")
            self._indent, self._is_one = indent, tail.lstrip().startswith(("{", '"', "'"))
        elif listed is not None and listed[1].startswith("--") and is_secret_name(listed[1].lstrip("-")):
            self._indent, self._quote, self._is_one = indent, "", True


def _without_value(found: re.Match[str]) -> str:
    quote, name, between, other, _ = found.groups()
    is_secret = name.startswith("-") and is_secret_name(name.lstrip("-"))
    return f"{quote}{name}{quote}{between}{other}{MASK}{other}" if is_secret else found[0]
