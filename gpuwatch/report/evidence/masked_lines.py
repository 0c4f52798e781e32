"""Masks secrets in the lines of configurations, also values on the lines after their name. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from gpuwatch.agent.masking.secret_forms import MASK
from gpuwatch.agent.masking.secret_masking import masked
from gpuwatch.agent.masking.secret_names import is_secret, named_in, value_in
from gpuwatch.agent.masking.secret_phrases import SecretLines
from gpuwatch.plain import plain
from gpuwatch.telemetry.base.secret_names import LONE_NAMES, is_secret_name

MAX_NAME_CHARS = 200
_NAME = r"(-{0,2}[A-Za-z][\w.-]{1,80})"
_OPENED = re.compile(
    rf"(?:^|[\s{{,(\[-])[\"']?{_NAME}[\"']?\]?\s{{0,40}}[:=](?:\s{{0,8}}[&!][^\s|>]{{0,60}}){{0,3}}\s{{0,40}}"
    r"(?:[|>][+-]?\d?[+-]?|[\[{(]|\"\"\"|'{3}|\\|(?:\$\(cat\s{0,4})?<<-?[\"']?(?P<end>\w{1,24})[\"']?)?"
    r"\s{0,40}(?:(?<=\s)#.{0,200})?$"
)
"""Matches a name at the end of a line, whose value begins on the next line."""
_QUOTED_VALUE = re.compile(
    rf"(?:^|[\s{{,(])[\"']?{_NAME}[\"']?\]?\s{{0,40}}[:=]\s{{0,40}}(\"\"\"|'{{3}}|\"|')(.*)$"
)
"""Matches a name and the beginning of its quoted value."""
_EXPLICIT = re.compile(
    rf"(?:\?\s{{1,8}}[\"']?{_NAME}[\"']?|.{{0,400}}?(?<![\w-])(--?[A-Za-z][\w.-]{{1,80}})\s{{1,8}}\\)$"
)
"""Matches a YAML key on a line of its own, or an option at the end of a line that continues below."""
_LIST_ITEM = re.compile(rf"^(?:-\s{{1,8}})?[\"']?{_NAME}[\"']?,?$")
"""Matches an option that is an item of a list."""
_SECTION = re.compile(
    rf"^(?:\[{{1,2}}\s?[\"']?{_NAME}[\"']?\s?\]{{1,2}}|[a-z]{{1,12}}\s[\"']?{_NAME}[\"']?\s{{0,4}}\{{)$"
)
"""Matches the heading of a group of settings: `[db_password]`, `variable "db_password" {`."""
_SECTION_VALUE = re.compile(
    r"^(\w{0,20}value|default|data)(\s{0,40}[:=]\s{0,40}[\"']?)[^\s\"']{1,4096}", re.IGNORECASE
)
_CELLS = re.compile(rf"^[\"']?{_NAME}([\"']?\s?[,;\t]\s?[\"']?)([^\s,;\"']{{1,4096}})(?=[\"']?$)")
"""Matches a line of a table with two columns."""
_SHELL_INPUT = re.compile(
    rf"(\bread\s(?:-\w{{1,4}}\s){{0,3}}{_NAME}\s{{0,4}}<<<\s{{0,4}}[\"']?)([^\s\"']{{1,4096}})"
)
_PAIR = re.compile(rf"([\"']){_NAME}\1(\s{{0,8}},\s{{0,8}})([\"'])([^\"']{{1,4096}})\4")
"""Matches an option and its value as neighbours in a list."""
_KEY_BEGINS = re.compile(r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY")
_KEY_ENDS = re.compile(r"-----END [A-Z ]{0,40}PRIVATE KEY[A-Z -]{0,20}")
_QUOTES = ('"""', "'''")
_ASSIGNED = re.compile(
    rf"(?<![\w.-]){_NAME}([\"']?\s{{0,8}}(?::=|=>|[:=])\s{{0,8}}(?:[&!][\w!]{{1,40}}\s{{1,3}}){{0,2}})"
    r"(\"[^\"]{1,4096}\"|'[^']{1,4096}'|[^\s,;&(){}\[\]\"']{1,4096})"
)
_OPTION = re.compile(r"(?<![\w.-])(--?[A-Za-z][\w.-]{1,80})(\s{1,8}[\"']?)([^\s\"'-][^\s\"']{0,4095})")
_NO_SECRET = re.compile(
    r"(?:null|none|true|false|~|\$.*|<[^<>]*>|\[masked\].*|\*+|[0-9.]{1,5}|[|>][+-]?)$", re.IGNORECASE
)
_CLOSING = {"{": "}", "[": "]"}
_GROUP = re.compile(rf"{_NAME}([\"']?\s{{0,8}}[:=]\s{{0,8}}[\[{{])([^\[\]{{}}]{{1,4096}})(?=[\]}}])")
"""Matches a name and a list or mapping on one line."""
_TAIL_CHARS = 400
"""Number of characters at the beginning or end of a line in which the name of an opened value is searched."""


def masked_lines(lines: Iterable[str], *, is_masked: bool = False) -> Iterator[str]:
    """Yield the lines with secrets masked, without line ends, with their indentation.

    `is_masked`: the named secrets of the document are already masked; values below their names are not
    looked for.
    """
    state = _OpenValue(is_masked=is_masked)
    above, value = "", ""
    has_above = False
    for line in lines:
        indent = line[: len(line) - len(line.lstrip(" \t"))]
        text = plain(line[len(indent) :])
        if has_above:
            yield above.replace(value, MASK) if value and is_secret(named_in(text) or "", value) else above
        above, has_above = indent[:MAX_NAME_CHARS] + state.taken(text, len(indent)), True
        value = "" if is_masked else value_in(text)
    if has_above:
        yield above


class _OpenValue:
    """A private key or a secret's value that the previous lines have opened."""

    def __init__(self, *, is_masked: bool) -> None:
        self._is_masked = is_masked
        self._in_key = False
        self._indent: int | None = None
        """Of the line with the name; None: no value is open."""
        self._quote = ""
        self._is_one = False
        """True if the value has one line."""
        self._closing, self._depth = "", 0
        """The bracket that ends the value, and how many of its kind are open; empty: no bracket."""
        self._section = ""
        """The secret name that heads the settings; empty: none."""
        self._pairs = SecretLines()

    def taken(self, text: str, indent: int) -> str:
        """Return the next line with its secrets masked. `indent`: its indentation in characters."""
        if self._is_masked and not self._in_key and _KEY_BEGINS.search(text) is None:
            return _without_named(masked(text))
        return self._pairs.masked(self._without_own(text, indent))

    def _without_own(self, text: str, indent: int) -> str:
        if self._in_key or _KEY_BEGINS.search(text) is not None:
            return self._of_key(text)
        if self._indent is not None and text:
            shown = self._of_value(text, indent)
            if shown is not None:
                return shown
        self._open(text, indent)
        return self._of_line(text)

    def _of_line(self, text: str) -> str:
        heading = _SECTION.match(text)
        if heading is not None:
            name = heading[1] or heading[2]
            self._section = name if is_secret_name(name) else ""
        elif self._section:
            text = _SECTION_VALUE.sub(rf"\1\2{MASK}", text)
        named = _QUOTED_VALUE.search(text[:_TAIL_CHARS])
        if named is not None and is_secret_name(named[1].lstrip("-")):
            value, quote, rest = named[3].partition(named[2])
            if named[2] in _QUOTES or (value and not quote):
                text = f"{text[: named.start(3)]}{MASK}{quote}{rest}"
        text = _GROUP.sub(_without_group, text)
        text = _SHELL_INPUT.sub(_without_input, _CELLS.sub(_without_cell, text))
        return _without_named(masked(_PAIR.sub(_without_value, text)))

    def _of_key(self, text: str) -> str:
        begins, ends = _KEY_BEGINS.search(text), _KEY_ENDS.search(text)
        head = masked(text[: begins.start()]) if begins is not None else ""
        self._in_key = ends is None
        tail = "" if ends is None else masked(text[ends.end() :])
        return f"{head}{MASK}{tail}"

    def _of_value(self, text: str, indent: int) -> str | None:
        """Return the line masked as part of the open value; None if the value has ended before it."""
        is_one, quote = self._is_one, self._quote
        if self._closing:
            return self._of_group(text)
        if quote:
            self._indent = None if quote in text else self._indent
            return MASK
        is_within = indent > (self._indent or 0) or text.startswith(('"', "'"))
        is_within = is_within or (indent == self._indent and text.startswith("- "))
        if not is_one and not is_within:
            self._indent = None
            return None
        if is_one:
            self._indent = None
            self._open(text, indent)
            head = text[: len(text) - len(text.lstrip("-\"' :"))]
            closing = re.match(r"[^\"']{0,4096}([\"'].*)", text[len(head) :]) if head else None
            return head + MASK + ("" if closing is None else masked(_PAIR.sub(_without_value, closing[1])))
        return MASK

    def _of_group(self, text: str) -> str:
        """Return `MASK` for a line of a secret list or mapping; a line of brackets alone stays unchanged."""
        opening = next(each for each, closing in _CLOSING.items() if closing == self._closing)
        self._depth += text.count(opening) - text.count(self._closing)
        if self._depth <= 0:
            self._indent, self._closing = None, ""
        return text if not text.strip("[]{}, ") else MASK

    def _open(self, text: str, indent: int) -> None:
        indent += 2 * text.startswith("- ")
        tail = text[-_TAIL_CHARS:]
        opened, listed, explicit = _OPENED.search(tail), _LIST_ITEM.match(text), _EXPLICIT.match(text)
        named = _QUOTED_VALUE.search(text[:_TAIL_CHARS])
        option = listed if listed is not None and listed[1].startswith("--") else explicit
        if opened is not None and is_secret_name(opened[1].lstrip("-")):
            end = tail.rstrip()
            self._quote = opened["end"] or next((quote for quote in _QUOTES if end.endswith(quote)), "")
            self._indent = indent
            self._closing, self._depth = _CLOSING.get(end[-1:], ""), 1
            self._is_one = tail.lstrip().startswith(("{", '"', "'")) or end.endswith("\\")
        elif option is not None and is_secret_name((option[1] or option[2]).lstrip("-")):
            self._indent, self._quote, self._is_one = indent, "", True
        elif named is not None and named[2] not in named[3] and is_secret_name(named[1].lstrip("-")):
            self._indent, self._quote, self._is_one = indent, named[2], False


def _without_value(found: re.Match[str]) -> str:
    quote, name, between, other, _ = found.groups()
    is_secret = name.startswith("-") and is_secret_name(name.lstrip("-"))
    return f"{quote}{name}{quote}{between}{other}{MASK}{other}" if is_secret else found[0]


def _without_named(text: str) -> str:
    """Return the text in which the values of secret assignments and options are masked, by their names."""
    return _OPTION.sub(_without_assigned, _ASSIGNED.sub(_without_assigned, text))


def _without_assigned(found: re.Match[str]) -> str:
    name, between, value = found.groups()
    bare, quote = value.strip("\"'"), value[0] if value[0] in "\"'" else ""
    is_plain = not is_secret_name(name.lstrip("-")) or name.lower() in LONE_NAMES or _NO_SECRET.match(bare)
    return found[0] if is_plain else f"{name}{between}{quote}{MASK}{quote}"


def _without_group(found: re.Match[str]) -> str:
    name, between, _ = found.groups()
    is_secret_group = is_secret_name(name.lstrip("-")) and name.lower() not in LONE_NAMES
    return f"{name}{between}{MASK}" if is_secret_group else found[0]


def _without_cell(found: re.Match[str]) -> str:
    name, between, value = found.groups()
    is_secret = is_secret_name(name) and name.lower() not in LONE_NAMES
    return f"{name}{between}{MASK}" if is_secret and any(each.isdecimal() for each in value) else found[0]


def _without_input(found: re.Match[str]) -> str:
    return f"{found[1]}{MASK}" if is_secret_name(found[2]) else found[0]
