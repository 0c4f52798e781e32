"""The parts of a filter expression: each holds for a GPU or not, and prints as an expression again.

An unknown value never satisfies a comparison, whichever it is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, Protocol, TypeAlias

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
    """A part of an expression. Its `str` is an expression that parses to the same part."""

    def matches(self, node: Node, gpu: Gpu | None, now: float) -> bool:
        """Whether it holds; without a GPU, for the node as a whole."""
        ...


@dataclass(frozen=True)
class Everything:
    """The empty expression."""

    def matches(self, node: Node, gpu: Gpu | None, now: float) -> bool:  # noqa: ARG002  holds for all
        """Always true."""
        return True

    def __str__(self) -> str:
        return ""


@dataclass(frozen=True)
class BareWord:
    """A bare word: part of the node's name."""

    text: str

    def matches(self, node: Node, gpu: Gpu | None, now: float) -> bool:  # noqa: ARG002  the name alone decides
        """Upper and lower case alike."""
        return self.text.lower() in node.name.lower()

    def __str__(self) -> str:
        return _quoted(self.text)


@dataclass(frozen=True)
class NumberIs:
    """A comparison with a number; of several values (ranks, pids) one is enough, and `!=` wants none."""

    name: str
    operator: Operator
    text: str
    column: NumberColumn = field(compare=False, repr=False)
    value: float = field(compare=False)
    tolerance: float = field(compare=False)
    """`power=700` holds for what is shown as 700: within half of the last digit typed."""

    def matches(self, node: Node, gpu: Gpu | None, now: float) -> bool:
        """False when the value is unknown."""
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
    """A comparison with a word or a pattern; of several values (users, reasons) one is enough."""

    name: str
    operator: Operator
    text: str
    column: WordColumn = field(compare=False, repr=False)
    test: Callable[[str], bool] = field(compare=False, repr=False)

    def matches(self, node: Node, gpu: Gpu | None, now: float) -> bool:
        """False when the value is unknown."""
        values = self.column.read(node, gpu, now)
        if values is None:
            return False
        return any(self.test(value) for value in values) is (self.operator in ("=", "~="))

    def __str__(self) -> str:
        return f"{self.name}{self.operator}{_quoted(self.text)}"


@dataclass(frozen=True)
class Not:
    """The opposite: also true where the inner comparison fails on an unknown value."""

    inner: Term

    def matches(self, node: Node, gpu: Gpu | None, now: float) -> bool:
        """The opposite of the inner term."""
        return not self.inner.matches(node, gpu, now)

    def __str__(self) -> str:
        return f"!{self.inner}"


@dataclass(frozen=True)
class AllOf:
    """Every part holds."""

    parts: tuple[Term, ...]

    def matches(self, node: Node, gpu: Gpu | None, now: float) -> bool:
        """True when every part holds."""
        return all(part.matches(node, gpu, now) for part in self.parts)

    def __str__(self) -> str:
        return f"({' & '.join(map(str, self.parts))})"


@dataclass(frozen=True)
class AnyOf:
    """At least one part holds."""

    parts: tuple[Term, ...]

    def matches(self, node: Node, gpu: Gpu | None, now: float) -> bool:
        """True when one part holds."""
        return any(part.matches(node, gpu, now) for part in self.parts)

    def __str__(self) -> str:
        return f"({' | '.join(map(str, self.parts))})"


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
