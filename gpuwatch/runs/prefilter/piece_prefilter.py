"""The prefilter of a scan: the agent's, with cached shapes of a piece and patterns tried on shapes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, Any

from gpuwatch.agent.logs.lines.json_lines import has_escapes, unescaped
from gpuwatch.agent.logs.matching.prefilter import MAX_BYTES, MAX_SHAPE, MAX_SHAPES, Prefilter
from gpuwatch.runs.prefilter.shape_filter import ShapeFilter

if TYPE_CHECKING:
    from gpuwatch.agent.logs.matching.ruleset import Phrase, RuleSet

_OTHER_ESCAPE = re.compile(rb"\\[^nrt]")
"""Matches a JSON escape other than line ends and tabs: the shape of its line differs from its text's."""


class PiecePrefilter(Prefilter):
    """A prefilter that caches the shapes (lines without digits) of the newest piece for several stages."""

    def __init__(self, ruleset: RuleSet) -> None:
        super().__init__(ruleset)
        self._piece = b""
        self._shapes: list[bytes] = []
        self._distinct: frozenset[bytes] = frozenset()
        self._filter = ShapeFilter(ruleset)
        self._escaped: set[bytes] = set()
        """Shapes of the piece's lines with JSON escapes, after these are replaced by their characters."""

    def prepare(self) -> None:
        """Do the slow preparations for the next piece; call this outside of any time limit."""

    def shapes(self, data: bytes) -> list[bytes]:
        """Return the shape of each line."""
        if data is not self._piece:
            self._piece, self._shapes = data, super().shapes(data)
            self._distinct = frozenset(self._shapes)
        return self._shapes

    def distinct(self, data: bytes) -> AbstractSet[bytes]:
        """Return the different shapes of the lines."""
        self.shapes(data)
        return self._distinct

    def hits(
        self,
        data: bytes,
        newest: Any = None,  # noqa: ANN401 - the agent's type
        known: set[int] | None = None,
    ) -> list[tuple[int, Phrase]]:
        """Return (offset, phrase) for each phrase in the data whose rules may match its line."""
        self._escaped.clear()
        if has_escapes(data):
            lines = [line for line in data.replace(b"\r", b"\n").split(b"\n") if _OTHER_ESCAPE.search(line)]
            self._escaped.update(super().shapes(unescaped(b"\n".join(lines))))
        return super().hits(data, newest, known)

    def _remember_plain(self, shapes: list[bytes]) -> None:
        """Store which shapes have no phrase, all at once: in dense text nearly all have none."""
        short = [shape for shape in shapes if len(shape) <= MAX_SHAPE]
        self._bytes += sum(map(len, short))
        if self._bytes > MAX_BYTES or len(self._plain_shapes) + len(short) > MAX_SHAPES:
            self._plain_shapes.clear()
            self._rule_shapes.clear()
            self._progress_shapes.clear()
            self._bytes = sum(map(len, short))
        self._plain_shapes.update(short)

    def _phrases_in(self, shapes: Sequence[bytes]) -> dict[bytes, list[Phrase]]:
        return self._filter.kept(super()._phrases_in(shapes), self._escaped)
