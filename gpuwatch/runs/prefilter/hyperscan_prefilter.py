"""A prefilter that uses Hyperscan for text with many new shapes; it finds the same phrases as the word sets.

A log that repeats its lines with other numbers has few new shapes. In text of which most lines are new
(source code, prompts, names of objects) the words of each would be looked up, and the patterns of shapes
tried one after another. Hyperscan finds the matches of all patterns in one pass.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from gpuwatch.agent.logs.lines.json_lines import has_escapes
from gpuwatch.rules.compiling.keep import shape_patterns_or_kept
from gpuwatch.runs.prefilter.expressions import expressions_or_kept
from gpuwatch.runs.prefilter.hyperscan_database import database_of_texts
from gpuwatch.runs.prefilter.phrase_patterns import owners_of, texts_of_owners
from gpuwatch.runs.prefilter.piece_prefilter import PiecePrefilter
from gpuwatch.runs.prefilter.shape_finder import Expression, ShapeFinder, ShapesFound, TextsOfPhrases

if TYPE_CHECKING:
    from gpuwatch.agent.logs.matching.ruleset import Phrase, RuleSet
    from gpuwatch.rules.compiling.shape_patterns import ShapePattern

MANY_BYTES = 16 << 10
"""Bytes of new shapes that are searched by words before a cached database is loaded.

Loading takes as long as that search.
"""
WORTH_BYTES = 16 << 20
"""Bytes of new shapes that are searched by words before a database is compiled and cached."""
AGAIN_BYTES = 1 << 20
"""Bytes of new shapes between two attempts to load a database that another process compiles."""
MAX_MARKED_BYTES = 4 << 20
"""Most bytes of shapes with marks that are remembered."""
NOTHING = ShapesFound({}, set())


class HyperscanPrefilter(PiecePrefilter):
    """A `PiecePrefilter` that looks for phrases and patterns in many new shapes at once."""

    def __init__(self, ruleset: RuleSet, marks: Sequence[Sequence[bytes]] = ()) -> None:
        """Create the prefilter.

        Args:
            ruleset: The rules.
            marks: Groups of texts for `surely_lacks`, which are searched together with the rules; a text
                contains no digit and no control character.
        """
        super().__init__(ruleset)
        self._ruleset = ruleset
        self._marks = list(marks)
        self._search: ShapeFinder | None = None
        self._texts = TextsOfPhrases(self._bare)
        self._led_to: list[list[tuple[ShapePattern | None, dict[Phrase, int]]]] = []
        """For each expression: the patterns that it finds, with their phrases; None: a phrase itself."""
        self._searched_last: tuple[frozenset[bytes], ShapesFound] = frozenset(), NOTHING
        """The shapes that were searched last, and what is in them."""
        self._examined: frozenset[bytes] | None = None
        """The shapes of the piece that was searched for marks last."""
        self._looked, self._ask_at = 0, MANY_BYTES
        """Bytes of new shapes seen while no database was loaded, and the number at which to look for one."""

    @property
    def databases(self) -> list[Any]:
        """The loaded databases for shapes; empty: none are loaded."""
        return [] if self._search is None else self._search.databases

    def prepare(self) -> None:
        """Load or compile the databases if enough new shapes were looked up; it may take seconds."""
        if self.databases or self._looked < self._ask_at:
            return
        may_compile = self._looked >= WORTH_BYTES
        self._load(may_compile=may_compile)
        self._ask_at = self._looked + AGAIN_BYTES if may_compile else WORTH_BYTES

    def load_kept(self) -> None:
        """Load the databases, if the cache folder has all of them."""
        if not self.databases:
            self._load(may_compile=False)

    def finder_of(self, texts: Sequence[bytes]) -> Callable[[bytes], bool]:
        """Return a function that returns True if one of the texts occurs in the lines of a piece."""
        in_shapes = super().finder_of(texts)
        alone: Any = None

        def holds(data: bytes) -> bool:
            nonlocal alone
            if not self.databases:
                return in_shapes(data)
            if self.surely_lacks(data, texts):
                return False
            alone = alone or database_of_texts(texts)
            ends: list[int] = []
            alone.scan(data, match_event_handler=lambda _number, _start, end, *_: ends.append(end))
            return bool(ends)

        return holds

    def surely_lacks(self, data: bytes, texts: Sequence[bytes]) -> bool:
        """Return True if none of the texts occurs in the lines; False: unknown."""
        if not self.databases or texts not in self._marks or has_escapes(data):
            return False  # of lines with escapes the rules search other shapes
        assert self._search is not None  # noqa: S101 - the databases are loaded
        shapes = self.distinct(data)
        if shapes is not self._examined:
            self._search_new(shapes.difference(self._plain_shapes, self._rule_shapes, self._progress_shapes))
            self._examined = shapes
        return shapes.isdisjoint(self._search.marked(self._marks.index(texts)))

    def _load(self, *, may_compile: bool) -> None:
        if self._search is None:
            self._prepare()
        assert self._search is not None  # noqa: S101 - set by `_prepare`
        texts = self._texts.load(may_compile=may_compile)
        if texts and self._search.load(may_compile=may_compile):
            self._forget()  # the shapes known so far were not searched for marks

    def _forget(self) -> None:
        super()._forget()
        self._searched_last, self._examined = (frozenset(), NOTHING), None
        if self._search is not None:
            self._search.forget()

    def _make_room(self) -> None:
        super()._make_room()
        if self._search is not None and self._search.marked_bytes > MAX_MARKED_BYTES:
            self._forget()

    def _phrases_in(self, shapes: Sequence[bytes]) -> dict[bytes, list[Phrase]]:
        if not self.databases:
            self._looked += sum(map(len, shapes))
            return super()._phrases_in(shapes)
        found = self._search_new(shapes)
        if self._ruleset.suspended:
            return super()._phrases_in(shapes)
        others = found.refused
        if self._escaped:
            others = others.union(self._escaped.intersection(shapes))
        tried = {shape: numbers for shape, numbers in found.numbers.items() if shape not in others}
        led = self._led(tried)
        return {**super()._phrases_in(list(others)), **led} if others else led

    def _search_new(self, shapes: Collection[bytes]) -> ShapesFound:
        """Return what is in these different shapes; they are searched only if others were searched last."""
        assert self._search is not None  # noqa: S101 - the databases are loaded
        last, found = self._searched_last
        if len(shapes) != len(last) or not last.issuperset(shapes):
            found = self._search.found_in(list(shapes))
            self._searched_last = frozenset(shapes), found
        return found

    def _prepare(self) -> None:
        texts = texts_of_owners(self._ruleset.phrases)
        loosened = shape_patterns_or_kept({text for each in texts.values() for text in each})
        reduced = expressions_or_kept({each.text.decode() for each in loosened.values() if each is not None})
        patterns = {owners: dict.fromkeys(loosened[text] for text in each) for owners, each in texts.items()}
        led_to: dict[Expression, dict[ShapePattern | None, dict[Phrase, int]]] = {}
        led_by: dict[ShapePattern, dict[Phrase, int]] = {}
        for phrase in self._ruleset.phrases:
            own = patterns[owners_of(phrase)]
            if None in own:
                expression = Expression(re.escape(self._bare[phrase]), phrase.fold)
                led = led_to.setdefault(expression, {}).setdefault(None, {})
                led.setdefault(phrase, len(led))
                continue
            for pattern in own:
                assert pattern is not None  # noqa: S101 - see above
                if pattern not in led_by:
                    loose = Expression(reduced[pattern.text.decode()].encode(), pattern.folded)
                    led_by[pattern] = led_to.setdefault(loose, {}).setdefault(pattern, {})
                led = led_by[pattern]
                led.setdefault(phrase, len(led))
        self._led_to = [list(each.items()) for each in led_to.values()]
        self._search = ShapeFinder(list(led_to), self._marks)

    def _led(self, found: Mapping[bytes, Sequence[int]]) -> dict[bytes, list[Phrase]]:
        """Return shape -> the phrases in it to which the expressions found lead, by their numbers."""
        lowered = {shape: shape.lower() for shape in found}
        contained = self._texts.in_shapes(list(found))
        return {
            shape: self._led_in(shape, lowered[shape], numbers, contained.get(shape, ()))
            for shape, numbers in found.items()
        }

    def _led_in(
        self, shape: bytes, lowered: bytes, numbers: Sequence[int], contained: Sequence[Phrase]
    ) -> list[Phrase]:
        phrases: dict[Phrase, None] = {}
        for number in numbers:
            for pattern, led in self._led_to[number]:
                some = [each for each in contained if each in led]
                if some and (pattern is None or self._filter.matches(pattern, shape, lowered)):
                    phrases.update(dict.fromkeys(sorted(some, key=led.__getitem__)))
        return [each for each in phrases if each.may_match(lowered)]
