"""Drops phrases that a shape contains by chance: none of their rules can match such a line.

A phrase is a short part of a rule's pattern: `reduce`, ` 0 bytes`, `Error`. Most lines with a
phrase are ordinary, and preparing a line for the rules takes 0.1 ms. So the whole pattern is first tried on
the shape, once for all its lines.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from itertools import accumulate

from gpuwatch.agent.logs.matching.ruleset import Phrase, RuleSet
from gpuwatch.rules.compiling.shape_parts import BORDER
from gpuwatch.rules.compiling.shape_patterns import ShapePattern, shape_pattern
from gpuwatch.runs.prefilter.phrase_patterns import LiteralOwners, Literals
from gpuwatch.runs.prefilter.whole_lines import is_tried

TOGETHER = 64
"""Number of shapes that are searched at once.

A call costs as much as a search, so there are many; each has a time limit, so there are not too many.
"""


class ShapeSearch:
    """A pattern for shapes. It is searched without its leading word border first, in a fifth of the time."""

    def __init__(self, pattern: ShapePattern) -> None:
        self._text, self.folded = pattern
        self._search = re.compile(self._text.removeprefix(BORDER.encode())).search
        self._whole: re.Pattern[bytes] | None = None

    def matches(self, text: bytes) -> bool:
        """Return True if a shape matches. `text`: the shape, in lower case if the pattern is `folded`."""
        return self._search(text) is not None and self._is_whole(text)

    def matched(self, texts: Sequence[bytes], places: Sequence[int]) -> set[int]:
        """Return those of the indexes `places` whose shapes match.

        A pattern for shapes matches no line end, so all shapes are searched as one text.
        """
        some = [texts[place] for place in places]
        starts = list(accumulate((len(text) + 1 for text in some), initial=0))
        together = b"\n".join(some)
        found: set[int] = set()
        match = self._search(together)
        while match is not None:
            index = bisect_right(starts, match.start()) - 1
            if self._is_whole(some[index]):
                found.add(places[index])
            match = self._search(together, starts[index + 1]) if index + 1 < len(some) else None
        return found

    def _is_whole(self, text: bytes) -> bool:
        if self._whole is None:
            self._whole = re.compile(self._text)
        return self._whole.search(text) is not None


Searches = list[tuple[str, ShapeSearch, Literals]]
"""Pattern searches, with their rules and literals; each line that a phrase leads to matches one of them."""


class ShapeFilter:
    """The patterns of each phrase, compiled when the phrase is first found in a shape."""

    def __init__(self, ruleset: RuleSet) -> None:
        self._ruleset = ruleset
        self._patterns: dict[Phrase, Searches | None] = {}
        self._known: dict[str, ShapeSearch | None] = {}
        self._searches: dict[ShapePattern, ShapeSearch] = {}
        self._literals = LiteralOwners(ruleset)

    def kept(
        self, found: dict[bytes, list[Phrase]], untried: AbstractSet[bytes]
    ) -> dict[bytes, list[Phrase]]:
        """Return shape -> those of its phrases whose rules or dialects may match its lines.

        `found` is updated and returned. `untried`: shapes of which all phrases are kept.
        """
        alike: dict[tuple[Phrase, ...], list[bytes]] = {}
        for shape, phrases in found.items():
            if phrases and shape not in untried and is_tried(shape, shape.lower()):
                alike.setdefault(tuple(phrases), []).append(shape)
        for each, shapes in alike.items():
            for at in range(0, len(shapes), TOGETHER):
                found.update(self._kept(each, shapes[at : at + TOGETHER]))
        return found

    def _kept(self, phrases: Sequence[Phrase], shapes: Sequence[bytes]) -> dict[bytes, list[Phrase]]:
        """Return shape -> the phrases of it whose rules may match; all `shapes` have these `phrases`."""
        lowered = b"\n".join(shapes).lower().split(b"\n")
        every = range(len(shapes))
        suspended = self._ruleset.suspended
        matched: dict[tuple[ShapeSearch, Literals], set[int]] = {}
        for phrase in phrases:
            for rule, search, literals in self._searches_of(phrase) or ():
                if rule in suspended or (search, literals) in matched:
                    continue
                if self._ruleset.entered is not None:  # a hung search suspends its rule
                    self._ruleset.entered(rule)
                places = with_literals(literals, shapes, lowered) if literals else every
                matched[search, literals] = search.matched(lowered if search.folded else shapes, places)
                if self._ruleset.left is not None:
                    self._ruleset.left()
        kept: list[list[Phrase]] = [[] for _ in shapes]
        for phrase in phrases:
            searches = self._searches_of(phrase)
            if searches is None or any(rule in suspended for rule, _, _ in searches):
                indexes: Iterable[int] = every
            else:
                indexes = {index for _, search, literals in searches for index in matched[search, literals]}
            for index in indexes:
                kept[index].append(phrase)
        return dict(zip(shapes, kept, strict=True))

    def _searches_of(self, phrase: Phrase) -> Searches | None:
        """Return the searches of a phrase; None: it may lead to a match in any shape."""
        if phrase not in self._patterns:
            compiled = [
                (rule, self._compiled(text), literals)
                for rule, text, literals in self._literals.patterns_of(phrase)
            ]
            every = [(rule, search, literals) for rule, search, literals in compiled if search is not None]
            self._patterns[phrase] = every if len(every) == len(compiled) else None
        return self._patterns[phrase]

    def _compiled(self, text: str) -> ShapeSearch | None:
        """Return the compiled pattern for shapes; None: any shape may match."""
        if text not in self._known:
            loosened = shape_pattern(text)
            self._known[text] = None if loosened is None else self._search_of(loosened)
        return self._known[text]

    def matches(self, pattern: ShapePattern, shape: bytes, lowered: bytes) -> bool:
        """Return True if a pattern matches a shape; `lowered`: the shape in lower case."""
        return self._search_of(pattern).matches(lowered if pattern.folded else shape)

    def _search_of(self, pattern: ShapePattern) -> ShapeSearch:
        found = self._searches.get(pattern)
        if found is None:
            found = self._searches[pattern] = ShapeSearch(pattern)
        return found


def with_literals(literals: Literals, shapes: Sequence[bytes], lowered: Sequence[bytes]) -> list[int]:
    """Return the indexes of the shapes that contain one of the literals.

    `lowered`: the shapes in lower case.
    """
    places = []
    for place, (shape, folded) in enumerate(zip(shapes, lowered, strict=True)):
        for text, fold in literals:
            if text in (folded if fold else shape):
                places.append(place)
                break
    return places
