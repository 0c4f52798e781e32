"""One log file on its way through the rules: bytes in, findings out."""

from ...base.secret_phrases import masked_lines
from ..lines.levels import is_fatal
from ..lines.normalise import broken_end
from ..lines.programs import is_about
from ..lines.splitter import MAX_LINE
from ..lines.timestamps import time_of
from ..matching.candidate import CandidateLine
from ..matching.chunk import Chunk
from ..matching.event_form import is_continuing, is_quoted_above
from ..matching.finding import described, whose
from ..matching.matcher import SEARCHED_CHARS, LineMatcher
from ..matching.prefilter import Sieve
from ..matching.record_rank import read_around
from ..matching.ruleset import Phrase
from ..matching.traceback_ends import TracebackEnds
from .dedup import MAX_OPEN, Gatherer, report
from .progress_reader import ProgressReader
from .repeats import Repeats

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any  # noqa: F401 - used in type comments

    from ..lines.prefixes import Speaker  # noqa: F401 - used in type comments
    from ..matching.ruleset import CompiledRule, RuleSet  # noqa: F401 - used in type comments
    from .dedup import Open  # noqa: F401 - used in type comments
    from .table_sieve import TableSieve  # noqa: F401 - used in type comments

MAX_BLOCK = 60
MAX_TAIL = 64 * 1024
OVERLAP_BYTES = 1024
"""Bytes at the end of an unfinished part of a longer line that are searched with the next part."""
MAX_PLAIN_SHAPES = 4000
"""Shapes of lines without a match that are remembered: a training log states the same with other numbers."""
_ONE_DIGIT = bytes(48 if 48 <= c <= 57 else c for c in range(256))
QUIET_S = 0.5
"""An unterminated line, or a block that is not full, is looked at after so much silence."""


class Scanner(object):
    """Scans one file: feed it all bytes in order, call `quiet` each tick and `end` at the end."""

    def __init__(self, ruleset, file, ids, speaker=None, sieve=None, gather=None, progress=None, steps=True):
        # type: (RuleSet, str, Any, Any, Sieve | TableSieve | None, Any, Any, bool) -> None
        self._search = LineMatcher(ruleset, file)
        self._file = file
        self._speaker = speaker
        self._sieve = Sieve(ruleset) if sieve is None else sieve  # type: Any
        self.gather = Gatherer(ids) if gather is None else gather  # type: Gatherer
        self._tail = b""
        self._past = b""
        self._tail_at = 0
        self._fed = float("-inf")
        self._looked = 0
        self._fed_to = 0
        self._unread_steps = None  # type: int | None
        """Where the first line stands that `progress` has not looked at."""
        self._reported = set()  # type: set[tuple[int, str]]
        self._local_ranks = False
        self._waiting = []  # type: list[tuple[Open, CompiledRule]]
        self._backlog = False
        self._plain_shapes = set()  # type: set[int]
        self._repeats = Repeats()
        self._tracebacks = TracebackEnds()
        self._raised = Phrase({"text": "Traceback"})
        """Leads to the rules that may know the exception at the end of a traceback."""
        self._raised.rules = [rule for rule in ruleset.rules if rule.raised is not None or rule.fallback]
        self._shape_searched = None  # type: int | None
        self._steady = {}  # type: dict[Phrase, bool]
        self._progress = progress  # type: ProgressReader | None
        if progress is None and steps and ruleset.dialects:
            self._progress = ProgressReader(file, self._search, self._sieve, speaker)

    def feed(self, data, offset, arrived, backlog=False):
        # type: (bytes, int, float, bool) -> list[dict[str, Any]]
        """The findings that are complete with `data`, whose first byte is at `offset` of the file.

        They are dicts with the keys of `wire.Finding` that state something, without v, t, seq and kind.
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
        out = []  # type: list[dict[str, Any]]
        if cut:
            self._scan(whole[:cut], base, arrived, out, cut - again)
            self._looked = 0
        return out

    def quiet(self, now):
        # type: (float) -> list[dict[str, Any]]
        """What waited for more that did not come; call it each tick."""
        out = []  # type: list[dict[str, Any]]
        self._fed = min(self._fed, now)  # the clock may have been set back
        if now - self._fed >= QUIET_S:
            self._look_at_tail(self._fed, out)
            self._report_waiting(now, out)
        out.extend(self.gather.grown(now))
        return out

    def seam(self):
        # type: () -> None
        """The file was truncated or replaced: what was half read is gone."""
        self._tail, self._past, self._looked = b"", b"", 0
        self._tracebacks = TracebackEnds()
        self._reported.clear()

    def end(self):
        # type: () -> list[dict[str, Any]]
        """Nothing more will come: report everything."""
        out = []  # type: list[dict[str, Any]]
        self._look_at_tail(self._fed, out)
        self._report_waiting(self._fed, out)
        out.extend(self.gather.grown(float("inf"), MAX_OPEN))
        return out

    def progress(self):
        # type: () -> list[dict[str, Any]]
        """What the lines since the last call report about the training: keys of `wire.Progress`."""
        frames = [] if self._progress is None else self._progress.frames(self._local_ranks)
        self._unread_steps = None
        return frames

    def past(self, now):
        # type: (float) -> list[dict[str, Any]]
        """The steps that stood in the backlog, once that has been read: keys of `wire.Progress`."""
        return [] if self._progress is None else self._progress.past(self._local_ranks, now)

    @property
    def left_out(self):
        # type: () -> int
        """Matches for which there was no room among the findings that are kept apart."""
        return self.gather.left_out

    @property
    def unfinished(self):
        # type: () -> bytes
        """What is fed and waits for the end of its line."""
        return self._tail

    @property
    def fed_to(self):
        # type: () -> int
        """The offset behind the last byte that was fed."""
        return self._fed_to

    def rewind(self):
        # type: () -> None
        """A scan was broken off: what is fed next may be the same once more."""
        self._tail, self._looked = b"", 0
        self._tracebacks = TracebackEnds()

    def unread_from(self, offset):
        # type: (int) -> int
        """The first byte that is not searched, where the next one to be fed is at `offset`."""
        return self._tail_at if len(self._tail) > self._looked else offset

    def searched_to(self, offset):
        # type: (int) -> int
        """All before this byte is searched and reported, where the next one to be fed is at `offset`."""
        begin = self.unread_from(offset)
        for known, _ in self._waiting:
            begin = min(begin, known.finding["offset"])
        return begin

    @property
    def pending(self):
        # type: () -> tuple[int, int] | None
        """From where to where bytes were fed that `quiet` or `progress` may still look at; None: nowhere."""
        begin = self.searched_to(self._fed_to)
        if self._unread_steps is not None:
            begin = min(begin, self._unread_steps)
        return (begin, self._fed_to) if begin < self._fed_to else None

    def _look_at_tail(self, arrived, out):
        # type: (float, list[dict[str, Any]]) -> None
        if len(self._tail) > self._looked:
            self._looked = len(self._tail)
            past, tracebacks = self._past, self._tracebacks
            self._tracebacks = tracebacks.copy()
            self._scan(self._tail, self._tail_at, arrived, out)
            self._past, self._tracebacks = past, tracebacks

    def _report_waiting(self, now, out):
        # type: (float, list[dict[str, Any]]) -> None
        for known, _ in self._waiting:
            out.append(report(known, now))
        self._waiting = []

    def _scan(self, raw, base, arrived, out, until=None):
        # type: (bytes, int, float, list[dict[str, Any]], int | None) -> None
        """Search lines. What stands from the byte `until` on comes once more, and waits for that."""
        chunk = Chunk(raw, base, self._past)
        if self._waiting:
            self._waiting = self._filled(self._waiting, chunk, 0, arrived, out)
        if self._progress is None:
            hits = self._sieve.hits(chunk.clean)
        else:
            self._progress.take_from(self._backlog)
            hits = self._sieve.hits(chunk.clean, self._progress.newest)
            self._progress.newest.place(chunk.offset_of, arrived, self._backlog)
        if until is not None and until < len(raw):
            hits = [hit for hit in hits if hit[0] < until]
        raised = self._tracebacks.find(chunk)
        hits = sorted(hits + [(start, self._raised) for start in raised], key=_place) if raised else hits
        index = 0
        while index < len(hits):
            first = hits[index][0]
            start, end = chunk.line_around(first)
            phrases = []  # type: list[Phrase]
            while index < len(hits) and hits[index][0] < max(end, start + 1):
                phrases.append(hits[index][1])
                index += 1
            shape = self._shape(chunk.clean[start:end], phrases)
            if shape is not None and shape in self._plain_shapes:
                continue
            again = self._repeats.match(shape, chunk.clean[start:end], chunk.offset_of(start), arrived)
            if again is not None:
                self._count(again, arrived, out)
                continue
            self._search.matched = False
            self._shape_searched = shape
            line = CandidateLine(chunk, start, end, self._local_ranks)
            self._line(chunk, line, first, phrases, arrived, out, raised.get(start))
            if shape is not None and not self._search.matched and not line.parts:
                if len(self._plain_shapes) >= MAX_PLAIN_SHAPES:
                    self._plain_shapes.clear()
                self._plain_shapes.add(shape)
        self._past = chunk.end_of_text()
        self._reported = {each for each in self._reported if each[0] >= self._tail_at - MAX_LINE}

    def _count(self, again, arrived, out):
        # type: (tuple[CompiledRule, dict[str, Any], str], float, list[dict[str, Any]]) -> None
        """One more error line of a shape that is known."""
        known = self.gather.add(*again)
        if known is not None:
            out.append(report(known, arrived))

    def _shape(self, line, phrases):
        # type: (bytes, list[Phrase]) -> int | None
        """Equal for lines that differ in their digits only, where that makes no difference to the rules."""
        for phrase in phrases:
            if phrase is self._raised:
                return None
            steady = self._steady.get(phrase)
            if steady is None:
                steady = self._steady[phrase] = phrase.steady()
            if not steady:
                return None
        return hash(line.translate(_ONE_DIGIT))

    def _line(self, chunk, line, hit, phrases, arrived, out, raised=None):
        # type: (Chunk, CandidateLine, int, list[Phrase], float, list[dict[str, Any]], str | None) -> None
        """Search a line; `raised` is the exception where a traceback ends with it."""
        self._local_ranks = self._local_ranks or line.proof
        if not line.stated:
            return
        rules = []  # type: list[CompiledRule]
        for phrase in phrases:
            rules.extend(rule for rule in phrase.rules if rule not in rules)
            for rule in phrase.recoveries:
                self._recovery(rule, line, arrived, out)
        named = [rule for rule in rules if not rule.fallback]
        explaining = [rule for rule in named if self._explains(rule, False, chunk, line, hit, arrived, out)]
        explained = bool(explaining)
        if not any(rule.is_specific for rule in explaining):
            for rule in named:
                explained |= bool(rule.general) and self._explains(rule, True, chunk, line, hit, arrived, out)
        if not explained and (raised is None or not self._exception(chunk, line, raised, arrived, out)):
            fallback = [rule for rule in rules if rule.fallback]
            self._unexplained(fallback, chunk, line, raised, arrived, out)

    def _explains(self, rule, general, chunk, line, hit, arrived, out):
        # type: (CompiledRule, bool, Chunk, CandidateLine, int, float, list[dict[str, Any]]) -> bool
        """Whether a rule explains the line, by its patterns in general words or by the others.

        Reported if so.
        """
        for index, (text, by) in enumerate(line.stated):
            fields = self._search.fields(rule, text, hit - line.start, general)
            if fields is None or not is_about(rule.programs, by.program):
                continue
            if self._search.after(rule, chunk, line.start, fields, line.stated[:index]):
                if rule.exact or not is_quoted_above(chunk, line.start, text, line.raw(chunk)):
                    self._found(rule, chunk, line, (text, by), fields, arrived, out)
                return True
        return False

    def _exception(self, chunk, line, raised, arrived, out):
        # type: (Chunk, CandidateLine, str, float, list[dict[str, Any]]) -> bool
        """Whether a rule knows the exception that ends a traceback, whatever its name."""
        by = line.stated[-1][1]
        for rule in self._raised.rules:
            fields = self._search.raised(rule, raised) if is_about(rule.programs, by.program) else None
            if fields is not None:
                if not is_quoted_above(chunk, line.start, raised, line.raw(chunk)):
                    self._found(rule, chunk, line, (raised, by), fields, arrived, out)
                return True
        return False

    def _unexplained(self, rules, chunk, line, raised, arrived, out):
        # type: (list[CompiledRule], Chunk, CandidateLine, str | None, float, list[dict[str, Any]]) -> None
        """The first message that calls itself an error, where no other rule knows the line."""
        for rule in rules:
            for text, by in line.stated if raised is None else [(raised, line.stated[-1][1])]:
                about = is_about(rule.programs, by.program)
                if about and self._search.is_error(rule, text, chunk, line, raised is not None):
                    fields = {"goes_on": "yes"} if is_continuing(text) else {}
                    if not fields and is_fatal(text[:SEARCHED_CHARS], line.raw(chunk)[:SEARCHED_CHARS]):
                        fields = {"level": "critical"}
                    finding = self._found(rule, chunk, line, (text, by), fields, arrived, out)
                    if finding is not None:
                        raw = chunk.clean[line.start : line.end]
                        self._repeats.add(self._shape_searched, raw, rule, finding, text)
                    return

    def _recovery(self, rule, line, arrived, out):
        # type: (CompiledRule, CandidateLine, float, list[dict[str, Any]]) -> None
        for text, _ in line.stated:
            fields = self._search.recovery(rule, text)
            if fields is not None:
                at = time_of(text, arrived)
                out.extend(self.gather.close(rule, fields, arrived if at is None else at))

    def _found(self, rule, chunk, line, stated, fields, arrived, out):
        # type: (CompiledRule, Chunk, CandidateLine, tuple[str, Speaker], dict[str, Any], float, list[dict[str, Any]]) -> Any
        """Take a match in: its finding; None where it was taken before."""
        text, by = stated
        offset = chunk.offset_of(line.start)
        again = any((chunk.offset_of(each), rule.id) in self._reported for each in [line.start] + line.parts)
        self._reported.add((offset, rule.id))
        if again:  # an unterminated line that was looked at before, or another part of a broken record
            return None
        finding = described(rule, chunk, line, text, by, fields, arrived, self._backlog)
        finding["file"] = self._file
        known = self._speaker() if self._speaker is not None else {}
        finding.update(whose(by, finding["fields"], known, read_around(chunk, line, text, by)))
        opened = self.gather.add(rule, finding, text)
        if opened is None:
            return finding
        if rule.block or rule.until is not None:
            opened.waiting = [min(rule.block or MAX_BLOCK, MAX_BLOCK), by]
            self._waiting += self._filled([(opened, rule)], chunk, line.end, arrived, out)
        else:
            out.append(report(opened, arrived))
        return finding

    def _filled(self, waiting, chunk, end, arrived, out):
        # type: (list[tuple[Open, CompiledRule]], Chunk, int, float, list[dict[str, Any]]) -> list[tuple[Open, CompiledRule]]
        """Blocks with the lines below `end` added; the ones that still wait for more."""
        still = []  # type: list[tuple[Open, CompiledRule]]
        for known, rule in waiting:
            left, by = known.waiting
            done = False
            for text in chunk.texts_below(end, left, by):
                known.finding["lines"].append(masked_lines([known.finding["lines"][-1], text])[-1])
                left -= 1
                if self._search.ends_block(rule, text):
                    done = True
                    break
            if done or not left:
                out.append(report(known, arrived))
            else:
                known.waiting = [left, by]
                still.append((known, rule))
        return still


def _place(hit):
    # type: (tuple[int, Phrase]) -> int
    return hit[0]
