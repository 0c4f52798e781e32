"""Applies the rules to a line: specific match, exception, unknown error, recovery."""

from functools import partial

from ..lines.levels import is_fatal
from ..lines.programs import is_about
from ..lines.timestamps import time_of
from ..matching.candidate import CandidateLine
from ..matching.event_form import is_continuing, is_left_open, is_quoted
from ..matching.finding import described, whose
from ..matching.matcher import SEARCHED_CHARS
from ..matching.prefilter import form_of
from ..matching.record_rank import read_around
from ..matching.ruleset import Phrase
from .dedup import report
from .own_output import is_own_line
from .repeats import KnownLines, Repeats

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..lines.prefixes import Speaker
    from ..matching.chunk import Chunk
    from ..matching.matcher import LineMatcher
    from ..matching.ruleset import CompiledRule, RuleSet

    Phrases = dict[CompiledRule, list[Phrase]]
    """Rules of which phrases occur in a line, with these."""
    LeftOpen = tuple[CompiledRule, Chunk, CandidateLine, tuple[str, Speaker], dict[str, Any]]
    from .dedup import Gatherer
    from .newest_lines import Held, NewestLines
    from .open_blocks import OpenBlocks


class LineFindings(object):
    """Searches the lines of one file in which a rule's words occur, and collects the findings."""

    def __init__(
        self,
        ruleset: "RuleSet",
        file: str,
        search: "LineMatcher",
        speaker: "Any",
        gather: "Gatherer",
        blocks: "OpenBlocks",
    ) -> None:
        self.local_ranks = False
        """True if the file's rank numbers are local to its node."""
        self.raised = Phrase({"text": "Traceback"})
        """Leads to rules that may match the exception at the end of a traceback."""
        self.raised.rules = [rule for rule in ruleset.rules if rule.raised is not None or rule.fallback]
        self._file = file
        self._search = search
        self._speaker = speaker
        self._gather = gather
        self._blocks = blocks
        self._reported: set[tuple[int, str]] = set()
        self._left_open: LeftOpen | None = None
        """A match in the last line so far, which was taken for a part of a text."""
        self._known_lines = KnownLines()
        self._given: list[tuple[CompiledRule, dict[str, Any]]] = []
        """The findings of the current line, with their rules."""
        self.newest: NewestLines | None = None
        """The lines that are to be searched by `search_held`; None: each is searched at once."""
        self._shape_searched: int | None = None
        self._steady: dict[Phrase, bool] = {}
        self._repeats = Repeats()

    @property
    def known(self) -> "set[int]":
        """Return the shapes (numbers of `form_of`) of lines without a finding, whatever their digits."""
        return self._known_lines.plain

    def seam(self) -> None:
        """Drop all state of lines, since the file was truncated or replaced."""
        self._reported.clear()

    def forget_before(self, offset: int) -> None:
        """Drop state about lines before this offset, which do not come again."""
        self._reported = {each for each in self._reported if each[0] >= offset}

    def go_on(self) -> None:
        """Record that further text follows: the line before it was not an error that ended the log."""
        self._left_open = None

    def end(self, out: "list[dict[str, Any]]") -> None:
        """Add the finding of the log's last line, if it was taken for a part of a text that has no end."""
        if self._left_open is not None:
            self._found(*self._left_open, out)
            self._left_open = None

    def take(
        self,
        chunk: "Chunk",
        span: "tuple[int, int]",
        hits: "list[tuple[int, Phrase]]",
        out: "list[dict[str, Any]]",
        raised: "str | None" = None,
    ) -> int:
        """Search the line of a span and add its findings to `out`; `hits`: (offset, phrase) in the line.

        `raised`: the exception, if a traceback ends with the line. Return the number of its message's lines
        that have phrases and are not searched.
        """
        start, end = span
        raw = chunk.clean[start:end]
        shape = self._shape(raw, [phrase for _, phrase in hits])
        if shape is not None and self._known_lines.holds(shape, raw):
            return 0
        again = self._repeats.match(shape, raw, chunk.offset_of(start), chunk.arrived)
        if again is not None:
            self._count(again, chunk.arrived, out)
            return 0
        if is_own_line(raw, partial(chunk.above, start)):
            return 0
        if self.newest is not None and shape is not None and self.newest.hold(raw, (chunk, span, hits)):
            return 0
        self._shape_searched = shape
        line = self._searched(chunk, span, hits, out, raised)
        matched = self._search.matched
        once = any(rule.once for rule, _ in self._given) and all(rule.once for rule, _ in matched)
        if shape is not None and not line.parts and (once or not matched):
            self._known_lines.add(shape, raw, [text for _, text in matched])
        if self.newest is not None and shape is not None:
            self.newest.note(raw, line, matched, self._given)
        return line.left_out

    def search_held(self, held: "Held", out: "list[dict[str, Any]]") -> None:
        """Search a line that was held as the last one of its form, and add its findings to `out`."""
        chunk, span, hits = held
        self._shape_searched = None
        self._searched(chunk, span, hits, out)

    def _searched(
        self,
        chunk: "Chunk",
        span: "tuple[int, int]",
        hits: "list[tuple[int, Phrase]]",
        out: "list[dict[str, Any]]",
        raised: "str | None" = None,
    ) -> "CandidateLine":
        """Search a line, whatever is known of its shape; return it with its messages."""
        self._search.matched, self._given = [], []
        line = CandidateLine(chunk, span, self.local_ranks, {phrase for _, phrase in hits})
        self.local_ranks = self.local_ranks or line.proof
        self._search_line(chunk, line, hits, out, raised)
        return line

    def _count(
        self, again: "tuple[CompiledRule, dict[str, Any], str]", arrived: float, out: "list[dict[str, Any]]"
    ) -> None:
        """Count a further error line of a known shape; add findings that become due to `out`."""
        known = self._gather.add(*again)
        if known is not None:
            out.append(report(known, arrived))

    def _shape(self, line: bytes, phrases: "list[Phrase]") -> "int | None":
        """Return a key that is equal for lines that differ only in digits; None if rules depend on these."""
        for phrase in phrases:
            if phrase is self.raised:
                return None
            steady = self._steady.get(phrase)
            if steady is None:
                steady = self._steady[phrase] = phrase.steady()
            if not steady:
                return None
        return form_of(line)

    def _search_line(
        self,
        chunk: "Chunk",
        line: "CandidateLine",
        hits: "list[tuple[int, Phrase]]",
        out: "list[dict[str, Any]]",
        raised: "str | None" = None,
    ) -> None:
        """Search a line and add findings to `out`; `raised`: the exception, if a traceback ends with it."""
        if not line.stated:
            return
        rules: Phrases = {}
        for _, phrase in hits:
            for rule in phrase.rules:
                rules.setdefault(rule, []).append(phrase)
            for rule in phrase.recoveries:
                self._recovery(rule, line, chunk.arrived, out)
        named = {rule: phrases for rule, phrases in rules.items() if not rule.fallback}
        explaining = [rule for rule in named if self._explains(rule, False, chunk, line, named[rule], out)]
        explained = bool(explaining)
        if not any(rule.is_specific for rule in explaining):
            explained |= self._explains_generally(named, chunk, line, out)
        if not explained and (raised is None or not self._exception(chunk, line, raised, out)):
            fallback = [rule for rule in rules if rule.fallback]
            self._unexplained(fallback, chunk, line, raised, out)

    def _explains_generally(
        self,
        rules: "Phrases",
        chunk: "Chunk",
        line: "CandidateLine",
        out: "list[dict[str, Any]]",
    ) -> bool:
        """Add the finding of the general pattern that explains a line to `out`; return True if one does.

        Patterns of hints are tried if no others match; they explain nothing.
        """
        known = False
        for specific in (True, False):
            for rule in [] if known else rules:
                if rule.general and rule.is_specific is specific:
                    found = self._explains(rule, True, chunk, line, rules[rule], out)
                    known = known or (found and specific)
        return known

    def _explains(
        self,
        rule: "CompiledRule",
        general: bool,
        chunk: "Chunk",
        line: "CandidateLine",
        phrases: "list[Phrase]",
        out: "list[dict[str, Any]]",
    ) -> bool:
        """Add a rule's finding to `out` and return True if the rule explains a line.

        A quoted line is explained, but gives no finding. `general`: search the rule's general patterns, else
        its specific ones.
        """
        for index, (text, by) in enumerate(line.stated):
            fields = self._search.fields(rule, text, phrases, general)
            if fields is None or not is_about(rule.programs, by.program):
                continue
            if self._search.after(rule, chunk, line.start, fields, line.stated[:index]):
                if not is_quoted(chunk, line.start, text, line.text, advice=rule.exact):
                    self._found(rule, chunk, line, (text, by), fields, out)
                elif is_left_open(chunk, line.start, line.end, text if rule.raised is None else None):
                    self._left_open = (rule, chunk, line, (text, by), fields)
                return True
        return False

    def _exception(
        self, chunk: "Chunk", line: "CandidateLine", raised: str, out: "list[dict[str, Any]]"
    ) -> bool:
        """Add the finding of a rule that matches the exception of a traceback; return True if one does.

        A quoted traceback is explained so, but gives no finding.
        """
        by = line.stated[-1][1]
        for rule in self.raised.rules:
            fields = self._search.raised(rule, raised) if is_about(rule.programs, by.program) else None
            if fields is not None:
                if not is_quoted(chunk, line.start, raised, line.text):
                    self._found(rule, chunk, line, (raised, by), fields, out)
                elif is_left_open(chunk, line.start, line.end, None):
                    self._left_open = (rule, chunk, line, (raised, by), fields)
                return True
        return False

    def _unexplained(
        self,
        rules: "list[CompiledRule]",
        chunk: "Chunk",
        line: "CandidateLine",
        raised: "str | None",
        out: "list[dict[str, Any]]",
    ) -> None:
        """Add a finding for the line's first message that is logged as an error, which no rule explains."""
        for rule in rules:
            for text, by in line.stated if raised is None else [(raised, line.stated[-1][1])]:
                about = is_about(rule.programs, by.program)
                if about and self._search.is_error(rule, (text, by), chunk, line, raised is not None):
                    fields = {"goes_on": "yes"} if is_continuing(text) else {}
                    if not fields and is_fatal(text[:SEARCHED_CHARS], line.text[:SEARCHED_CHARS], by.level):
                        fields = {"level": "critical"}
                    finding = self._found(rule, chunk, line, (text, by), fields, out)
                    if finding is not None:
                        raw = chunk.clean[line.start : line.end]
                        self._repeats.add(self._shape_searched, raw, rule, finding, text)
                    return

    def _recovery(
        self, rule: "CompiledRule", line: "CandidateLine", arrived: float, out: "list[dict[str, Any]]"
    ) -> None:
        for text, _ in line.stated:
            fields = self._search.recovery(rule, text)
            if fields is not None:
                at = time_of(text, arrived)
                out.extend(self._gather.close(rule, fields, arrived if at is None else at))

    def _found(
        self,
        rule: "CompiledRule",
        chunk: "Chunk",
        line: "CandidateLine",
        stated: "tuple[str, Speaker]",
        fields: "dict[str, Any]",
        out: "list[dict[str, Any]]",
    ) -> "Any":
        """Add a match to the file's findings; return it as a finding, also if it is only counted.

        None: this line was reported before.
        """
        text, by = stated
        offset = chunk.offset_of(line.start)
        again = any((chunk.offset_of(each), rule.id) in self._reported for each in [line.start] + line.parts)
        self._reported.add((offset, rule.id))
        if again:  # an unterminated line that was searched before, or another part of a wrapped record
            return None
        finding = described(rule, chunk, line, stated, fields)
        self._given.append((rule, finding))
        finding["file"] = self._file
        known = self._speaker() if self._speaker is not None else {}
        reading = read_around(chunk, line, text, by)
        if reading.empty and all(text != said for said, _ in line.stated):  # what was raised, without its tag
            reading = read_around(chunk, line, line.stated[-1][0], by)
        finding.update(whose(by, finding["fields"], known, reading))
        opened = self._gather.add(rule, finding, text)
        if opened is None:
            return finding
        if rule.block or rule.until is not None:
            self._blocks.open(opened, rule, by, chunk, line.end, out)
        else:
            out.append(report(opened, chunk.arrived))
        return finding
