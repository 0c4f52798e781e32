"""Scans one log file with the rules: bytes in, findings out."""

from ..lines.normalise import broken_end
from ..lines.splitter import MAX_LINE, scrubbed
from ..matching.chunk import Chunk
from ..matching.matcher import LineMatcher
from ..matching.prefilter import SHAPELESS, Prefilter
from ..matching.traceback_ends import MARKS as TRACEBACK_MARKS
from ..matching.traceback_ends import TracebackEnds
from ..records.byte_lists import ends_in_byte_list
from .dedup import MAX_OPEN, Gatherer
from .line_findings import LineFindings
from .newest_lines import NewestLines
from .open_blocks import OpenBlocks
from .own_output import without_screens
from .progress_reader import ProgressReader

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..matching.ruleset import Phrase, RuleSet
    from ..records.open_record import OpenRecord
    from .table_prefilter import TablePrefilter

MAX_TAIL = 64 * 1024
OVERLAP_BYTES = 1024
"""Bytes at the end of an unfinished part of a long line that are searched again with the next part."""
LINE_ERRORS = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""Exceptions that a fault of gpuwatch raises on an unforeseen line."""
RECORD_MARK = b'\n{"'
"""A line that makes a prefilter read the escapes of JSON, for the rest of a record."""
MAX_FAILED = 100
QUIET_S = 0.5
"""Seconds of silence after which an unfinished line or block is processed."""


class ScanOutputs(object):
    """The outputs of a `Scanner` for one file: a collector of findings and a reader of training progress.

    `gather`, `progress`: None uses the default. Without `steps` there is no default reader of progress.
    """

    def __init__(
        self, gather: "Any" = None, progress: "Any" = None, steps: bool = True, counts_all: bool = True
    ) -> None:
        self.gather = gather
        self.counts_all = counts_all
        """False: a line whose findings a later line supersedes need not be searched."""
        self.progress = progress
        self.steps = steps


DEFAULT_OUTPUTS = ScanOutputs()


class Scanner(object):
    """Scans one file: `feed` it all bytes in order, call `quiet` each tick and `end` at the end."""

    def __init__(
        self,
        ruleset: "RuleSet",
        file: str,
        ids: "Any",
        speaker: "Any" = None,
        prefilter: "Prefilter | TablePrefilter | None" = None,
        outputs: "ScanOutputs" = DEFAULT_OUTPUTS,
    ) -> None:
        self._search = LineMatcher(ruleset, file)
        self._prefilter: Any = Prefilter(ruleset) if prefilter is None else prefilter
        self.gather: Gatherer = Gatherer(ids) if outputs.gather is None else outputs.gather
        self._tail = b""
        self._opened: OpenRecord | None = None
        """The long JSON record inside of which the tail begins."""
        self._past = b""
        self._tail_at = 0
        self._fed = float("-inf")
        self._looked = 0
        self._fed_to = 0
        self._failed: list[tuple[int, int, str]] = []
        self._partly: list[tuple[int, int]] = []
        self._unread_steps: int | None = None
        """Start of the first line that `progress` has not read."""
        self._blocks = OpenBlocks(self._search)
        self._lines = LineFindings(ruleset, file, self._search, speaker, self.gather, self._blocks)
        self._lines.newest = None if outputs.counts_all else NewestLines()
        self._tracebacks = TracebackEnds()
        self._backlog = False
        """True while the bytes are from before the file was followed."""
        self._progress: ProgressReader | None = outputs.progress
        if self._progress is None and outputs.steps and ruleset.dialects:
            self._progress = ProgressReader(file, self._search, self._prefilter, speaker)

    def feed(self, data: bytes, offset: int, arrived: float, backlog: bool = False) -> "list[dict[str, Any]]":
        """Return the findings completed by `data`, whose first byte is at file offset `offset`.

        They are dicts with the known keys of `wire.Finding`, without v, t, seq and kind.
        """
        self._fed, self._backlog = arrived, backlog
        whole = self._tail + data
        base = offset - len(self._tail)
        self._fed_to = offset + len(data)
        self._unread_steps = base if self._unread_steps is None else min(base, self._unread_steps)
        cut = max(whole.rfind(b"\n"), whole.rfind(b"\r")) + 1
        again = 0
        if len(whole) - cut > MAX_TAIL:
            cut, again = len(whole), OVERLAP_BYTES
        elif cut:
            cut -= broken_end(whole[:cut])
        self._tail, self._tail_at = whole[cut - again :], base + cut - again
        out: list[dict[str, Any]] = []
        if cut:
            self._scan(whole[:cut], base, arrived, out, cut - again)
            self._looked = 0
        return out

    def quiet(self, now: float) -> "list[dict[str, Any]]":
        """Return the findings that waited in vain for more lines, and those whose count has grown.

        Call it each tick.
        """
        out: list[dict[str, Any]] = []
        self._fed = min(self._fed, now)  # the clock may have been set back
        if now - self._fed >= QUIET_S:
            self._look_at_tail(self._fed, out)
            self._blocks.report(now, out)
        out.extend(self.gather.grown(now))
        return out

    def seam(self) -> None:
        """Drop the unfinished line and blocks, since the file was truncated or replaced."""
        self._tail, self._past, self._looked, self._opened = b"", b"", 0, None
        self._tracebacks = TracebackEnds()
        self._lines.seam()

    def end(self) -> "list[dict[str, Any]]":
        """Return all remaining findings: no more data will follow."""
        out: list[dict[str, Any]] = []
        self._look_at_tail(self._fed, out)
        self.search_held(out)
        self._lines.end(out)
        self._blocks.report(self._fed, out)
        out.extend(self.gather.grown(float("inf"), MAX_OPEN))
        return out

    def search_held(self, out: "list[dict[str, Any]]") -> None:
        """Search the lines that were held, as later ones might have superseded them."""
        newest = self._lines.newest
        for held in [] if newest is None else newest.take():
            chunk, span, _ = held
            try:
                self._lines.search_held(held, out)
            except LINE_ERRORS as error:
                self._note_failed(chunk, span, error)

    def progress(self) -> "list[dict[str, Any]]":
        """Return the training progress since the last call: dicts with the keys of `wire.Progress`."""
        frames = [] if self._progress is None else self._progress.frames(self._lines.local_ranks)
        self._unread_steps = None
        return frames

    def past(self, now: float) -> "list[dict[str, Any]]":
        """Return the past steps of the backlog, once it is read: dicts with the keys of `wire.Progress`."""
        return [] if self._progress is None else self._progress.past(self._lines.local_ranks, now)

    def take_failed(self) -> "list[tuple[int, int, str]]":
        """Return (first byte, end, error) of the lines that raised an error since the last call."""
        failed, self._failed = self._failed, []
        return failed

    def take_partly_searched(self) -> "list[tuple[int, int]]":
        """Return (first byte, end) of the records that were searched in part since the last call."""
        partly, self._partly = self._partly, []
        return partly

    @property
    def left_out(self) -> int:
        """Return the number of matches without a finding of their own, because a limit was reached."""
        return self.gather.left_out

    @property
    def unfinished(self) -> bytes:
        """Return the bytes that wait for the end of their line."""
        return self._tail

    @property
    def fed_to(self) -> int:
        """Return the offset after the last byte fed."""
        return self._fed_to

    def rewind(self) -> None:
        """Drop the unfinished line and open tracebacks: data may come again after an interrupted scan."""
        self._tail, self._looked, self._opened = b"", 0, None
        self._tracebacks = TracebackEnds()

    def unread_from(self, offset: int) -> int:
        """Return where the part begins that is not searched whole; the next byte to be fed is at `offset`."""
        return self._tail_at if len(self._tail) > self._looked else offset

    def searched_to(self, offset: int) -> int:
        """Return the offset before which all is searched and reported, if the next byte is at `offset`."""
        return self._blocks.searched_to(self.unread_from(offset))

    @property
    def pending(self) -> "tuple[int, int] | None":
        """Return the range (begin, end) of bytes that `quiet` or `progress` may still read, or None."""
        begin = self.searched_to(self._fed_to)
        if self._unread_steps is not None:
            begin = min(begin, self._unread_steps)
        return (begin, self._fed_to) if begin < self._fed_to else None

    def _look_at_tail(self, arrived: float, out: "list[dict[str, Any]]") -> None:
        if len(self._tail) > self._looked:
            self._looked = len(self._tail)
            past, tracebacks = self._past, self._tracebacks
            self._tracebacks = tracebacks.copy()
            self._scan(self._tail, self._tail_at, arrived, out)
            self._past, self._tracebacks = past, tracebacks

    def _scan(
        self, raw: bytes, base: int, arrived: float, out: "list[dict[str, Any]]", until: "int | None" = None
    ) -> None:
        """Search the lines in `raw` and add findings to `out`; `base`: its file offset.

        Lines from byte `until` on will be given again, with more.
        """
        raw = without_screens(raw)
        chunk = Chunk(raw, base, self._past, arrived, self._backlog, self._opened)
        if not chunk.clean.isspace():
            self._lines.go_on()
        self._blocks.fill(chunk, out)
        has_none = not self._tracebacks.open and self._prefilter.surely_lacks(chunk.clean, TRACEBACK_MARKS)
        raised = {} if has_none else self._tracebacks.find(chunk)
        known = None if raised else self._lines.known
        data = chunk.clean if self._opened is None else chunk.clean + RECORD_MARK
        if self._progress is None:
            hits = self._prefilter.hits(data, None, known)
        else:
            self._progress.take_from(self._backlog)
            hits = self._prefilter.hits(data, self._progress.newest, known)
            self._progress.newest.place(chunk.offset_of, arrived, self._backlog)
        if until is not None and until < len(raw):
            hits = [hit for hit in hits if hit[0] < until]
        if raised:
            hits = sorted(hits + [(start, self._lines.raised) for start in raised], key=_place)
        index = 0
        while index < len(hits):
            start, end, last = chunk.span(hits[index][0])
            here: list[tuple[int, Phrase]] = []
            while index < len(hits) and (not here or hits[index][0] < last):
                here.append(hits[index])
                index += 1
            if _lacks_context(chunk, here, start, end):
                continue
            try:
                unread = self._lines.take(chunk, (start, end), here, out, raised.get(start))
                if unread and len(self._partly) < MAX_FAILED:
                    self._partly.append((chunk.offset_of(start), chunk.offset_of(end)))
            except LINE_ERRORS as error:  # only this line is lost
                self._note_failed(chunk, (start, end), error)
        if self._lines.newest is not None and self._lines.newest.is_full:
            self.search_held(out)
        self._past = chunk.end_of_text()
        if until is not None:
            self._opened = self._open_at(chunk, raw, until) if until < len(raw) else None
        self._lines.forget_before(self._tail_at - MAX_LINE)

    def _note_failed(self, chunk: "Chunk", span: "tuple[int, int]", error: Exception) -> None:
        if len(self._failed) < MAX_FAILED:
            begin, end = span
            self._failed.append((chunk.offset_of(begin), chunk.offset_of(end), repr(error)))

    def _open_at(self, chunk: "Chunk", raw: bytes, until: int) -> "OpenRecord | None":
        """Return the long record that is unfinished at byte `until` of a chunk's bytes `raw`, or None."""
        in_list = self._opened is not None and self._opened.in_list
        at = until if len(chunk.clean) == len(raw) else len(scrubbed(raw[:until], in_list))
        opened = chunk.open_record(at)
        if opened is not None:
            opened.in_list = ends_in_byte_list(raw[:until], in_list)
        return opened


def _place(hit: "tuple[int, Phrase]") -> int:
    return hit[0]


def _lacks_context(chunk: "Chunk", hits: "list[tuple[int, Phrase]]", start: int, end: int) -> bool:
    """Return True if all rules that the hits of a line lead to need a line above it that is not there.

    False for records, parts of long lines, and lines that may name a rank: they may prove that the file's
    ranks are local.
    """
    if not all(phrase.may_need_above for _, phrase in hits):
        return False
    line = chunk.searched(start, end)
    if b"rank" in line or b"{" in line or end - start >= MAX_LINE or not chunk.is_whole(start, end):
        return False
    lowered = line.translate(None, SHAPELESS).lower()
    texts: list[bytes] = []
    for _, phrase in hits:
        above = phrase.texts_above(lowered)
        if not above:
            return False
        texts.extend(above)
    return not chunk.may_hold(tuple(texts), end)
