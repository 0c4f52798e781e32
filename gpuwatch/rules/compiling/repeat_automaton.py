"""Detects repeated parts that match one text in several ways, by their position automaton."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from gpuwatch.rules.compiling.check import (
    UNBOUNDED_REPEAT,
    PatternError,
    inner_parts,
    op,
)
from gpuwatch.rules.compiling.pattern_parts import MAX_COPIES, REPEATS, is_folded, readable

MAX_POSITIONS = 600
MAX_LOOK = 100
"""Copies of a part that a lookaround inside a repeat may read."""


@dataclass
class Automaton:
    """The position automaton of a part of a pattern.

    It states what each position can read, and which positions may be first, last and next.
    """

    reads: list[frozenset[int]]
    first: list[int] = field(default_factory=list)
    last: list[int] = field(default_factory=list)
    nullable: bool = True


class _Builder:
    """Builds the position automaton of a repeated part of a pattern.

    A transition between two positions that is added twice shows an ambiguity.
    """

    def __init__(self, *, folded: bool) -> None:
        self.reads: list[frozenset[int]] = []
        self.next: list[set[int]] = []
        self.twice: list[tuple[int, int]] = []
        self.empty_twice = False
        """True if several alternatives match the empty text."""
        self._folded = folded

    def sequence(self, tree: Any) -> Automaton:
        whole = Automaton(self.reads)
        for code, argument in tree:
            whole = self._joined(whole, self._part(code, argument))
        return whole

    def repeated(self, part: Automaton) -> Automaton:
        self._link(part.last, part.first)
        return part

    def _part(self, code: Any, argument: Any) -> Automaton:
        if code in REPEATS:
            return self._copies(*argument)
        if code is op.SUBPATTERN:
            return self._within(argument)
        if code is op.BRANCH:
            parts = [self.sequence(each) for each in argument[1]]
            first = [at for part in parts for at in part.first]
            last = [at for part in parts for at in part.last]
            self.empty_twice = self.empty_twice or sum(part.nullable for part in parts) > 1
            return Automaton(self.reads, first, last, any(part.nullable for part in parts))
        if code in (op.AT, op.ASSERT, op.ASSERT_NOT):
            return Automaton(self.reads)
        if code in (op.GROUPREF, op.GROUPREF_EXISTS):
            return self._position(frozenset(range(257)), nullable=True)
        return self._position(readable(code, argument, folded=self._folded), nullable=False)

    def _within(self, argument: Any) -> Automaton:
        """Return the automaton of a group, which may have its own case flags: `(?i:a)`."""
        before, self._folded = self._folded, is_folded(argument, folded=self._folded)
        try:
            return self.sequence(argument[3])
        finally:
            self._folded = before

    def _position(self, reads: frozenset[int], *, nullable: bool) -> Automaton:
        if len(self.reads) >= MAX_POSITIONS:
            raise PatternError("a repeated group is too large; repeat less, or fewer times")
        self.reads.append(reads)
        self.next.append(set())
        at = len(self.reads) - 1
        return Automaton(self.reads, [at], [at], nullable)

    def _copies(self, low: int, high: int, body: Any) -> Automaton:
        if high >= UNBOUNDED_REPEAT and not (low == high <= MAX_COPIES):
            part = self.repeated(self.sequence(body))
            return Automaton(self.reads, part.first, part.last, part.nullable or not low)
        whole = Automaton(self.reads)
        for number in range(high):
            copy = self.sequence(body)
            copy.nullable = copy.nullable or number >= low
            whole = self._joined(whole, copy)
        return whole

    def _joined(self, one: Automaton, other: Automaton) -> Automaton:
        self._link(one.last, other.first)
        return Automaton(
            self.reads,
            one.first + (other.first if one.nullable else []),
            other.last + (one.last if other.nullable else []),
            one.nullable and other.nullable,
        )

    def _link(self, last: list[int], first: list[int]) -> None:
        for one in last:
            for other in first:
                if other in self.next[one]:
                    self.twice.append((one, other))
                self.next[one].add(other)


def check_repeats(tree: Any, *, folded: bool) -> None:
    """Refuse a pattern whose repeated parts match one text in several ways. `folded`: case is ignored.

    Raises:
        PatternError: With the reason.
    """
    for code, argument in tree:
        if code is op.SUBPATTERN:
            check_repeats(argument[3], folded=is_folded(argument, folded=folded))
            continue
        if code in REPEATS and argument[1] > 1 and _looks_far(argument[2]):
            raise PatternError(
                "a repeated group looks ahead without a limit, so matching a long line may never end: "
                "its characters are read again and again. Look at a fixed number, or outside of the repeat"
            )
        if code in REPEATS and argument[1] >= UNBOUNDED_REPEAT and not _is_one(argument[2]):
            builder = _Builder(folded=folded)
            builder.repeated(builder.sequence(argument[2]))
            if _is_ambiguous(builder):
                raise PatternError(
                    "a repeated group can match one text in several ways, so matching a long line may never "
                    "end. Put between them a character that neither can match, or use a character class"
                )
        for inner in inner_parts(code, argument):
            check_repeats(inner, folded=folded)


def _looks_far(tree: Any, *, looks: bool = False) -> bool:
    """Return True if a lookaround of a part can read over MAX_LOOK characters. `looks`: it is within one."""
    for code, argument in tree:
        if looks and code in REPEATS and argument[1] > MAX_LOOK:
            return True
        within = looks or code in (op.ASSERT, op.ASSERT_NOT)
        if any(_looks_far(inner, looks=within) for inner in inner_parts(code, argument)):
            return True
    return False


def _is_one(body: Any) -> bool:
    """Return True if a repeated part is a single character, the usual case."""
    return len(body) == 1 and body[0][0] in (op.LITERAL, op.NOT_LITERAL, op.ANY, op.IN)


def _is_ambiguous(builder: _Builder) -> bool:
    """Return True if one text leads from a position of the automaton back to it by two different paths."""
    reach = _reachable(builder.next)
    if builder.empty_twice or any(one in reach[other] for one, other in builder.twice):
        return True
    for start in range(len(builder.reads)):
        apart = [pair for pair in _pairs(builder, (start, start)) if pair[0] != pair[1]]
        seen: set[tuple[int, int]] = set(apart)
        waiting = list(apart)
        while waiting:
            for pair in _pairs(builder, waiting.pop()):
                if pair == (start, start):
                    return True
                if pair not in seen and start in reach[pair[0]] and start in reach[pair[1]]:
                    seen.add(pair)
                    waiting.append(pair)
    return False


def _pairs(builder: _Builder, pair: tuple[int, int]) -> Iterator[tuple[int, int]]:
    for one in builder.next[pair[0]]:
        for other in builder.next[pair[1]]:
            if builder.reads[one] & builder.reads[other]:
                yield one, other


def _reachable(edges: list[set[int]]) -> list[set[int]]:
    found = []
    for start in range(len(edges)):
        seen = set(edges[start])
        waiting = list(seen)
        while waiting:
            for each in edges[waiting.pop()] - seen:
                seen.add(each)
                waiting.append(each)
        found.append(seen)
    return found
