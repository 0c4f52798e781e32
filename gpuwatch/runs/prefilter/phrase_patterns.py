"""Determines, for each phrase, the patterns that a line with the phrase may match."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

from gpuwatch.agent.logs.lines.levels import FIELD, FOREIGN_LEVELS, FORMS, GRAVE, LETTER, LEVELS
from gpuwatch.agent.logs.matching.event_form import GAVE_UP
from gpuwatch.agent.logs.matching.ruleset import CompiledRule, Phrase, RuleSet, word_forms
from gpuwatch.agent.logs.progress.dialect import CompiledDialect
from gpuwatch.rules.compiling.literals import Literal, literals_of

LiteralKey = tuple[bytes, bool]
"""The text of a literal (lower-case if its case is ignored), and True if its case is ignored."""
Literals = tuple[LiteralKey, ...]
Owners: TypeAlias = tuple[tuple[CompiledRule, ...], tuple[CompiledRule, ...], tuple[CompiledDialect, ...]]
"""The rules that a phrase leads to, those whose condition it ends, and its dialects."""
DIGITS = b"0123456789"
_ANY_WORD, _ANY_NUMBER = r"([A-Za-z]{3,9})", r"([2-6]0|1[37]|21)\b"
"""Pattern parts for any level in `FIELD`: as a word, or as a number."""
_LETTERS, _FEW_LETTERS, _MILD_LETTERS = "[FEWICD]", "[FEWI]", "WID"
"""Pattern parts for any level in `LETTER`, and the letters of levels below an error."""
_BRACKETED = r"(?i)[\[|<]\s{0,8}(?:%s)\s{0,8}[\]|>]"


class LiteralOwners:
    """The literals of each rule and dialect, by which each pattern is tried for few phrases only."""

    def __init__(self, ruleset: RuleSet) -> None:
        self._owned: dict[str, dict[LiteralKey, Phrase]] = {}
        for phrase in ruleset.phrases:
            key = (phrase.text, phrase.fold)
            for rule in phrase.rules:
                if not rule.fallback:  # one text may lead to the rule by several words
                    self._owned.setdefault(rule.id, {})[key] = phrase
            for dialect in phrase.dialects:
                self._owned.setdefault(dialect.id, {})[key] = phrase

    def patterns_of(self, phrase: Phrase) -> Iterator[tuple[str, str, Literals]]:
        """Yield (id of a rule or dialect, pattern, literals) of what a line may match by this phrase.

        A line that matches a pattern contains one of the pattern's literals. So if all these literals lead to
        the rule, the pattern is left out for a phrase that is only a literal of other patterns. A shape must
        contain one of the yielded literals besides the phrase; if there are none, any shape may match.
        """
        key = (phrase.text, phrase.fold)
        every = list(patterns_of(phrase))
        literals = {text: {_key(each): each for each in literals_of(text)} for _, text in every}
        for owner, text in every:
            if key in literals[text]:
                yield owner, text, ()
                continue
            is_others = any(key in literals[other] for rule, other in every if rule == owner)
            if not is_others or not self._lead_to(owner, literals[text]):
                yield (
                    owner,
                    text,
                    tuple((each.translate(None, DIGITS), fold) for each, fold in literals[text]),
                )

    def _lead_to(self, owner: str, literals: Mapping[LiteralKey, Literal]) -> bool:
        """Return True if each line with one of the literals has a phrase by which `owner` is tried on it.

        `owner`: the id of a rule or dialect. False if there are no literals.
        """
        phrases = self._owned.get(owner, {})
        return bool(literals) and all(
            key in phrases and _takes(phrases[key], literal) for key, literal in literals.items()
        )


def _key(literal: Literal) -> LiteralKey:
    return (literal.text.lower() if literal.fold else literal.text).encode(), literal.fold


def _takes(phrase: Phrase, literal: Literal) -> bool:
    """Return True if a line with the literal, and the other words that its pattern needs, has the phrase."""
    return phrase.needs is None or [word_forms(group) for group in literal.needs] in phrase.needs


def patterns_of(phrase: Phrase) -> Iterator[tuple[str, str]]:
    """Yield (id of a rule or dialect, pattern) of all that a phrase leads to, also of recoveries."""
    for rule in phrase.rules:
        for text in unexplained_patterns() if rule.fallback else rule_patterns(rule):
            yield rule.id, text
    for rule in phrase.recoveries:
        if rule.recovery is not None:
            yield rule.id, rule.recovery.text
    for dialect in phrase.dialects:
        for text in dialect.patterns:
            yield dialect.id, text


def owners_of(phrase: Phrase) -> Owners:
    """Return the rules and dialects of a phrase; `patterns_of` depends on nothing else."""
    return tuple(phrase.rules), tuple(phrase.recoveries), tuple(phrase.dialects)


def texts_of_owners(phrases: Iterable[Phrase]) -> dict[Owners, list[str]]:
    """Return the different patterns of phrases by their owners; thousands of phrases share a few."""
    found: dict[Owners, list[str]] = {}
    for phrase in phrases:
        owners = owners_of(phrase)
        if owners not in found:
            found[owners] = list(dict.fromkeys(text for _, text in patterns_of(phrase)))
    return found


def rule_patterns(rule: CompiledRule) -> Iterator[str]:
    """Yield patterns; each line that the rule finds matches one of them."""
    for pattern in rule.match + rule.general:
        yield pattern.text


def unexplained_patterns() -> Iterator[str]:
    """Yield patterns; every line that is an error by its level, or states an end, matches one of them."""
    grave = sorted(name for name, level in LEVELS.items() if level in GRAVE and name.isalpha())
    yield "|".join(name.upper() for name in grave)
    yield "|".join(sorted(word for word, level in FOREIGN_LEVELS.items() if level in GRAVE))
    yield _BRACKETED % "|".join(grave)
    yield from (grave_field(grave), *grave_records(grave), grave_letter(), GAVE_UP.pattern)
    yield from (form.pattern for level, form in FORMS if level in GRAVE)


def grave_records(words: Sequence[str]) -> Iterator[str]:
    """Yield patterns; every JSON record that states one of these levels, or its number, matches one of them.

    The level is a value of its own (see `record_levels`), whatever the field's name.
    """
    yield rf'(?i)"\s?(?:{"|".join(words)}|[ef])\s?"\s?[,}}\]]'
    yield r'(?i)(?:level|lvl|levelno|number|severity)\s?"\s?:\s?"?\d\d\d?\s?"?\s?[,}\]]'


def grave_letter() -> str:
    """Return a regular expression that each line matches whose level is an error by its letter (`[E`).

    What follows the letter is matched, not only looked at, so that it stays in patterns for shapes.
    """
    letters = LETTER.pattern
    for stated in (_LETTERS, _FEW_LETTERS):
        letters = letters.replace(stated, "".join(each for each in stated if each not in _MILD_LETTERS))
    return letters.replace("(?=", "(?:")


def grave_field(words: Sequence[str]) -> str:
    """Return a regular expression for a log field with one of these levels, as a word or as a number.

    A shape (a line without digits) does not have the number; the character after it shows that there was one.
    """
    named = FIELD.pattern.replace(_ANY_WORD, f"(?i:{'|'.join(words)})", 1)
    return named.replace(_ANY_NUMBER, r"\d\d\s?[,}\]]", 1)
