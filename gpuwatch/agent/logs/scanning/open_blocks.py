"""Completes findings that wait for the lines below them."""

from ...masking.secret_phrases import masked_lines
from ..lines.normalise import messages
from .dedup import report

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..lines.prefixes import Speaker
    from ..matching.chunk import Chunk
    from ..matching.matcher import LineMatcher
    from ..matching.ruleset import CompiledRule
    from .dedup import Open

MAX_BLOCK = 60


class OpenBlocks(object):
    """The findings of one file that wait for the lines of their blocks; each is reported when complete."""

    def __init__(self, search: "LineMatcher") -> None:
        self._search = search
        self._waiting: list[tuple[Open, CompiledRule]] = []

    def open(
        self,
        opened: "Open",
        rule: "CompiledRule",
        by: "Speaker",
        chunk: "Chunk",
        end: int,
        out: "list[dict[str, Any]]",
    ) -> None:
        """Start a finding's block with the lines below `end`; add the finding to `out` if it is complete."""
        opened.waiting = [min(rule.block or MAX_BLOCK, MAX_BLOCK), by]
        self._waiting += self._filled([(opened, rule)], chunk, end, out)

    def fill(self, chunk: "Chunk", out: "list[dict[str, Any]]") -> None:
        """Add the lines of the next chunk to the open blocks, and completed findings to `out`."""
        if self._waiting:
            self._waiting = self._filled(self._waiting, chunk, 0, out)

    def report(self, now: float, out: "list[dict[str, Any]]") -> None:
        """Add all waiting findings to `out` as they are, and end their blocks."""
        for known, _ in self._waiting:
            out.append(report(known, now))
        self._waiting = []

    def searched_to(self, offset: int) -> int:
        """Return the offset before which all findings are reported, if all before `offset` is searched."""
        for known, _ in self._waiting:
            offset = min(offset, known.finding["offset"])
        return offset

    def _filled(
        self,
        waiting: "list[tuple[Open, CompiledRule]]",
        chunk: "Chunk",
        end: int,
        out: "list[dict[str, Any]]",
    ) -> "list[tuple[Open, CompiledRule]]":
        """Add the lines below `end` to waiting findings, and completed ones to `out`; return the others."""
        still: list[tuple[Open, CompiledRule]] = []
        for known, rule in waiting:
            left, by = known.waiting
            done = False
            for text in chunk.texts_below(end, left, by):
                known.finding["lines"].append(masked_lines([known.finding["lines"][-1], text])[-1])
                left -= 1
                if self._search.ends_block(rule, messages(text.encode("utf-8", "replace"))[0][-1][0]):
                    done = True
                    break
            if done or not left:
                out.append(report(known, chunk.arrived))
            else:
                known.waiting = [left, by]
                still.append((known, rule))
        return still
