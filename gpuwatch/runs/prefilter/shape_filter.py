"""Leaves out phrases that a shape of lines contains by chance: none of their rules can match such a line.

A phrase is a short part of a rule's pattern: `reduce`, ` 0 bytes`, `Error`. Most lines that hold one are
ordinary ones, and preparing a line for the rules takes 0.1 ms. So the whole pattern is tried first, on the
shape, once for all lines of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from gpuwatch.agent.logs.lines.levels import FIELD, FOREIGN_LEVELS, FORMS, GRAVE, LETTER, LEVELS
from gpuwatch.agent.logs.matching.event_form import GAVE_UP
from gpuwatch.agent.logs.matching.ruleset import CompiledRule, Phrase, RuleSet
from gpuwatch.rules.compiling.shape_parts import BORDER
from gpuwatch.rules.compiling.shape_patterns import ShapePattern, shape_pattern
from gpuwatch.runs.prefilter.whole_lines import is_tried

_ANY_WORD, _ANY_NUMBER = r"([A-Za-z]{3,9})", r"([2-6]0|1[37]|21)\b"
"""Values of levels in `FIELD`."""
_BRACKETED = r"(?i)[\[|<]\s{0,8}(?:%s)\s{0,8}[\]|>]"


class ShapeSearch:
    """A pattern for shapes, searched without the word border at its begin first: that takes a fifth."""

    def __init__(self, pattern: ShapePattern) -> None:
        self._text, self._folded = pattern
        self._search = re.compile(self._text.removeprefix(BORDER.encode())).search
        self._whole: re.Pattern[bytes] | None = None

    def matches(self, shape: bytes, lowered: bytes) -> bool:
        """Return True if a shape matches; `lowered`: the shape in lower case."""
        text = lowered if self._folded else shape
        if self._search(text) is None:
            return False
        if self._whole is None:
            self._whole = re.compile(self._text)
        return self._whole.search(text) is not None


class ShapeFilter:
    """The patterns of each phrase, compiled at its first shape."""

    def __init__(self, ruleset: RuleSet) -> None:
        self._ruleset = ruleset
        self._patterns: dict[Phrase, list[tuple[str, ShapeSearch]] | None] = {}
        self._known: dict[str, ShapeSearch | None] = {}
        self._searches: dict[ShapePattern, ShapeSearch] = {}

    def kept(self, phrases: list[Phrase], shape: bytes) -> list[Phrase]:
        """Return the phrases of a shape of which a rule or dialect may match its lines."""
        lowered = shape.lower()
        if not phrases or not is_tried(shape, lowered):
            return phrases
        tried: dict[ShapeSearch, bool] = {}
        return [phrase for phrase in phrases if self._may_match(phrase, shape, lowered, tried)]

    def _may_match(
        self, phrase: Phrase, shape: bytes, lowered: bytes, tried: dict[ShapeSearch, bool]
    ) -> bool:
        """Return True if a pattern of a phrase matches a shape; `tried`: results for this shape so far."""
        if phrase not in self._patterns:
            compiled = [(rule, self._compiled(text)) for rule, text in patterns_of(phrase)]
            every = [(rule, each) for rule, each in compiled if each is not None]
            self._patterns[phrase] = every if len(every) == len(compiled) else None
        patterns = self._patterns[phrase]
        if patterns is None:
            return True
        ruleset = self._ruleset
        for rule, pattern in patterns:
            if rule in ruleset.suspended:
                return True
            if (known := tried.get(pattern)) is not None:
                if known:
                    return True
                continue
            if ruleset.entered is not None:  # a hung search suspends its rule
                ruleset.entered(rule)
            found = tried[pattern] = pattern.matches(shape, lowered)
            if ruleset.left is not None:
                ruleset.left()
            if found:
                return True
        return False

    def _compiled(self, text: str) -> ShapeSearch | None:
        """Return the pattern for shapes, None: any shape may match."""
        if text not in self._known:
            loosened = shape_pattern(text)
            self._known[text] = None if loosened is None else self._search_of(loosened)
        return self._known[text]

    def matches(self, pattern: ShapePattern, shape: bytes, lowered: bytes) -> bool:
        """Return True if a pattern matches a shape; `lowered`: the shape in lower case."""
        return self._search_of(pattern).matches(shape, lowered)

    def _search_of(self, pattern: ShapePattern) -> ShapeSearch:
        found = self._searches.get(pattern)
        if found is None:
            found = self._searches[pattern] = ShapeSearch(pattern)
        return found


def patterns_of(phrase: Phrase) -> Iterator[tuple[str, str]]:
    """Yield the patterns of which one matches each line that the phrase leads to, with their rules."""
    for rule in phrase.rules:
        for text in unexplained_patterns() if rule.fallback else rule_patterns(rule):
            yield rule.id, text
    for rule in phrase.recoveries:
        if rule.recovery is not None:
            yield rule.id, rule.recovery.text
    for dialect in phrase.dialects:
        for text in dialect.patterns:
            yield dialect.id, text


def rule_patterns(rule: CompiledRule) -> Iterator[str]:
    """Yield the patterns of which one matches each line that a rule finds."""
    for pattern in rule.match + rule.general:
        yield pattern.text


def unexplained_patterns() -> Iterator[str]:
    """Yield patterns; every line that is an error by its level, or states an end, matches one of them."""
    grave = sorted(name for name, level in LEVELS.items() if level in GRAVE and name.isalpha())
    yield "|".join(name.upper() for name in grave)
    yield "|".join(sorted(word for word, level in FOREIGN_LEVELS.items() if level in GRAVE))
    yield _BRACKETED % "|".join(grave)
    yield from (grave_field(grave), LETTER.pattern, GAVE_UP.pattern)
    yield from (form.pattern for level, form in FORMS if level in GRAVE)


def grave_field(words: Sequence[str]) -> str:
    """Return the pattern of a field with a level that is one of these words, or a number that stands for one.

    A shape has no digits: what follows the number shows that the value is one.
    """
    named = FIELD.pattern.replace(_ANY_WORD, f"(?i:{'|'.join(words)})", 1)
    return named.replace(_ANY_NUMBER, r"\d\d\s?[,}\]]", 1)
