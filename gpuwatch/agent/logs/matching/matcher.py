"""Searches one line for one rule, with limits on length and CPU time."""

import re
import time

from ..lines.levels import GRAVE, has_stamp, own_level
from ..lines.normalise import known_messages
from ..lines.splitter import is_bare_bar
from .event_form import has_given_up, is_absent, is_event, is_quoted
from .phrase_places import places_in
from .ruleset import typed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Iterator

    from ..lines.prefixes import Speaker
    from ..progress.dialect import CompiledDialect, ProgressReading
    from .candidate import CandidateLine
    from .chunk import Chunk
    from .ruleset import CompiledRule, LazyPattern, Phrase, RuleSet

SEARCHED_CHARS = 4096
"""Characters of a line that are searched, around a phrase."""
MAX_SLOW = 3
"""Slow searches after which a rule is suspended in a file; one that took ten times as long suffices."""


class LineMatcher(object):
    """Searches the lines of one file for rules, with limits on length and CPU time."""

    def __init__(self, ruleset: "RuleSet", file: str) -> None:
        self._ruleset = ruleset
        self._file = file
        self._off = ruleset.off_in(file)
        self._slow: dict[str, int] = {}
        """Rule -> number of lines of this file on which it was slow."""
        self.matched: list[tuple[CompiledRule, str]] = []
        """Rules with a matching pattern (accepted or not), with the matched text."""

    def fields(
        self, rule: "CompiledRule", text: str, phrases: "list[Phrase]", general: bool = False
    ) -> "dict[str, Any] | None":
        """Return the fields of a rule's match in a text; None: no match, or one that is no event.

        `phrases`: what a long text is searched around. `general`: use the rule's general patterns.
        """
        if self._is_off(rule):
            return None
        for window in _windows(text, phrases):
            found = self._fields(rule, window, general)
            if found is not None:
                return found
        return None

    def _fields(self, rule: "CompiledRule", text: str, general: bool) -> "dict[str, Any] | None":
        found = self._first(rule, rule.general if general else rule.match, text)
        if found is None:
            return None
        self.matched.append((rule, found.group()))
        unless = rule.unless + rule.general_unless if general else rule.unless
        if not is_event(text, found.start(), advice=rule.exact and not general) or self._first(
            rule, unless, text
        ):
            return None
        return None if is_absent(text, found.end()) else fields_of(found.groupdict())

    def raised(self, rule: "CompiledRule", text: str) -> "dict[str, Any] | None":
        """Return the fields of an exception that ends a traceback; None: the rule does not match it."""
        if rule.raised is None or self._is_off(rule):
            return None
        text = text[:SEARCHED_CHARS]
        found = self._first(rule, [rule.raised], text)
        if found is None or self._first(rule, rule.unless, text) or not is_event(text, 0):
            return None
        return fields_of(found.groupdict())

    def is_error(
        self,
        rule: "CompiledRule",
        stated: "tuple[str, Speaker]",
        chunk: "Chunk",
        line: "CandidateLine",
        raised: bool = False,
    ) -> bool:
        """Return True if a message is logged as an error, and is not advice, data or test output.

        A logged sentence without a level counts if it states that a process gave up or died.

        `raised`: it ends a traceback, and is an error at any level.
        """
        raw, (text, by) = line.text, stated
        if self._is_off(rule):
            return False
        level = None if raised else own_level(text[:SEARCHED_CHARS], raw[:SEARCHED_CHARS]) or by.level
        ended = level is None and has_stamp(raw) and has_given_up(text[:SEARCHED_CHARS])
        if not raised and ((level not in GRAVE and not ended) or is_bare_bar(text[:SEARCHED_CHARS])):
            return False
        self.matched.append((rule, ""))
        return (
            is_event(text, 0)
            and not self._first(rule, rule.unless, text[:SEARCHED_CHARS])
            and not is_quoted(chunk, line.start, text, raw)
        )

    def after(
        self, rule: "CompiledRule", chunk: "Chunk", start: int, fields: "dict[str, Any]", record: "Any" = ()
    ) -> bool:
        """Return True if the lines above `start` fulfil the rule's condition `after`, if it has one.

        The groups of `after` and `above` that match are added to the fields. `record`: earlier messages on
        the same physical line.
        """
        if rule.above is not None:
            self._above(rule, rule.above, chunk.above(start, rule.above_lines), fields, record)
        return rule.after is None or self._above(
            rule, rule.after, chunk.above(start, rule.after_lines), fields, record
        )

    def _above(
        self,
        rule: "CompiledRule",
        pattern: "LazyPattern",
        lines: "list[bytes]",
        fields: "dict[str, Any]",
        record: "Any",
    ) -> bool:
        for line in [None] + lines[::-1]:
            for text, _ in known_messages(line)[0] if line is not None else record[::-1]:
                found = self._first(rule, [pattern], text[:SEARCHED_CHARS])
                if found is not None:
                    for name, value in fields_of(found.groupdict()).items():
                        fields.setdefault(name, value)
                    return True
        return False

    def recovery(self, rule: "CompiledRule", text: str) -> "dict[str, Any] | None":
        """Return the fields of a line that ends what a rule found (recovery); None: it does not."""
        if rule.recovery is None or self._is_off(rule):
            return None
        found = self._first(rule, [rule.recovery], text[:SEARCHED_CHARS])
        return None if found is None else fields_of(found.groupdict())

    def ends_block(self, rule: "CompiledRule", text: str) -> bool:
        """Return True if a line is the last one of the rule's block."""
        return rule.until is not None and self._first(rule, [rule.until], text[:SEARCHED_CHARS]) is not None

    def reading(self, dialects: "list[CompiledDialect]", text: str) -> "ProgressReading | None":
        """Return the values of a line in the first dialect that matches, or None."""
        for dialect in dialects:
            if self._is_off(dialect):
                continue
            began = self._enter(dialect)
            try:
                found = dialect.read(text)
            except (re.error, RecursionError, OverflowError) as error:
                self._ruleset.suspend(dialect.id, "the Python of this node cannot use it ({})".format(error))
                found = None
            self._leave(dialect, began)
            if found is not None:
                return found
        return None

    def _is_off(self, rule: "CompiledRule | CompiledDialect") -> bool:
        return rule.id in self._off or rule.id in self._ruleset.off_everywhere

    def _first(
        self, rule: "CompiledRule", patterns: "list[LazyPattern]", text: str
    ) -> "re.Match[str] | None":
        """Return the first match of a rule's patterns, or None.

        The activity marker names the rule meanwhile.
        """
        if not patterns or rule.id in self._off:
            return None
        began = self._enter(rule)
        try:
            for pattern in patterns:
                found = pattern.search(text)
                if found is not None:
                    return found
        finally:
            self._leave(rule, began)
        return None

    def _enter(self, rule: "CompiledRule | CompiledDialect") -> float:
        if self._ruleset.entered is not None:
            self._ruleset.entered(rule.id)
        return time.process_time()  # CPU time, not wall time: the rule does not cause the load of a busy node

    def _leave(self, rule: "CompiledRule | CompiledDialect", began: float) -> None:
        took = time.process_time() - began
        if self._ruleset.left is not None:
            self._ruleset.left()
        if took > self._ruleset.slow_s:
            count = self._slow[rule.id] = self._slow.get(rule.id, 0) + 1
            if count >= MAX_SLOW or took > 10 * self._ruleset.slow_s:
                why = "took {:.0f} ms of CPU for one line of {}".format(took * 1e3, self._file)
                self._ruleset.suspend(rule.id, why, self._file)


def fields_of(groups: "dict[str, str | None]") -> "dict[str, Any]":
    """Return the matched named groups of a pattern as data; texts that are numbers are converted."""
    return {name: typed(value.strip()) for name, value in groups.items() if value is not None}


def _windows(text: str, phrases: "list[Phrase]") -> "Iterator[str]":
    """Yield the parts of a text that are searched: all of it if short, else what is around each phrase."""
    if len(text) <= SEARCHED_CHARS:
        yield text
        return
    before = None
    for place in _places(text, phrases):
        if before is None or place - before > SEARCHED_CHARS // 2:
            begin = max(0, min(place - SEARCHED_CHARS // 4, len(text) - SEARCHED_CHARS))
            yield text[begin : begin + SEARCHED_CHARS]
            before = place


def _places(text: str, phrases: "list[Phrase]") -> "list[int]":
    """Return the offsets of phrases in a text, and 0 for its beginning, in ascending order."""
    data = text.encode("utf-8", "replace")
    found = sorted({0}.union(places_in(data, phrases, SEARCHED_CHARS // 4)))
    if len(data) == len(text):
        return found
    return [len(data[:at].decode("utf-8", "replace")) for at in found]
