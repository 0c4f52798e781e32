"""The terms of a filter expression: each matches a GPU or not, and `str` gives the expression again.

An unknown value never satisfies a comparison, not even `!=`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, Protocol, TypeAlias

from msgspec import Struct

from gpuwatch.fleet.filter.columns import NumberColumn, WordColumn
from gpuwatch.fleet.nodes.node import Gpu, Node

Operator: TypeAlias = Literal[">", ">=", "<", "<=", "=", "!=", "~=", "!~"]

ORDER: dict[str, Callable[[float, float], bool]] = {
    ">": lambda value, limit: value > limit,
    ">=": lambda value, limit: value >= limit,
    "<": lambda value, limit: value < limit,
    "<=": lambda value, limit: value <= limit,
}


class Term(Protocol):
    """A term of an expression. Its `str` is an expression that parses to the same term."""

    def matches(self, node: Node, gpu: Gpu | None, now: float) -> bool:
        """Return True if the term matches the GPU, or the node as a whole without a GPU."""
        ...


class Everything(Struct, frozen=True):
    """The empty expression, which matches everything."""

    def matches(self, node: Node, gpu: Gpu | None, now: float) -> bool:  # noqa: ARG002  holds for all
        """Return True always."""
        return True

    def __str__(self) -> str:
        return ""


class BareWord(Struct, frozen=True):
    """A bare word: matches part of the node's name."""

    text: str

    def matches(self, node: Node, gpu: Gpu | None, now: float) -> bool:  # noqa: ARG002  the name alone decides
        """Return True if the node's name contains the text, ignoring case."""
        return self.text.lower() in node.name.lower()

    def __str__(self) -> str:
        return _quoted(self.text)


@dataclass(frozen=True)
class NumberIs:
    """A comparison of a column with a number.

    If a column has several values (ranks, pids), one match is enough; `!=` requires that none is equal.
    """

    name: str
    operator: Operator
    text: str
    column: NumberColumn = field(compare=False, repr=False)
    value: float = field(compare=False)
    tolerance: float = field(compare=False)
    """Half of the last digit typed: `power=700` matches whatever is shown as 700."""

    def matches(self, node: Node, gpu: Gpu | None, now: float) -> bool:
        """Return True if the comparison holds; False for an unknown value."""
        values = self.column.read(node, gpu, now)
        if values is None:
            return False
        if self.operator == "!=":
            return not any(self._equal(value) for value in values)
        if self.operator == "=":
            return any(self._equal(value) for value in values)
        return any(ORDER[self.operator](value, self.value) for value in values)

    def _equal(self, value: float) -> bool:
        return abs(value - self.value) < self.tolerance

    def __str__(self) -> str:
        return f"{self.name}{self.operator}{_quoted(self.text)}"


@dataclass(frozen=True)
class WordIs:
    """A comparison of a column with text or a pattern.

    One match of several values (users) is enough; `!=` and `!~` require that none matches.
    """

    name: str
    operator: Operator
    text: str
    column: WordColumn = field(compare=False, repr=False)
    test: Callable[[str], bool] = field(compare=False, repr=False)

    def matches(self, node: Node, gpu: Gpu | None, now: float) -> bool:
        """Return True if the comparison holds; False for an unknown value."""
        values = self.column.read(node, gpu, now)
        if values is None:
            return False
        return any(self.test(value) for value in values) is (self.operator in ("=", "~="))

    def __str__(self) -> str:
        return f"{self.name}{self.operator}{_quoted(self.text)}"


class Not(Struct, frozen=True):
    """The negation of a term: also true if the inner comparison fails because the value is unknown."""

    inner: Term

    def matches(self, node: Node, gpu: Gpu | None, now: float) -> bool:
        """Return True if the inner term does not match."""
        return not self.inner.matches(node, gpu, now)

    def __str__(self) -> str:
        return f"!{self.inner}"


class AllOf(Struct, frozen=True):
    """Terms joined with `and`: matches if every one matches."""

    parts: tuple[Term, ...]

    def matches(self, node: Node, gpu: Gpu | None, now: float) -> bool:
        """Return True if every part matches."""
        return all(part.matches(node, gpu, now) for part in self.parts)

    def __str__(self) -> str:
        return f"({' & '.join(map(str, self.parts))})"


class AnyOf(Struct, frozen=True):
    """Terms joined with `or`: matches if at least one matches."""

    parts: tuple[Term, ...]

    def matches(self, node: Node, gpu: Gpu | None, now: float) -> bool:
        """Return True if at least one part matches."""
        return any(part.matches(node, gpu, now) for part in self.parts)

    def __str__(self) -> str:
        return f"({' | '.join(map(str, self.parts))})"


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
