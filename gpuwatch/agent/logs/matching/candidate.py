"""A candidate line with its messages and the other parts of a wrapped record."""

from ..lines.normalise import MAX_WRAPPED, is_source, is_wrapped, joined, may_be_wrapped, messages
from ..lines.prefixes import differ
from ..lines.splitter import MAX_LINE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..lines.prefixes import Speaker
    from .chunk import Chunk


MAX_BETWEEN = 8
"""Most lines of other writers between a traceback frame and the source that it quotes."""


class CandidateLine(object):
    """A physical line of a chunk as rules search it. `local_ranks`: `[rankN]:` is a local rank."""

    __slots__ = ("end", "parts", "proof", "stated", "start")

    def __init__(self, chunk: "Chunk", start: int, end: int, local_ranks: bool) -> None:
        self.start = start
        self.end = end
        self.parts: list[int] = []
        """Starts of the physical lines above that belong to the same record."""
        stated, self.proof = messages(chunk.clean[start : min(end, start + MAX_LINE)], local_ranks)
        self.stated: list[tuple[str, Speaker]] = []
        """Its messages with their writers, without quoted source code."""
        for index, each in enumerate(stated):
            record = stated[index - 1][0] if index else None
            if not _is_quoted(each, record, chunk, start):
                self.stated.append(each)
        if self.stated:
            self._join(chunk, chunk.above(start, MAX_WRAPPED - 1), local_ranks)

    def raw(self, chunk: "Chunk") -> str:
        """Return the physical line with its prefixes."""
        return chunk.text(self.start, self.end)

    def _join(self, chunk: "Chunk", above: "list[bytes]", local_ranks: bool) -> None:
        text, by = self.stated[-1]
        for before in reversed(above):  # this may be the second or third line of a broken record
            if not may_be_wrapped(before):
                break
            head, who = messages(before, local_ranks)[0][-1]
            if not is_wrapped(head):
                break
            text, by = joined(head, text), who
            self.parts.append(chunk.start_above(self.parts[-1] if self.parts else self.start))
        below = chunk.below(self.end, MAX_WRAPPED - 1) if is_wrapped(text) else []
        while below and is_wrapped(text):
            text = joined(text, messages(below.pop(0), local_ranks)[0][0][0])
        self.stated[-1] = (text, by)


def _is_quoted(stated: "tuple[str, Speaker]", record: "str | None", chunk: "Chunk", start: int) -> bool:
    """Return True if a message quotes source code: it is indented below a traceback frame of its writer.

    `record`: the previous message on the same physical line, if any.
    """
    message, by = stated
    if is_source(message, ""):
        return True
    if message[:1] not in (" ", "|"):
        return False
    if record is not None:
        return is_source(message, record)
    for line in reversed(chunk.above(start, MAX_BETWEEN)):
        text, who = messages(line)[0][-1]
        if not differ(who, by):
            return is_source(message, text)
    return False
