"""Recognises repeated error lines of one shape: after the first few they are counted, not searched."""

import re

from ..lines.splitter import line_text
from ..lines.timestamps import time_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..matching.ruleset import CompiledRule

SEARCHED_FIRST = 8
"""Lines of one shape and rank that are searched and shown with context."""
MANY_ERRORS = 400
"""Error lines of a file after which one of each shape suffices."""
MAX_SHAPES = 2000
MAX_KNOWN = 4000
"""Remembered shapes of lines without news, and texts in them."""
_RANK = re.compile(
    rb"\[rank\d+\]|^\d+: |\[\d+,\d+\]<|[Rr](?:ank|ANK)['\"]?[ =:]{1,3}\d+|default\d+\]|pid=\d+"
)
"""Distinguishes the ranks that write lines of one shape."""


class Repeats(object):
    """The first finding of each shape of lines in one file, once enough of its lines were searched."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, bytes], list[Any]] = {}
        self._searched = 0

    def add(
        self, shape: "int | None", line: bytes, rule: "CompiledRule", finding: "dict[str, Any]", message: str
    ) -> None:
        """Count a searched error line of a shape that no specific rule explains; store its first finding."""
        if shape is None:
            return
        self._searched += 1
        if len(self._known) >= MAX_SHAPES:
            self._known.clear()
        known = self._known.setdefault((shape, _rank(line)), [0, rule, finding, message])
        known[0] += 1

    def match(
        self, shape: "int | None", line: bytes, offset: int, arrived: float
    ) -> "tuple[CompiledRule, dict[str, Any], str] | None":
        """Return (rule, finding, message) for a further line of a known shape; None: search the line."""
        known = None if shape is None or not self._known else self._known.get((shape, _rank(line)))
        if known is None or known[0] < (SEARCHED_FIRST if self._searched < MANY_ERRORS else 1):
            return None
        text = line_text(line)
        at = time_of(text, arrived)
        finding = dict(known[2], offset=offset, timed=at is not None, lines=[text], key=0)
        finding["at"] = known[2]["at"] if at is None else at
        return known[1], finding, known[3]


class KnownLines(object):
    """The shapes of lines in one file that give no new finding, since a training log repeats itself."""

    def __init__(self) -> None:
        self._shapes: dict[int, list[tuple[int, int]]] = {}
        """Shape -> position of the decisive text in its lines; none for lines without a match."""
        self._texts: set[tuple[Any, ...]] = set()
        self.plain: set[int] = set()
        """Shapes of lines without a match."""

    def holds(self, shape: int, line: bytes) -> bool:
        """Return True if a line of this shape gives no new finding."""
        places = self._shapes.get(shape)
        if not places:
            return places is not None
        return _texts_at(shape, line, places) in self._texts

    def add(self, shape: int, line: bytes, texts: "list[str]") -> None:
        """Store that a line of this shape gave no finding but for these texts, each once in the line."""
        raw = [text.encode("utf-8", "replace") for text in texts]
        if any(line.count(each) != 1 for each in raw):
            return
        if len(self._shapes) >= MAX_KNOWN or len(self._texts) >= MAX_KNOWN:
            self._shapes.clear()
            self._texts.clear()
            self.plain.clear()
        places = [(line.index(each), line.index(each) + len(each)) for each in raw]
        self._shapes[shape] = places
        if not places:
            self.plain.add(shape)
        if places:
            self._texts.add(_texts_at(shape, line, places))


def _texts_at(shape: int, line: bytes, places: "list[tuple[int, int]]") -> "tuple[Any, ...]":
    return (shape,) + tuple(line[begin:end] for begin, end in places)


def _rank(line: bytes) -> bytes:
    found = _RANK.search(line, 0, 200)
    return found.group() if found else b""
