"""Filter expressions over GPUs: `temp>85 & host~=dgx`, `(power<0.2k or tensor=0) and util>95`, `!state=ok`.

A comparison is NAME OP VALUE with `> >= < <= = !=` for numbers and `= != ~= !~` for text (`~=`: a regular
expression). `&`, `|`, `!`, `and`, `or`, `not` and parentheses combine them; two terms side by side are
combined with `and`. A bare word matches part of the node's name. An unknown value never satisfies a
comparison, not even `!=`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Literal, TypeAlias

from msgspec import Struct

from gpuwatch.fleet.filter import columns
from gpuwatch.fleet.filter.columns import ALIASES, COLUMNS, LABEL, NumberColumn, WordColumn
from gpuwatch.fleet.filter.terms import (
    ORDER,
    AllOf,
    AnyOf,
    BareWord,
    Everything,
    Not,
    NumberIs,
    Operator,
    Term,
    WordIs,
)
from gpuwatch.fleet.nodes.node import Gpu, Node
from gpuwatch.fleet.nodes.units import PERCENT
from gpuwatch.rules.compiling.check import PatternError
from gpuwatch.rules.compiling.typed_pattern import TypedPattern

MAX_CHARACTERS = 1000
MAX_NESTED = 40
MAX_PATTERN_CHARS = 200
MAX_VALUE_CHARS = 200
Kind: TypeAlias = Literal["word", "quoted", "operator", "and", "or", "not", "(", ")", "end"]


class FilterError(ValueError):
    """Raised for an invalid expression; `position` is the offending character, counted from 0."""

    def __init__(self, message: str, position: int) -> None:
        super().__init__(message)
        self.position = position


class Filter(Struct, frozen=True):
    """A parsed filter expression; `str` gives it as text."""

    term: Term

    def matches(self, node: Node, gpu: Gpu | None, now: float) -> bool:
        """Return True if the filter matches a GPU; without a GPU, if it matches the node.

        Raises:
            PatternError: A pattern takes too long on the values of these nodes.
        """
        return self.term.matches(node, gpu, now)

    def __str__(self) -> str:
        return str(self.term)


def parse(text: str) -> Filter:
    """Return the filter of an expression; an empty one matches everything.

    Raises:
        FilterError: The expression is invalid; with the position, and a suggestion for a misspelt name.
    """
    if len(text) > MAX_CHARACTERS:
        raise FilterError(f"{len(text)} characters; at most {MAX_CHARACTERS}", MAX_CHARACTERS)
    parser = _Parser(_tokens(text), len(text))
    return Filter(parser.whole())


# --------------------------------------------------------------------------- comparing

_SPELLINGS: dict[str, Operator] = {
    ">": ">", ">=": ">=", "<": "<", "<=": "<=", "=": "=", "==": "=", "!=": "!=", "!~": "!~",
    "~=": "~=", "=~": "~=", "~": "~=",
}  # fmt: skip


def _comparison(name: _Token, operator: Operator, value: _Token) -> Term:
    column = columns.find(name.text)
    if column is None:
        hint = columns.suggestion(name.text, [*COLUMNS, *ALIASES, LABEL])
        raise FilterError(f"unknown column {name.text!r}{hint}", name.at)
    if (
        column is COLUMNS["throttle"]
        and operator not in ORDER
        and columns.number(value.text, PERCENT) is None
    ):
        column = COLUMNS["reason"]
    if isinstance(column, NumberColumn):
        return _number_is(name, operator, value, column)
    return _word_is(name, operator, value, column)


def _number_is(name: _Token, operator: Operator, value: _Token, column: NumberColumn) -> NumberIs:
    if operator in ("~=", "!~"):
        raise FilterError(f"{name.text} is a number: compare it with > >= < <= = or !=", name.at)
    read = columns.number(value.text, column.quantity)
    if read is None:
        unit = f" in {column.quantity.unit}" if column.quantity.unit else ""
        raise FilterError(f"{name.text} takes a number{unit}, not {value.text!r}", value.at)
    return NumberIs(name.text, operator, value.text, column, *read)


def _word_is(name: _Token, operator: Operator, value: _Token, column: WordColumn) -> WordIs:
    if operator in ORDER:
        raise FilterError(f"{name.text} is text: compare it with = != ~= or !~", name.at)
    if operator in ("~=", "!~"):
        try:
            return WordIs(name.text, operator, value.text, column, _matcher(value.text))
        except PatternError as error:
            raise FilterError(f"{name.text}: {error}", value.at) from error
    wanted = value.text.lower()
    if column.known and wanted not in column.known:
        hint = columns.suggestion(wanted, column.known)
        raise FilterError(
            f"{name.text} is one of {', '.join(column.known)}, never {wanted!r}{hint}", value.at
        )
    return WordIs(name.text, operator, value.text, column, lambda each: each.lower() == wanted)


def _matcher(text: str) -> Callable[[str], bool]:
    """Return a cached function that is True if a pattern occurs in a value, ignoring case.

    It searches only the first characters of a value.

    Raises:
        PatternError: The pattern is invalid or too expensive; from the search: it took too long.
    """
    if len(text) > MAX_PATTERN_CHARS:
        raise PatternError(f"a pattern of {len(text)} characters; at most {MAX_PATTERN_CHARS}")
    pattern = TypedPattern(text, ignore_case=True, max_chars=MAX_VALUE_CHARS)

    @lru_cache(maxsize=4096)
    def matches(value: str) -> bool:
        found = pattern.search(value)
        if found is None:
            raise PatternError(f"{text!r} takes too long on these values")
        return found

    return matches


# --------------------------------------------------------------------------- reading


class _Token(Struct, frozen=True):
    kind: Kind
    text: str
    at: int


_TOKEN = re.compile(
    r"\s*(?:(?P<operator>>=|<=|!=|==|=~|~=|!~|[<>=~])|(?P<and>&&?)|(?P<or>\|\|?)|(?P<not>!)"
    r"|(?P<open>\()|(?P<close>\))"
    r"|\"(?P<double>(?:\\.|[^\"\\])*)\"|'(?P<single>[^']*)'|(?P<word>[^\s()&|!<>=~\"']+))"
)
_PATTERN = re.compile(
    r"\s*(?![\"'])(?P<pattern>(?:\\.|\[(?:\\.|[^\]])*\]|\((?:[^()]|\([^()]*\))*\)|[^\s()&|])+)"
)
"""The pattern after `~=`: without quotes it ends at a space, `&`, `|` or `)` outside of its own brackets."""


def _tokens(text: str) -> list[_Token]:
    found: list[_Token] = []
    at = 0
    while text[at:].strip():
        after_match = (
            bool(found) and found[-1].kind == "operator" and found[-1].text in ("~=", "!~", "=~", "~")
        )
        match = (after_match and _PATTERN.match(text, at)) or _TOKEN.match(text, at)
        if not match:
            raise FilterError(f"cannot read {text[at:].strip()[:20]!r}", at)
        found.append(_token(match))
        at = match.end()
    return [*found, _Token("end", "", len(text))]


def _token(match: re.Match[str]) -> _Token:
    kind = match.lastgroup or ""
    text, at = match[kind], match.start(kind)
    if kind == "word" and text.lower() in ("and", "or", "not"):
        return _Token(_KINDS[text.lower()], text, at)
    if kind == "double":
        text = re.sub(r"\\([\\\"])", r"\1", text)
    return _Token(_KINDS[kind], text, at)


_KINDS: dict[str, Kind] = {
    "operator": "operator", "and": "and", "or": "or", "not": "not", "open": "(", "close": ")",
    "double": "quoted", "single": "quoted", "word": "word", "pattern": "quoted",
}  # fmt: skip


class _Parser:
    """A recursive-descent parser; precedence: or < and < not < comparison."""

    def __init__(self, tokens: list[_Token], length: int) -> None:
        self._tokens = tokens
        self._at = 0
        self._length = length

    def whole(self) -> Term:
        if self._peek().kind == "end":
            return Everything()
        term = self._any_of(0)
        if self._peek().kind != "end":
            raise FilterError(f"this {self._peek().text!r} closes nothing", self._peek().at)
        return term

    def _peek(self) -> _Token:
        return self._tokens[self._at]

    def _take(self) -> _Token:
        token = self._tokens[self._at]
        self._at += 1
        return token

    def _any_of(self, depth: int) -> Term:
        parts = [self._all_of(depth)]
        while self._peek().kind == "or":
            self._take()
            parts.append(self._all_of(depth))
        return parts[0] if len(parts) == 1 else AnyOf(tuple(parts))

    def _all_of(self, depth: int) -> Term:
        parts = [self._one(depth)]
        while self._peek().kind not in ("or", ")", "end"):
            if self._peek().kind == "and":
                self._take()
            parts.append(self._one(depth))
        return parts[0] if len(parts) == 1 else AllOf(tuple(parts))

    def _one(self, depth: int) -> Term:
        token = self._take() if self._peek().kind != "end" else self._peek()
        if depth > MAX_NESTED:
            raise FilterError(f"nested more than {MAX_NESTED} deep", token.at)
        if token.kind == "not":
            return Not(self._one(depth + 1))
        if token.kind == "(":
            inner = self._any_of(depth + 1)
            if self._take().kind != ")":
                raise FilterError("this parenthesis is never closed", token.at)
            return inner
        if token.kind in ("word", "quoted"):
            return self._named(token)
        if token.kind == "end":
            raise FilterError("unexpected end: a column or a word is missing", self._length)
        raise FilterError(f"a column or a word is missing before {token.text!r}", token.at)

    def _named(self, name: _Token) -> Term:
        if self._peek().kind != "operator":
            return BareWord(name.text)
        operator = self._take()
        value = self._peek()
        if value.kind not in ("word", "quoted", "and", "or", "not") or value.text in (
            "&",
            "|",
            "!",
            "&&",
            "||",
        ):
            raise FilterError(f"a value is missing after {name.text}{operator.text}", value.at)
        self._at += 1
        return _comparison(name, _SPELLINGS[operator.text], value)
