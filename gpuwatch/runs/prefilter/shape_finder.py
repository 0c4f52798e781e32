"""Searches many shapes of lines for all expressions at once with Hyperscan.

A shape is a line without its digits. Besides the expressions of rules it is searched for the marks of other
readers, and for signs that no pattern can be tried on it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from gpuwatch.runs.prefilter.hyperscan_database import databases_of
from gpuwatch.runs.prefilter.whole_lines import SIGNS, is_tried, refused_by_bytes

if TYPE_CHECKING:
    from gpuwatch.agent.logs.matching.ruleset import Phrase

MAX_EXPRESSIONS = 500
r"""Most expressions in one database.

Hyperscan 5.4 misses matches in larger ones: of 1,849 expressions it never found `\|\s*Fail - GPU` behind more
than 60 characters; with 1,500 it did.
"""


MAX_TEXTS = 1_500
"""Most plain texts in one database."""


class Expression(NamedTuple):
    """A regular expression that the Hyperscan database contains."""

    text: bytes
    folded: bool


class ExpressionSearch:
    """Finds the shapes that numbered expressions match."""

    def __init__(self, expressions: Sequence[Expression], together: int = MAX_EXPRESSIONS) -> None:
        """Create the search, with up to `together` expressions in a database; none is loaded yet."""
        self._together = together
        self._batches = [
            expressions[first : first + together] for first in range(0, len(expressions), together)
        ]
        self.databases: list[Any] = []
        """One for each batch of expressions; empty: none are loaded."""

    def load(self, *, may_compile: bool) -> bool:
        """Load the databases, or compile them; return False while they are not compiled yet."""
        self.databases = databases_of(self._batches, may_compile=may_compile)
        return bool(self.databases)

    def numbers_in(self, text: bytes) -> dict[bytes, list[int]]:
        """Return shape -> the numbers of the expressions that match it, for the lines of `text`."""
        ends: list[tuple[int, int]] = []

        def on_match(number: int, _start: int, end: int, _flags: int, first: int) -> None:
            ends.append((end, first + number))

        for index, database in enumerate(self.databases):
            database.scan(text, match_event_handler=on_match, context=index * self._together)
        held: dict[int, dict[int, None]] = {}
        for end, number in ends:
            held.setdefault(text.rfind(b"\n", 0, end - 1) + 1, {})[number] = None
        found = {}
        for begin, numbers in held.items():
            stop = text.find(b"\n", begin)
            found[text[begin:] if stop < 0 else text[begin:stop]] = list(numbers)
        return found


class TextsOfPhrases:
    """Finds the phrases whose texts occur in shapes."""

    def __init__(self, bare: Mapping[Phrase, bytes]) -> None:
        """Create the search; its databases are not loaded yet. `bare`: the texts without digits."""
        owners: dict[Expression, list[Phrase]] = {}
        self._everywhere = [phrase for phrase, text in bare.items() if not text]
        for phrase, text in bare.items():
            if text:
                owners.setdefault(Expression(re.escape(text), phrase.fold), []).append(phrase)
        self._owners = list(owners.values())
        """For each text its phrases."""
        self._search = ExpressionSearch(list(owners), MAX_TEXTS)
        self.load = self._search.load

    def in_shapes(self, shapes: Sequence[bytes]) -> dict[bytes, list[Phrase]]:
        """Return shape -> the phrases that it contains, for shapes with any."""
        return {
            shape: [phrase for number in numbers for phrase in self._owners[number]] + self._everywhere
            for shape, numbers in self._search.numbers_in(b"\n".join(shapes)).items()
        }


class ShapesFound(NamedTuple):
    """What a search found in some shapes."""

    numbers: dict[bytes, list[int]]
    """Shape -> the numbers of the expressions that match it, for shapes with any."""
    refused: set[bytes]
    """Shapes on which no pattern can be tried."""


class ShapeFinder:
    """Finds expressions, marks and signs in shapes, and remembers which shapes have marks."""

    def __init__(self, expressions: Sequence[Expression], marks: Sequence[Sequence[bytes]]) -> None:
        """Create the search; its databases are not loaded yet.

        Args:
            expressions: The numbered expressions.
            marks: Groups of texts without digits and control characters.
        """
        owners: dict[bytes, list[int]] = {}
        for group, texts in enumerate(marks):
            for text in texts:
                owners.setdefault(text, []).append(group)
        self._owners = list(owners.values())
        """For each mark the numbers of its groups."""
        self._first_sign = len(expressions)
        self._first_mark = self._first_sign + len(SIGNS)
        signs = [Expression(sign, folded=True) for sign in SIGNS]
        texts_of_marks = [Expression(re.escape(text), folded=False) for text in owners]
        self._search = ExpressionSearch([*expressions, *signs, *texts_of_marks])
        self.load = self._search.load
        self._marked: list[set[bytes]] = [set() for _ in marks]
        self.marked_bytes = 0
        """Bytes of the shapes with marks."""

    @property
    def databases(self) -> list[Any]:
        """The loaded databases; empty: none are loaded."""
        return self._search.databases

    def marked(self, group: int) -> set[bytes]:
        """Return the shapes with a mark of this group, of those searched since `forget`."""
        return self._marked[group]

    def forget(self) -> None:
        """Forget which shapes have marks."""
        self.marked_bytes = 0
        for shapes in self._marked:
            shapes.clear()

    def found_in(self, shapes: Sequence[bytes]) -> ShapesFound:
        """Search the shapes."""
        text = b"\n".join(shapes)
        refused = refused_by_bytes(shapes, text)
        found: dict[bytes, list[int]] = {}
        for shape, numbers in self._search.numbers_in(text).items():
            held = [number for number in numbers if number < self._first_sign]
            if held:
                found[shape] = held
            if len(held) < len(numbers):
                self._note(shape, numbers, refused)
        return ShapesFound(found, refused)

    def _note(self, shape: bytes, numbers: Sequence[int], refused: set[bytes]) -> None:
        """Add a shape to those with marks and to `refused`, by the numbers that match it."""
        for number in numbers:
            for group in self._owners[number - self._first_mark] if number >= self._first_mark else ():
                self._marked[group].add(shape)
                self.marked_bytes += len(shape)
        is_sign = any(self._first_sign <= number < self._first_mark for number in numbers)
        if is_sign and not is_tried(shape, shape.lower()):
            refused.add(shape)
