"""The rules as they travel to a node: plain dicts of `gpuwatch.rules.compiling.compile`, ready for a search.

A literal is a dict. Its `text` stands in every line that its pattern matches (`fold`: in any case). `lead`
is the most distinctive word in it once its digits are gone; with `whole` no letter can stand before or behind
that word, without it may be a part of a longer one. `needs` are groups of words in small letters: of each
group one stands in the line, too.
"""

import re
from functools import lru_cache

from ..lines.json_lines import escaped
from ..lines.programs import DEFAULT
from ..progress.dialect import CompiledDialect

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Iterator  # noqa: F401, UP035 - used in type comments

PROGRESS = "progress"
"""The `kind` of a dialect among the compiled rules."""

MAX_FILES = 3
"""A rule that was suspended in so many files is tried in no further one."""
MAX_LIKE = 4
"""Dialects that are like each other in turn."""

_DIGIT = re.compile(rb"\d")
_ESCAPED = re.compile(rb"[^ -~]|[\"\\<>&]")
"""Characters that JSON writes in another way."""
NUMBER = re.compile(r"[+-]?\d{1,18}$")
FRACTION = re.compile(r"[+-]?\d{1,18}\.\d{1,18}$")


class CompiledFlood(object):
    """Nothing is reported before `count` matches came within `seconds`."""

    __slots__ = ("count", "seconds")

    def __init__(self, count, seconds):
        # type: (int, float) -> None
        self.count = count
        self.seconds = seconds


class LazyPattern(object):
    """A regular expression that is compiled at its first search: few rules meet a line that may match."""

    __slots__ = ("search", "text")

    def __init__(self, text):
        # type: (str) -> None
        self.text = text
        self.search = self._first_search  # type: Callable[[str], re.Match[str] | None]

    def compile(self):
        # type: () -> None
        """Make it ready.

        Raises:
            re.error: this Python cannot compile it; so do RecursionError and OverflowError.
        """
        self.search = re.compile(self.text).search

    def _first_search(self, text):
        # type: (str) -> re.Match[str] | None
        self.compile()
        return self.search(text)


class CompiledRule(object):
    """One rule."""

    __slots__ = (
        "above", "above_lines", "after", "after_lines", "block", "exact", "fallback", "flood", "general",
        "general_unless", "id", "match",
        "newest", "once", "programs", "raised", "recovery", "role", "same", "severity", "severity_by",
        "steady", "unless", "until",
    )  # fmt: skip

    def __init__(self, plain):
        # type: (dict[str, Any]) -> None
        self.id = str(plain["id"])
        self.severity = str(plain["severity"])
        self.role = plain["role"]
        self.match = [LazyPattern(each) for each in plain["match"]]
        self.unless = [LazyPattern(each) for each in plain.get("unless", ())]
        general = plain.get("general")  # type: Any
        self.general = [LazyPattern(each) for each in general["match"]] if general else []
        """In general words: searched only in lines that no rule in words of its own explains."""
        self.general_unless = [LazyPattern(each) for each in general["unless"]] if general else []
        self.exact = bool(plain.get("exact"))
        """Counts at any level of the line, and inside advice."""
        self.fallback = bool(plain.get("fallback"))
        """Asked only of error lines that no other rule explains."""
        after = plain.get("after")
        self.after = LazyPattern(after["match"]) if after else None
        self.after_lines = int(after["lines"]) if after else 0
        above = plain.get("above")
        self.above = LazyPattern(above["match"]) if above else None
        self.above_lines = int(above["lines"]) if above else 0
        self.block = plain.get("block", 0)
        until = plain.get("until")
        self.until = LazyPattern(until) if until else None
        raised = plain.get("raised")
        self.raised = LazyPattern(raised) if raised else None
        """Searched in the line that ends a Python traceback, where no other rule explains it."""
        self.newest = bool(plain.get("newest"))
        """One finding of each speaker, which is always the newest match."""
        self.once = bool(plain.get("once"))
        """Two matches of one text, in lines that differ in digits only, state the same."""
        flood = plain.get("flood")  # type: Any
        self.flood = CompiledFlood(flood["count"], flood["seconds"]) if flood else None
        recovery = plain.get("recovery")  # type: Any
        self.recovery = LazyPattern(recovery["match"]) if recovery else None
        self.same = list(recovery["same"]) if recovery else []
        self.steady = bool(plain.get("steady"))
        """Whether its patterns treat all digits alike."""
        self.programs = tuple(plain.get("programs") or DEFAULT)
        """Whose lines it is about, where a line names its program."""
        self.severity_by = plain.get("severity_by") or {}  # type: dict[str, dict[str, str]]

    @property
    def is_specific(self):
        # type: () -> bool
        """Whether `match` shows what a line is about, and not only that something failed."""
        return self.role != "hint" and self.raised is None

    def patterns(self):
        # type: () -> Iterator[LazyPattern]
        """All that it may search for."""
        for each in self.match + self.unless + self.general + self.general_unless:
            yield each
        for one in (self.after, self.above, self.until, self.raised, self.recovery):
            if one is not None:
                yield one

    def severity_of(self, fields):
        # type: (dict[str, Any]) -> str
        """The severity, or what a field makes of it."""
        for name, table in self.severity_by.items():
            if name in fields and str(fields[name]) in table:
                return table[str(fields[name])]
        return self.severity


class Phrase(object):
    """A literal, and the rules that it may lead to; or the dialects of progress lines."""

    __slots__ = ("dialects", "fold", "lead", "needs", "recoveries", "rules", "text", "whole")

    def __init__(self, literal):
        # type: (dict[str, Any]) -> None
        self.fold = bool(literal.get("fold"))
        text = literal["text"].encode("utf-8")  # type: bytes
        self.text = text.lower() if self.fold else text
        self.lead = literal.get("lead", "").encode("utf-8")  # type: bytes
        self.whole = bool(literal.get("whole"))
        self.rules = []  # type: list[CompiledRule]
        self.recoveries = []  # type: list[CompiledRule]
        self.dialects = []  # type: list[CompiledDialect]
        self.needs = None  # type: list[list[list[bytes]]] | None
        """For each of its patterns the groups of words beside it; None: nothing need stand there."""

    def takes(self, needs):
        # type: (Any) -> None
        """One more pattern has this literal, with groups of words beside it, or with none."""
        if self.needs is None and (self.rules or self.recoveries or self.dialects):
            return
        groups = [_forms(tuple(group)) for group in needs or ()]
        if not groups:
            self.needs = None
        elif groups not in (self.needs or ()):
            self.needs = (self.needs or []) + [groups]

    def may_match(self, lowered):
        # type: (bytes) -> bool
        """Whether the words that one of its patterns needs stand in a line of small letters."""
        if self.needs is None:
            return True
        for groups in self.needs:
            for group in groups:
                for word in group:
                    if word in lowered:
                        break
                else:
                    break
            else:
                return True
        return False

    @property
    def leads_to_findings(self):
        # type: () -> bool
        """Whether a line with it may be a finding, or end one."""
        return bool(self.rules or self.recoveries)

    def steady(self):
        # type: () -> bool
        """Whether lines that differ in their digits only are all the same to it and its rules."""
        return (
            not self.recoveries and not _DIGIT.search(self.text) and all(rule.steady for rule in self.rules)
        )


class RuleSet(object):
    """All rules of a node. A rule that takes too long in a file is suspended there, with the reason."""

    def __init__(self, compiled):
        # type: (list[dict[str, Any]]) -> None
        rules = [each for each in compiled if each.get("kind") != PROGRESS]
        dialects = [each for each in compiled if each.get("kind") == PROGRESS]
        self.rules = [CompiledRule(each) for each in rules]
        self.dialects = [CompiledDialect(each) for each in dialects]
        """In the order in which a line is tried."""
        self.suspended = {}  # type: dict[str, str]
        """Rule -> why it was suspended last, with the file."""
        self.off_everywhere = set()  # type: set[str]
        """Rules that are searched for in no file any more."""
        self._off = {}  # type: dict[str, set[str]]
        self.entered = None  # type: Any
        """Called with a rule's id before each of its searches, where set."""
        self.left = None  # type: Any
        """Called behind each search, where set."""
        found = {}  # type: dict[tuple[str, bool, str], Phrase]
        paced = {}  # type: dict[tuple[str, bool, str], Phrase]
        for rule, plain in zip(self.rules, rules):  # noqa: B905 - strict needs Python 3.10
            for literal in plain["literals"]:
                for phrase in self._phrases(found, literal):
                    phrase.takes(literal.get("needs"))
                    if rule not in phrase.rules:
                        phrase.rules.append(rule)
            recovery = plain.get("recovery") or {}  # type: Any
            for literal in recovery.get("literals", ()):
                for phrase in self._phrases(found, literal):
                    phrase.takes(None)
                    phrase.recoveries.append(rule)
        for dialect, plain in zip(self.dialects, dialects):  # noqa: B905 - strict needs Python 3.10
            for literal in plain["literals"]:
                phrase = self._phrase(paced, literal)
                phrase.takes(literal.get("needs"))
                phrase.dialects.append(dialect)
        by_id = {dialect.id: dialect for dialect in self.dialects}
        for dialect in self.dialects:
            dialect.shared = _words(by_id, dialect.like, 0)
        self.dialects.sort(key=_comes_last)
        self.phrases = list(found.values()) + list(paced.values())

    def compile(self):
        # type: () -> None
        """Make the patterns of all rules ready.

        Raises:
            re.error: this Python cannot compile one; so do RecursionError and OverflowError.
        """
        for rule in self.rules:
            for pattern in rule.patterns():
                pattern.compile()

    def off_in(self, file):
        # type: (str) -> set[str]
        """The rules that are suspended in a file; the set changes when one more is."""
        return self._off.setdefault(file, set())

    def suspend(self, rule, why, file=None):
        # type: (str, str, str | None) -> None
        """Search for this rule no more in this file; in none where none is named, or after `MAX_FILES`."""
        self.suspended[rule] = why
        if file is not None:
            self.off_in(file).add(rule)
        if file is None or sum(rule in off for off in self._off.values()) >= MAX_FILES:
            self.off_everywhere.add(rule)

    def _phrases(self, found, literal):
        # type: (dict[tuple[str, bool, str], Phrase], dict[str, Any]) -> list[Phrase]
        """A literal, and how it stands in a JSON string."""
        own = self._phrase(found, literal)
        return [own] + [self._phrase(found, dict(literal, text=text)) for text in _in_json(own.text)]

    def _phrase(self, found, literal):
        # type: (dict[tuple[Any, ...], Phrase], dict[str, Any]) -> Phrase
        key = (literal["text"], bool(literal.get("fold")), literal.get("lead", ""))
        if key not in found:
            found[key] = Phrase(literal)
        return found[key]


def _words(by_id, name, depth):
    # type: (dict[str, CompiledDialect], str | None, int) -> dict[str, str]
    """The words of a dialect with those of the one that it is like, and so on."""
    dialect = by_id.get(name or "")
    if dialect is None or depth > MAX_LIKE:
        return {}
    more = _words(by_id, dialect.like, depth + 1)
    return dict(more, **dialect.words) if more else dialect.words


@lru_cache(maxsize=1 << 14)
def _forms(words):
    # type: (tuple[str, ...]) -> list[bytes]
    """Words as they stand in a line of small letters without digits; in a JSON string, too."""
    forms = []  # type: list[bytes]
    for word in words:
        plain = word.encode("utf-8")
        forms.append(plain)
        if _ESCAPED.search(plain):
            forms += [_DIGIT.sub(b"", form).lower() for form in escaped(plain)]
    return forms


@lru_cache(maxsize=1 << 14)
def _in_json(text):
    # type: (bytes) -> list[str]
    """How a literal stands in a JSON string, where that is not the literal itself."""
    return [form.decode("utf-8") for form in escaped(text)] if _ESCAPED.search(text) else []


def _comes_last(dialect):
    # type: (CompiledDialect) -> bool
    return dialect.fallback


def typed(text):
    # type: (str) -> str | int | float
    """A field's value: a number where it looks like one."""
    if NUMBER.match(text):
        return int(text)
    return float(text) if FRACTION.match(text) else text
