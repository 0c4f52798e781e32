"""A prefilter that uses Hyperscan for text with many new shapes; it finds the same phrases as the word sets.

A log that repeats its lines with other numbers has few new shapes. In text of which most lines are new
(source code, prompts, names of objects) the words of each would be looked up, and the patterns of shapes
tried one after another. Hyperscan finds the matches of all patterns in one pass.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from gpuwatch.rules.compiling.keep import shape_patterns_or_kept
from gpuwatch.runs.prefilter.expressions import expressions_or_kept
from gpuwatch.runs.prefilter.hyperscan_database import database_of_texts, databases_of
from gpuwatch.runs.prefilter.phrase_patterns import patterns_of
from gpuwatch.runs.prefilter.piece_prefilter import PiecePrefilter
from gpuwatch.runs.prefilter.whole_lines import untried

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
MAX_EXPRESSIONS = 500
r"""Most expressions in one database.

Hyperscan 5.4 misses matches in larger ones: of 1,849 expressions it never found `\|\s*Fail - GPU` behind more
than 60 characters; with 1,500 it did.
"""


class Expression(NamedTuple):
    """A regular expression that the Hyperscan database contains."""

    text: bytes
    folded: bool


class HyperscanPrefilter(PiecePrefilter):
    """A `PiecePrefilter` that looks for phrases and patterns in many new shapes at once."""

    def __init__(self, ruleset: RuleSet) -> None:
        super().__init__(ruleset)
        self._ruleset = ruleset
        self._expressions: list[Expression] = []
        self._led_to: list[list[tuple[ShapePattern | None, list[Phrase]]]] = []
        """For each expression: the patterns that it finds, with their phrases; None: a phrase itself."""
        self._databases: list[Any] = []
        """The databases, each of up to `MAX_EXPRESSIONS` expressions; empty: none are loaded."""
        self._looked, self._ask_at = 0, MANY_BYTES
        """Bytes of new shapes seen while no database was loaded, and the number at which to look for one."""

    def prepare(self) -> None:
        """Load or compile the databases if enough new shapes were looked up; it may take seconds."""
        if self._databases or self._looked < self._ask_at:
            return
        may_compile = self._looked >= WORTH_BYTES
        if not self._expressions:
            self._prepare()
        self._databases = databases_of(batches(self._expressions), may_compile=may_compile)
        self._ask_at = self._looked + AGAIN_BYTES if may_compile else WORTH_BYTES

    def load_kept(self) -> None:
        """Load the databases, if the cache folder has all of them."""
        if not self._databases:
            self._prepare()
            self._databases = databases_of(batches(self._expressions), may_compile=False)

    def finder_of(self, texts: Sequence[bytes]) -> Callable[[bytes], bool]:
        """Return a function that returns True if one of the texts occurs in the lines of a piece."""
        in_shapes = super().finder_of(texts)
        database: Any = None

        def holds(data: bytes) -> bool:
            nonlocal database
            if not self._databases:
                return in_shapes(data)
            database = database or database_of_texts(texts)
            ends: list[int] = []
            database.scan(data, match_event_handler=lambda _number, _start, end, *_: ends.append(end))
            return bool(ends)

        return holds

    def _phrases_in(self, shapes: Sequence[bytes]) -> dict[bytes, list[Phrase]]:
        if not self._databases or self._ruleset.suspended:
            self._looked += sum(map(len, shapes))
            return super()._phrases_in(shapes)
        others = untried(shapes)
        if self._escaped:
            others |= self._escaped.intersection(shapes)
        if not others:
            return self._matched(shapes)
        tried = [shape for shape in shapes if shape not in others]
        return {**super()._phrases_in(list(others)), **self._matched(tried)}

    def _prepare(self) -> None:
        texts = {phrase: [text for _, text in patterns_of(phrase)] for phrase in self._ruleset.phrases}
        loosened = shape_patterns_or_kept({text for each in texts.values() for text in each})
        reduced = expressions_or_kept({each.text.decode() for each in loosened.values() if each is not None})
        led_to: dict[Expression, dict[ShapePattern | None, dict[Phrase, None]]] = {}
        for phrase, stated in texts.items():
            patterns = dict.fromkeys(loosened[text] for text in stated)
            if None in patterns:
                own = Expression(re.escape(self._bare[phrase]), phrase.fold)
                led_to.setdefault(own, {}).setdefault(None, {})[phrase] = None
                continue
            for pattern in patterns:
                assert pattern is not None  # noqa: S101 - see above
                loose = Expression(reduced[pattern.text.decode()].encode(), pattern.folded)
                led_to.setdefault(loose, {}).setdefault(pattern, {})[phrase] = None
        self._expressions = list(led_to)
        self._led_to = [
            [(pattern, list(phrases)) for pattern, phrases in each.items()] for each in led_to.values()
        ]

    def _matched(self, shapes: Sequence[bytes]) -> dict[bytes, list[Phrase]]:
        """Return shape -> its phrases, for the shapes that an expression of the databases matches."""
        ends: list[tuple[int, int]] = []

        def on_match(number: int, _start: int, end: int, _flags: int, first: int) -> None:
            ends.append((end, first + number))

        text = b"\n".join(shapes)
        for index, database in enumerate(self._databases):
            database.scan(text, match_event_handler=on_match, context=index * MAX_EXPRESSIONS)
        held: dict[int, dict[int, None]] = {}
        for end, number in ends:
            held.setdefault(text.rfind(b"\n", 0, end - 1) + 1, {})[number] = None
        found = {}
        for begin, numbers in held.items():
            end = text.find(b"\n", begin)
            shape = text[begin:] if end < 0 else text[begin:end]
            found[shape] = self._led(shape, list(numbers))
        return found

    def _led(self, shape: bytes, numbers: Sequence[int]) -> list[Phrase]:
        """Return the phrases in a shape to which the found expressions (`numbers`) lead."""
        lowered = shape.lower()
        phrases: dict[Phrase, None] = {}
        for number in numbers:
            for pattern, led in self._led_to[number]:
                if pattern is None or self._filter.matches(pattern, shape, lowered):
                    phrases.update(dict.fromkeys(led))
        return [
            each
            for each in phrases
            if self._bare[each] in (lowered if each.fold else shape) and each.may_match(lowered)
        ]


def batches(expressions: Sequence[Expression]) -> list[Sequence[Expression]]:
    """Return the expressions split into batches, one for each database."""
    return [
        expressions[first : first + MAX_EXPRESSIONS] for first in range(0, len(expressions), MAX_EXPRESSIONS)
    ]
