"""A candidate line with its messages and the other parts of a wrapped record."""

from ..lines.json_lines import object_at
from ..lines.normalise import (
    MAX_WRAPPED,
    is_source,
    is_wrapped,
    joined,
    known_messages,
    last_message,
    may_be_wrapped,
    messages,
)
from ..lines.prefixes import differ
from ..lines.splitter import line_text, unmasked_text
from ..records.shortened import summary
from ..records.wanted_lines import WantedLines, may_have_more
from .phrase_places import places_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Iterable

    from ..lines.prefixes import Speaker
    from .chunk import Chunk
    from .ruleset import Phrase


MAX_PLAIN = 4096
"""Bytes of a record from which on its level and time may be too far from its beginning to be read."""
MAX_BETWEEN = 8
"""Most lines of other writers between a traceback frame and the source that it quotes."""


class CandidateLine(object):
    """A physical line of a chunk as rules search it. `local_ranks`: `[rankN]:` is a local rank."""

    __slots__ = ("data", "end", "left_out", "parts", "proof", "stated", "start", "text")

    def __init__(
        self, chunk: "Chunk", span: "tuple[int, int]", local_ranks: bool, phrases: "Iterable[Phrase]" = ()
    ) -> None:
        """Read the line of a span of the chunk; of a long record, what is around the phrases is read."""
        self.start, self.end = start, end = span
        data = chunk.searched(start, end)
        self.data = data if len(data) <= MAX_PLAIN else _brief(data)
        """The physical line with its prefixes; the values of a long record are cut."""
        self.text = line_text(self.data)
        """The same as text."""
        self.parts: list[int] = []
        """Starts of the physical lines above that belong to the same record."""
        self.left_out = 0
        """Lines of its message that are not searched although phrases are in them."""
        if len(data) <= MAX_PLAIN and not may_have_more(data):
            stated, self.proof = known_messages(data, local_ranks)
        else:
            phrases = list(phrases)
            wanted = WantedLines(lambda data: places_in(data, phrases) if phrases else [])
            stated, self.proof = messages(data, local_ranks, wanted=wanted)
            self.left_out = wanted.left_out
        self.stated: list[tuple[str, Speaker]] = []
        """Its messages with their writers, without quoted source code."""
        for index, each in enumerate(stated):
            record = stated[index - 1][0] if index else None
            if not _is_quoted(each, record, chunk, start):
                self.stated.append(each)
        if self.stated:
            self._join(chunk, chunk.above(start, MAX_WRAPPED - 1), local_ranks)

    def _join(self, chunk: "Chunk", above: "list[bytes]", local_ranks: bool) -> None:
        text, by = self.stated[-1]
        for before in reversed(above):  # this may be the second or third line of a broken record
            if not may_be_wrapped(before):
                break
            head, who = last_message(before, local_ranks)
            if not is_wrapped(head):
                break
            text, by = joined(head, text), who
            self.parts.append(chunk.start_above(self.parts[-1] if self.parts else self.start))
        below = chunk.below(self.end, MAX_WRAPPED - 1) if is_wrapped(text) else []
        while below and is_wrapped(text):
            text = joined(text, messages(below.pop(0), local_ranks)[0][0][0])
        self.stated[-1] = (text, by)


def _brief(data: bytes) -> bytes:
    """Return a long physical line as it is; of a JSON record, the line with its values cut."""
    text = unmasked_text(data)
    begin = object_at(text)
    if begin < 0:
        return data
    return (text[:begin] + summary(text[begin:])).encode("utf-8", "replace")


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
        text, who = last_message(line)
        if not differ(who, by):
            return is_source(message, text)
    return False
