"""How often a backtracking search may go over the same text: judged on the parsed pattern, nothing is run.

Two causes are distinguished. A repeated part that can match one text in two ways doubles the work with every
character: found in the position automaton (Glushkov) of the repeated part, in which a pair of positions that
reads the same characters leaves the diagonal and comes back. Repeats that follow each other over the same
characters multiply: their number, and what must stand between them, gives the power of the line's length.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from gpuwatch.rules.compiling.check import (
    ANY_OTHER,
    UNBOUNDED_REPEAT,
    RulePatternError,
    characters_of,
    inner_parts,
    op,
    parsed,
)

WINDOW_CHARS = 4096
"""Characters of a line that are searched (`agent/logs/matching/matcher.py`)."""
MOST_STEPS = 2e9
"""Of a search of one window, estimated: some seconds of CPU time at worst."""
LARGE_REPEAT = 200
"""Times that a repeat may go on to share the window with the others; fewer are a constant of each."""
MOST_POSITIONS = 600
MOST_COPIES = 64
_REPEATS = tuple(
    getattr(op, name) for name in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT") if hasattr(op, name)
)


def check_pattern(pattern: str) -> None:
    """Refuse a pattern whose search may take for ever.

    Raises:
        PatternError: with the reason.
    """
    tree = parsed(pattern)
    try:
        folded = bool(re.compile(pattern).flags & re.IGNORECASE)
    except re.error as error:
        raise RulePatternError(f"not a regular expression: {error.msg}", error.pos) from None
    check_repeats(tree, folded=folded)
    if estimated_steps(tree, folded=folded) > MOST_STEPS:
        raise RulePatternError(
            "repeats that follow each other can match one text, so a long line may never end. Bound them "
            "([^ ]{0,80} for .*), or put a character between that they cannot match"
        )


@dataclass
class Automaton:
    """Positions of a part: what each can read, which may come first, last and next."""

    reads: list[frozenset[int]]
    first: list[int] = field(default_factory=list)
    last: list[int] = field(default_factory=list)
    nullable: bool = True


class _Builder:
    """Builds the automaton of one repeated part; an edge that arises twice is an ambiguity of its own."""

    def __init__(self, *, folded: bool) -> None:
        self.reads: list[frozenset[int]] = []
        self.next: list[set[int]] = []
        self.twice: list[tuple[int, int]] = []
        self.empty_twice = False
        """Several alternatives match no text at all."""
        self._folded = folded

    def sequence(self, tree: Any) -> Automaton:  # noqa: ANN401 - re's own parse tree
        whole = Automaton(self.reads)
        for code, argument in tree:
            whole = self._joined(whole, self._part(code, argument))
        return whole

    def repeated(self, part: Automaton) -> Automaton:
        self._link(part.last, part.first)
        return part

    def _part(self, code: Any, argument: Any) -> Automaton:  # noqa: ANN401
        if code in _REPEATS:
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

    def _within(self, argument: Any) -> Automaton:  # noqa: ANN401
        """A group, which may fold case by flags of its own: `(?i:a)`."""
        before, self._folded = self._folded, _is_folded(argument, folded=self._folded)
        try:
            return self.sequence(argument[3])
        finally:
            self._folded = before

    def _position(self, reads: frozenset[int], *, nullable: bool) -> Automaton:
        if len(self.reads) >= MOST_POSITIONS:
            raise RulePatternError("a repeated group is too large; repeat less, or fewer times")
        self.reads.append(reads)
        self.next.append(set())
        at = len(self.reads) - 1
        return Automaton(self.reads, [at], [at], nullable)

    def _copies(self, low: int, high: int, body: Any) -> Automaton:  # noqa: ANN401
        if high >= UNBOUNDED_REPEAT and not (low == high <= MOST_COPIES):
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


def check_repeats(tree: Any, *, folded: bool) -> None:  # noqa: ANN401
    """Refuse repeated parts that match one text in several ways.

    Raises:
        PatternError: with the reason.
    """
    for code, argument in tree:
        if code is op.SUBPATTERN:
            check_repeats(argument[3], folded=_is_folded(argument, folded=folded))
            continue
        if code in _REPEATS and argument[1] >= UNBOUNDED_REPEAT and not _is_one(argument[2]):
            builder = _Builder(folded=folded)
            builder.repeated(builder.sequence(argument[2]))
            if _is_ambiguous(builder):
                raise RulePatternError(
                    "a repeated group can match one text in several ways, so a long line may never end. Put "
                    "a character between that neither neighbour can match, or use a character class"
                )
        for inner in inner_parts(code, argument):
            check_repeats(inner, folded=folded)


def _is_one(body: Any) -> bool:  # noqa: ANN401
    """Whether a body is one character, the usual case."""
    return len(body) == 1 and body[0][0] in (op.LITERAL, op.NOT_LITERAL, op.ANY, op.IN)


def _is_ambiguous(builder: _Builder) -> bool:
    """Whether two different ways lead from a position back to it over the same text."""
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


# ----------------------------------------------------------------- repeats that follow each other


@dataclass(frozen=True)
class _Element:
    """One element of a pattern's sequence: text of a bounded length, or a repeat."""

    reads: frozenset[int]
    least: int
    most: float
    """Times that it may repeat; 0 where it is no repeat."""
    not_behind: frozenset[int] = frozenset()
    """A condition: the character before is none of these."""


def estimated_steps(tree: Any, *, folded: bool) -> float:  # noqa: ANN401
    """About how many steps a search of a window of `WINDOW_CHARS` characters takes at worst."""
    return max(_steps(path) for path in _paths(tree, folded=folded))


def _paths(tree: Any, *, folded: bool) -> list[list[_Element]]:  # noqa: ANN401
    """The sequences of elements that a pattern consists of, one for each choice among its alternatives."""
    paths: list[list[_Element]] = [[]]
    for code, argument in tree:
        paths = [path + more for path in paths for more in _expanded(code, argument, folded=folded)]
        if len(paths) > MOST_COPIES:
            paths = [max(paths, key=_steps)]
    return paths


def _expanded(code: Any, argument: Any, *, folded: bool) -> list[list[_Element]]:  # noqa: ANN401
    if code is op.SUBPATTERN:
        return _paths(argument[3], folded=_is_folded(argument, folded=folded))
    if code is op.BRANCH:
        return [path for branch in argument[1] for path in _paths(branch, folded=folded)]
    if code in (op.AT, op.ASSERT, op.ASSERT_NOT):
        return _conditions(code, argument, folded=folded)
    if code in _REPEATS:
        low, high, body = argument
        reads = readable_in(body, folded=folded)
        least = low * body.getwidth()[0]
        if high >= UNBOUNDED_REPEAT and low != high:
            return [[_Element(reads, least, min(WINDOW_CHARS, high * max(1, body.getwidth()[1])))]]
        paths = _paths(body, folded=folded)
        if high == 1:
            return [*([] if low else [[]]), *paths]
        varying = [path for path in paths if any(each.most for each in path)]
        if varying:
            return [max(varying, key=_steps) * min(high, UNBOUNDED_REPEAT)]
        return [[_Element(reads, least, 0 if low == high else high)]]
    return [[_Element(readable(code, argument, folded=folded), 1, 0)]]


def _conditions(code: Any, argument: Any, *, folded: bool) -> list[list[_Element]]:  # noqa: ANN401
    """Of what matches no text of its own: anchors, and what must or must not stand beside."""
    if code is op.AT:
        return [[_anchor(argument)]]
    behind, body = argument
    if behind > 0:
        return [[], *_paths(body, folded=folded)]
    return (
        [[_Element(frozenset(), 0, 0, readable_in(body, folded=folded))]] if code is op.ASSERT_NOT else [[]]
    )


def _anchor(where: Any) -> _Element:  # noqa: ANN401
    if where in (op.AT_BEGINNING, op.AT_BEGINNING_STRING):
        return _Element(frozenset(), 0, 0, frozenset(range(257)))
    if where is op.AT_BOUNDARY:
        return _Element(frozenset(), 0, 0, characters_of(op.IN, [(op.CATEGORY, op.CATEGORY_WORD)]))
    return _Element(frozenset(), 0, 0)


def _steps(path: list[_Element]) -> float:
    """The largest product over repeats that can share one stretch of text; the search itself is the first."""
    path = [_Element(frozenset(range(257)), 0, WINDOW_CHARS), *path]
    best: dict[int, tuple[float, int]] = {0: (float(WINDOW_CHARS), 1)}
    """Index of a repeat -> the product up to it, and how many of its factors share the whole window."""
    for index, element in enumerate(path):
        if not element.most or not index:
            continue
        best[index] = (element.most, 1)
        for earlier, (steps, count) in list(best.items()):
            period = _period(path, earlier, index) if earlier < index else 0
            if period:
                more = element.most >= LARGE_REPEAT
                best[index] = max(best[index], (steps * element.most / period, count + more))
    return max(steps / math.factorial(count) for steps, count in best.values())


def _period(path: list[_Element], earlier: int, later: int) -> int:
    """Characters after which both repeats can begin anew with the same text; 0: they share none."""
    both = path[earlier].reads & path[later].reads
    period = 0
    if not both:
        return 0
    for at in range(earlier + 1, later):
        element = path[at]
        if element.least and not (element.reads & both):
            return 0
        period += element.least
        alone = not any(each.least for each in path[at + 1 : later])
        if element.not_behind and alone and path[later].reads <= element.not_behind:
            return 0
    return max(1, period)


# ----------------------------------------------------------------- characters


def _is_folded(argument: Any, *, folded: bool) -> bool:  # noqa: ANN401
    """Whether a group ignores case: `argument` of the group, `folded` of what is around it."""
    add, remove = argument[1], argument[2]
    return (folded or bool(add & re.IGNORECASE)) and not remove & re.IGNORECASE


@lru_cache(maxsize=4096)
def _with_case(reads: frozenset[int]) -> frozenset[int]:
    letters = {chr(each) for each in reads if each < ANY_OTHER and chr(each).isalpha()}
    if not letters:
        return reads
    other = {
        ord(each) for letter in letters for each in letter.lower() + letter.upper() if ord(each) < ANY_OTHER
    }
    return reads | other | {ANY_OTHER}  # some letters fold with one beyond Latin-1: k and the Kelvin sign


def readable(code: Any, argument: Any, *, folded: bool) -> frozenset[int]:  # noqa: ANN401
    """The characters that an element can match."""
    found = characters_of(code, argument)
    return _with_case(found) if folded else found


def readable_in(tree: Any, *, folded: bool) -> frozenset[int]:  # noqa: ANN401
    """The characters that a sequence can match."""
    return frozenset().union(*(readable(code, argument, folded=folded) for code, argument in tree))
