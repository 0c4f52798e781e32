"""Prepares rules for searching; a node gets them as dicts of `gpuwatch.rules.compiling.compile`.

A literal is a dict. Every line that its pattern matches contains its `text` (`fold`: in any case). `lead` is
its most distinctive word without digits; with `whole` no letter may stand before or after that word,
otherwise it may be part of a longer one. `needs` are groups of lower-case words: of each group one is in the
line too.
"""

import re
from functools import lru_cache

from ..lines.json_lines import escaped
from ..lines.programs import DEFAULT
from ..progress.dialect import CompiledDialect

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Iterator

PROGRESS = "progress"
"""The `kind` of a dialect among the compiled rules."""

MAX_FILES = 3
"""Files in which a rule may be suspended before it is suspended everywhere."""
SLOW_S = 0.05
"""CPU seconds that one rule may take for one line on a node."""
MAX_LIKE = 4
"""Depth of dialects that extend each other."""

_DIGIT = re.compile(rb"\d")
_ESCAPED = re.compile(rb"[^ -~]|[\"\\<>&]")
"""Characters that JSON escapes."""
NUMBER = re.compile(r"[+-]?\d{1,18}$")
FRACTION = re.compile(r"[+-]?\d{1,18}\.\d{1,18}$")


class CompiledFlood(object):
    """The condition of a flood: nothing is reported before `count` matches within `seconds`."""

    __slots__ = ("count", "seconds")

    def __init__(self, count: int, seconds: float) -> None:
        self.count = count
        self.seconds = seconds


class LazyPattern(object):
    """A regular expression that is compiled at its first search, since few rules see a possible match."""

    __slots__ = ("search", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self.search: Callable[[str], re.Match[str] | None] = self._first_search

    def compile(self) -> None:
        """Compile the pattern now.

        Raises:
            re.error: This Python cannot compile it; so do RecursionError and OverflowError.
        """
        self.search = re.compile(self.text).search

    def _first_search(self, text: str) -> "re.Match[str] | None":
        self.compile()
        return self.search(text)


class CompiledRule(object):
    """A rule prepared for searching."""

    __slots__ = (
        "above", "above_lines", "after", "after_lines", "after_texts", "block", "exact", "fallback", "flood",
        "general", "general_unless", "id", "match", "newest", "no_rank_logs", "once", "programs", "raised",
        "recovery", "role", "same", "severity", "severity_by", "steady", "unless", "until",
    )  # fmt: skip

    def __init__(self, plain: "dict[str, Any]") -> None:
        self.id = str(plain["id"])
        self.severity = str(plain["severity"])
        self.role = plain["role"]
        self.match = [LazyPattern(each) for each in plain["match"]]
        self.unless = [LazyPattern(each) for each in plain.get("unless", ())]
        general: Any = plain.get("general")
        self.general = [LazyPattern(each) for each in general["match"]] if general else []
        """General patterns: searched only in lines that no specific pattern explains."""
        self.general_unless = [LazyPattern(each) for each in general["unless"]] if general else []
        self.exact = bool(plain.get("exact"))
        """True: matches at any level of the line, and inside advice."""
        self.fallback = bool(plain.get("fallback"))
        """True: tried only on error lines that no other rule explains."""
        after = plain.get("after")
        self.after = LazyPattern(after["match"]) if after else None
        self.after_lines = int(after["lines"]) if after else 0
        texts: Any = after.get("texts", ()) if after else ()
        self.after_texts = tuple([text.encode("utf-8") for text in texts])
        """Texts of which one must occur above a match; empty: unknown, or none need."""
        above = plain.get("above")
        self.above = LazyPattern(above["match"]) if above else None
        self.above_lines = int(above["lines"]) if above else 0
        self.block = plain.get("block", 0)
        until = plain.get("until")
        self.until = LazyPattern(until) if until else None
        raised = plain.get("raised")
        self.raised = LazyPattern(raised) if raised else None
        """Searched in the line that ends a Python traceback, if no other rule explains it."""
        self.newest = bool(plain.get("newest"))
        """True: one finding per writer, always the newest match."""
        self.no_rank_logs = bool(plain.get("no_rank_logs"))
        """True: no rank writes its lines."""
        self.once = bool(plain.get("once"))
        """True: two matches with equal text, in lines that differ only in digits, are the same."""
        flood: Any = plain.get("flood")
        self.flood = CompiledFlood(flood["count"], flood["seconds"]) if flood else None
        recovery: Any = plain.get("recovery")
        self.recovery = LazyPattern(recovery["match"]) if recovery else None
        self.same = list(recovery["same"]) if recovery else []
        self.steady = bool(plain.get("steady"))
        """True if its patterns treat all digits alike."""
        self.programs = tuple(plain.get("programs") or DEFAULT)
        """Programs whose lines it applies to, where a line names its program."""
        self.severity_by: dict[str, dict[str, str]] = plain.get("severity_by") or {}

    @property
    def is_specific(self) -> bool:
        """Return True if the patterns `match` show what a line is about, not only that something failed."""
        return self.role != "hint" and self.raised is None

    def patterns(self) -> "Iterator[LazyPattern]":
        """Yield all patterns that the rule may search."""
        for each in self.match + self.unless + self.general + self.general_unless:
            yield each
        for one in (self.after, self.above, self.until, self.raised, self.recovery):
            if one is not None:
                yield one

    def severity_of(self, fields: "dict[str, Any]") -> str:
        """Return the rule's severity, or the one that a field's value determines."""
        for name, table in self.severity_by.items():
            if name in fields and str(fields[name]) in table:
                return table[str(fields[name])]
        return self.severity


class Phrase(object):
    """A literal text, and the rules or progress dialects of the lines that contain it."""

    __slots__ = (
        "dialects", "fold", "lead", "needs", "plain", "recoveries", "rules", "text", "whole", "words",
    )  # fmt: skip

    def __init__(self, literal: "dict[str, Any]") -> None:
        self.fold = bool(literal.get("fold"))
        text: bytes = literal["text"].encode("utf-8")
        self.text = text.lower() if self.fold else text
        plain: bytes = literal.get("plain", literal["text"]).encode("utf-8")
        self.plain = plain.lower() if self.fold else plain
        """The text as it stands outside of a JSON string."""
        self.lead: bytes = literal.get("lead", "").encode("utf-8")
        self.whole = bool(literal.get("whole"))
        self.rules: list[CompiledRule] = []
        self.recoveries: list[CompiledRule] = []
        self.dialects: list[CompiledDialect] = []
        self.needs: list[list[list[bytes]]] | None = None
        """For each of its patterns the groups of other words required; None: none are."""
        self.words: dict[CompiledRule, list[list[list[bytes]]]] = {}
        """The same for each rule; an empty list of groups: none are."""

    def takes(self, needs: "Any", rule: "CompiledRule | None" = None) -> None:
        """Add the groups of other words that a pattern (of this rule) with the literal needs; empty: none."""
        groups = [word_forms(tuple(group)) for group in needs or ()]
        if rule is not None:
            self.words.setdefault(rule, []).append(groups)
        if self.needs is None and (self.rules or self.recoveries or self.dialects):
            return
        if not groups:
            self.needs = None
        elif groups not in (self.needs or ()):
            self.needs = (self.needs or []) + [groups]

    def may_match(self, lowered: bytes) -> bool:
        """Return True if a lower-case line has all the words that one of the literal's patterns needs."""
        return self.needs is None or _has_words(lowered, self.needs)

    @property
    def may_need_above(self) -> bool:
        """Return True if there may be lines that its rules explain only below a text of `after_texts`."""
        return not self.recoveries and any(rule.after_texts for rule in self.rules)

    def texts_above(self, lowered: bytes) -> "tuple[bytes, ...]":
        """Return texts of which one occurs above the line wherever one of the literal's rules explains it.

        Empty: unknown. Rules that need other words, which the line lacks, do not count. `lowered`: the
        whole line in lower case, without digits.
        """
        if self.recoveries:
            return ()
        texts: list[bytes] = []
        for rule in self.rules:
            words = self.words.get(rule)
            if words is None or _has_words(lowered, words):
                if not rule.after_texts:
                    return ()
                texts.extend(rule.after_texts)
        return tuple(texts)

    @property
    def leads_to_findings(self) -> bool:
        """Return True if a line with the literal may be a finding, or end one."""
        return bool(self.rules or self.recoveries)

    def steady(self) -> bool:
        """Return True if the literal and its rules do not depend on the digits of a line."""
        return (
            not self.recoveries and not _DIGIT.search(self.text) and all(rule.steady for rule in self.rules)
        )


class RuleSet(object):
    """All rules of a node. A rule that takes too long in a file is suspended there, with the reason."""

    def __init__(self, compiled: "list[dict[str, Any]]", slow_s: float = SLOW_S) -> None:
        """Create the rule set; `slow_s`: CPU seconds that one rule may take for one line."""
        self.slow_s = slow_s
        rules = [each for each in compiled if each.get("kind") != PROGRESS]
        dialects = [each for each in compiled if each.get("kind") == PROGRESS]
        self.rules = [CompiledRule(each) for each in rules]
        self.dialects = [CompiledDialect(each) for each in dialects]
        """In the order in which they are tried."""
        self.suspended: dict[str, str] = {}
        """Rule -> why and in which file it was last suspended."""
        self.off_everywhere: set[str] = set()
        """Rules that are suspended in all files."""
        self._off: dict[str, set[str]] = {}
        self.entered: Any = None
        """Called with a rule's id before each of its searches, if set."""
        self.left: Any = None
        """Called after each search, if set."""
        found: dict[tuple[str, bool, str], Phrase] = {}
        paced: dict[tuple[str, bool, str], Phrase] = {}
        for rule, plain in zip(self.rules, rules):  # noqa: B905 - strict needs Python 3.10
            for literal in plain["literals"]:
                for phrase in self._phrases(found, literal):
                    phrase.takes(literal.get("needs"), rule)
                    if rule not in phrase.rules:
                        phrase.rules.append(rule)
            recovery: Any = plain.get("recovery") or {}
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

    def compile(self) -> None:
        """Compile the patterns of all rules.

        Raises:
            re.error: this Python cannot compile one; so do RecursionError and OverflowError.
        """
        for rule in self.rules:
            for pattern in rule.patterns():
                pattern.compile()

    def off_in(self, file: str) -> "set[str]":
        """Return the ids of the rules suspended in a file, as a set that later suspensions change."""
        return self._off.setdefault(file, set())

    def suspend(self, rule: str, why: str, file: "str | None" = None) -> None:
        """Suspend a rule in this file; in all files if none is named, or after `MAX_FILES` files."""
        self.suspended[rule] = why
        if file is not None:
            self.off_in(file).add(rule)
        if file is None or sum(rule in off for off in self._off.values()) >= MAX_FILES:
            self.off_everywhere.add(rule)

    def _phrases(
        self, found: "dict[tuple[str, bool, str], Phrase]", literal: "dict[str, Any]"
    ) -> "list[Phrase]":
        """Return the phrases for a literal: for its text, and for the text as JSON escapes it."""
        own, plain = self._phrase(found, literal), literal["text"]
        forms = _in_json(own.text)
        return [own] + [self._phrase(found, dict(literal, text=form, plain=plain)) for form in forms]

    def _phrase(self, found: "dict[tuple[Any, ...], Phrase]", literal: "dict[str, Any]") -> "Phrase":
        key = (literal["text"], bool(literal.get("fold")), literal.get("lead", ""))
        if key not in found:
            found[key] = Phrase(literal)
        return found[key]


def _has_words(lowered: bytes, patterns: "list[list[list[bytes]]]") -> bool:
    """Return True if a lower-case line has, for one of the patterns, a word of each group."""
    for groups in patterns:
        for group in groups:
            for word in group:
                if word in lowered:
                    break
            else:
                break
        else:
            return True
    return False


def _words(by_id: "dict[str, CompiledDialect]", name: "str | None", depth: int) -> "dict[str, str]":
    """Return word -> quantity of a dialect and of those it extends; its own words take precedence."""
    dialect = by_id.get(name or "")
    if dialect is None or depth > MAX_LIKE:
        return {}
    more = _words(by_id, dialect.like, depth + 1)
    return dict(more, **dialect.words) if more else dialect.words


@lru_cache(maxsize=1 << 14)
def word_forms(words: "tuple[str, ...]") -> "list[bytes]":
    """Return the forms that words have in lower-case lines without digits, also inside JSON strings."""
    forms: list[bytes] = []
    for word in words:
        plain = word.encode("utf-8")
        forms.append(plain)
        if _ESCAPED.search(plain):
            forms += [_DIGIT.sub(b"", form).lower() for form in escaped(plain)]
    return forms


@lru_cache(maxsize=1 << 14)
def _in_json(text: bytes) -> "list[str]":
    """Return the forms of a text in JSON strings that differ from the text."""
    return [form.decode("utf-8") for form in escaped(text)] if _ESCAPED.search(text) else []


def _comes_last(dialect: "CompiledDialect") -> bool:
    return dialect.fallback


def typed(text: str) -> "str | int | float":
    """Return a field's value: a number if the text looks like one, else the text."""
    if NUMBER.match(text):
        return int(text)
    return float(text) if FRACTION.match(text) else text
