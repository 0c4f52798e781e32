"""Chooses the log lines to parse for steps: a bounded sample that contains every kind of line.

The kind of a line is its text without digits and the letters a to f, so that numbers, hashes and addresses do
not matter.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import compress
from operator import itemgetter
from typing import TypeAlias

from gpuwatch.agent.logs.progress.dialect import CompiledDialect

BYTES_PER_LINE = 512 << 10
"""Log bytes per parsed line: parsing takes about 100 us, searching 512 KiB for failures 2 ms."""
MAX_SHAPES = 5_000
RANK_LINES = 2048
"""Number of lines at the end of a stretch that are distinguished by rank prefix, in a file of many ranks."""
RANKS_PARSED = 64
"""Number of ranks in a file whose last line in every stretch is parsed.

For more ranks the stretches take turns, and the last line of each rank in the file is parsed, too.
"""
KNOWN_ENDS = 4
"""Number of known kinds of lines whose last line in a block is parsed; a progress bar has dozens."""
NEIGHBOUR_LINES = 2
"""Number of lines above the last line of a block or new kind that are parsed: they show the step interval."""
BARREN_LINES, BARREN_SHARE = 200, 8
"""Lines in a row without values after which one new kind of line in BARREN_SHARE is parsed.

They are counted per set of dialects.
"""
ODD = re.compile(rb"(?i)nan|inf(?!o)")
"""Matches a shape whose loss is not finite; `INFO` must not match."""
HEX_LETTERS = b"abcdefABCDEF"

_TAG = rb"[\[<({]?[\w. -]{0,20}[@/][\w.-]{1,40}[\]>)}:| ]"
_RANK_PREFIX = re.compile(
    rb"^\s*(?:\[[^\]\d]{0,12}\d{1,6}\]|\d{1,6}: |\[\d+,\d+\]<|" + _TAG + rb")"
    rb"|[Rr](?:ank|ANK)[ :=]{0,3}\d{1,6}\b"
)
_MAY_HOLD_RANK = re.compile(
    rb"^\s*(?:\[[A-Za-z ]{0,12}\]|: |\[,\]<|" + _TAG + rb")|[Rr](?:ank|ANK)[ :=]{0,3}(?![A-Za-z])"
)


RankKind: TypeAlias = tuple[bytes, bytes]
"""A kind of line, and the prefix of a rank."""


class LineChoice:
    """Chooses the lines of one file to parse, one stretch after the other."""

    def __init__(self, first_lines: int) -> None:
        """Create the choice for one file.

        `first_lines`: lines that are parsed beyond the share by file size.
        """
        self._credit = first_lines
        self._seen: set[bytes] = set()
        """Kinds seen in earlier stretches."""
        self._barren: dict[tuple[str, ...], int] = defaultdict(int)
        """Dialects -> number of consecutive lines without values."""
        self._passed = 0
        self._stretches = 0
        self.deferred: dict[RankKind, int] = {}
        """Last lines of many ranks in the newest stretch; parsed if no later one follows."""
        self.replaced: set[RankKind] = set()
        """Ranks of which a line of that stretch is parsed, so that no earlier one is needed."""

    def choose(
        self,
        lines: Sequence[bytes],
        shapes: Sequence[bytes],
        paced: Mapping[bytes, list[CompiledDialect]],
        size: int,
    ) -> list[int]:
        """Return the indexes of the lines to parse, in order, among those whose shape is in `paced`.

        Args:
            lines: The lines of a stretch.
            shapes: The same lines without their digits.
            paced: Shape -> the dialects that its lines may be of.
            size: Bytes of the stretch.
        """
        self.deferred, self.replaced = {}, set()
        share = size // BYTES_PER_LINE
        chosen = sorted(self._chosen(lines, shapes, paced, share + self._credit))
        self._credit = max(0, self._credit - max(0, len(chosen) - share))
        return chosen

    def note(self, dialects: Sequence[CompiledDialect], *, reported: bool) -> None:
        """Record whether a line that was parsed for these dialects had values (`reported`)."""
        names = tuple(each.id for each in dialects)
        self._barren[names] = 0 if reported else self._barren[names] + 1

    def _chosen(
        self,
        lines: Sequence[bytes],
        shapes: Sequence[bytes],
        paced: Mapping[bytes, list[CompiledDialect]],
        wanted: int,
    ) -> set[int]:
        """Return the indexes of about `wanted` lines: the last of each kind and rank, and new kinds."""
        possible = list(compress(range(len(shapes)), map(paced.__contains__, shapes)))
        if wanted >= len(lines):
            return set(possible)
        first = {shapes[index]: index for index in reversed(possible)}
        kinds: dict[bytes, bytes] = {}
        firsts: dict[bytes, int] = {}
        lasts: dict[bytes, int] = {}
        for shape, index in {shapes[index]: index for index in possible}.items():
            kind = kinds[shape] = shape.translate(None, HEX_LETTERS)
            lasts[kind] = max(index, lasts.get(kind, index))
            firsts[kind] = min(first[shape], firsts.get(kind, index))
        newest = max(lasts.values(), default=-1)
        known = sorted(
            index for kind, index in lasts.items() if kind in self._seen and not ODD.search(shapes[index])
        )
        ends = sorted(set(lasts.values()).difference(known[:-KNOWN_ENDS]))
        ends = [
            index for index in ends if index == newest or not self._is_passed(shapes[index], kinds, paced)
        ]
        wide = [index for index in ends if index == newest or kinds[shapes[index]] not in self._seen]
        chosen = {near for index in wide for near in range(max(0, index - NEIGHBOUR_LINES), index + 1)}
        chosen.update(ends)
        chosen = {index for index in chosen if shapes[index] in paced}
        step = len(lines) / max(1, wanted)
        spread = (int(number * step) for number in range(wanted))
        chosen.update(index for index in spread if shapes[index] in paced)
        of_ranks: dict[RankKind, int] = {}
        for index in list(chosen):
            shape = shapes[index]
            if lasts[kinds[shape]] != index:
                continue
            if kinds[shape] not in self._seen or ODD.search(shape):
                chosen.add(firsts[kinds[shape]])
            if _MAY_HOLD_RANK.search(shape):
                last = last_of_ranks(lines, shapes, possible, kinds, index)
                of_ranks.update(((kinds[shape], rank), at) for rank, at in last.items())
        chosen.update(self._of_turn(of_ranks))
        if len(self._seen) > MAX_SHAPES:
            self._seen.clear()
        self._seen.update(lasts)
        return chosen

    def _of_turn(self, of_ranks: dict[RankKind, int]) -> Iterable[int]:
        """Return the last lines of the ranks if it is the current stretch's turn; else defer them."""
        self._stretches += 1
        if self._stretches % max(1, -(-len(of_ranks) // RANKS_PARSED)):
            self.deferred = of_ranks
            return ()
        self.replaced = set(of_ranks)
        return of_ranks.values()

    def _is_passed(
        self, shape: bytes, kinds: Mapping[bytes, bytes], paced: Mapping[bytes, list[CompiledDialect]]
    ) -> bool:
        """Return True if a new kind is skipped because many lines for the same dialects had no values."""
        names = tuple(each.id for each in paced[shape])
        if self._barren[names] < BARREN_LINES or kinds[shape] in self._seen or ODD.search(shape):
            return False
        self._passed += 1
        return self._passed % BARREN_SHARE != 0


def last_of_ranks(
    lines: Sequence[bytes],
    shapes: Sequence[bytes],
    possible: Sequence[int],
    kinds: Mapping[bytes, bytes],
    last: int,
) -> dict[bytes, int]:
    """Return rank prefix -> index of its last line, among the last `RANK_LINES` lines up to `last`.

    Only lines of the same kind as the one at `last` count. `possible`: the indexes of the lines with kinds.
    """
    found: dict[bytes, int] = {}
    kind = kinds[shapes[last]]
    alike = {shape for shape, each in kinds.items() if each == kind}
    near = possible[bisect_left(possible, last + 1 - RANK_LINES) : bisect_right(possible, last)]
    own = [index for index in near if shapes[index] in alike]
    if own and (prefix := _RANK_PREFIX.search(lines[own[-1]], 0, 200)) is not None:
        place = itemgetter(slice(*prefix.span()))
        if set(map(place, map(lines.__getitem__, own))) == {prefix.group()}:
            return {prefix.group(): own[-1]}  # mostly one rank writes them all
    start, end, before = 0, 0, b"?"
    for index in reversed(own):
        line = lines[index]
        if line[start:end] == before:
            continue  # comparing is a tenth of searching
        prefix = _RANK_PREFIX.search(line, 0, 200)
        if prefix is not None:
            start, end, before = prefix.start(), prefix.end(), prefix.group()
            found.setdefault(before, index)
    return found
