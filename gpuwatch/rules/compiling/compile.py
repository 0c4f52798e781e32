"""Converts rules to the plain data sent to a node, with the literals that the agent's prefilter needs."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from gpuwatch.agent.logs.progress.key_values import canonical
from gpuwatch.rules.compiling.check import treats_digits_alike
from gpuwatch.rules.compiling.literals import Literal, declared, literals_of
from gpuwatch.rules.model.dialect import Dialect
from gpuwatch.rules.model.rule import Rule

GLOG_FILES = (".py:", ".cc:", ".cpp:", ".cu:", ".go:")
"""Source file suffixes in the head of glog's records: `E0302 10:00:00.123456 4242 loop.cc:12] `."""
GLOG_LETTERS = "EFC"
JSON_VALUE = re.compile(r'("?\w{2,20}":)?("?\w{1,20}"?),')
"""A literal for a JSON value with the comma behind it: a level's word, or a field's name and a number."""


def compiled(rules: Iterable[Rule | Dialect]) -> list[dict[str, Any]]:
    """Return one dict per rule, in the format of `gpuwatch.agent.logs.matching.ruleset.RuleSet`."""
    return [_plain_dialect(rule) if isinstance(rule, Dialect) else _plain(rule) for rule in rules]


def literals_for(rule: Rule | Dialect) -> tuple[Literal, ...]:
    """Return each pattern's literals: derived from it, or stated by the rule if these are more distinctive.

    Empty if a pattern has neither.
    """
    patterns = _leading(rule)
    fold = any("(?i" in pattern for pattern in patterns)
    found: dict[Literal, None] = {}
    for pattern in patterns:
        stated = tuple(declared(text, fold, pattern) for text in rule.literals)
        best = max((literals_of(pattern), stated), key=_states)
        if not best:
            return ()
        found.update(dict.fromkeys(best))
    return tuple(found)


def _leading(rule: Rule | Dialect) -> tuple[str, ...]:
    """Return the patterns of a rule; every line that the rule finds matches at least one of them."""
    return (*rule.match, *rule.general.match) if isinstance(rule, Rule) and rule.general else rule.match


def _led(literal: Literal, rule: Rule) -> list[dict[str, Any]]:
    """Return the entries for a literal in the data sent to the agent: usually one.

    In a fallback rule the suffix of a glog source file (`.cc:`) counts only after a level letter: one entry
    for each of GLOG_LETTERS. A JSON value there may also end its object, and follow a blank: one entry for
    each of these texts.
    """
    value = JSON_VALUE.fullmatch(literal.text) if rule.fallback else None
    if value is not None:
        name, text = value.groups("")
        heads = (name, f"{name} ") if name else ("",)
        return [declared(f"{head}{text}{end}", literal.fold, "").plain() for head in heads for end in ",}"]
    if rule.fallback and literal.text in GLOG_FILES:
        return [{"text": literal.text, "lead": letter, "whole": True} for letter in GLOG_LETTERS]
    return [literal.plain()]


def _states(literals: tuple[Literal, ...]) -> float:
    return min((each.weight for each in literals), default=-1.0)


def _plain(rule: Rule) -> dict[str, Any]:
    plain: dict[str, Any] = {
        "id": rule.id,
        "severity": rule.severity,
        "role": rule.role,
        "match": list(rule.match),
        "literals": [plain for each in literals_for(rule) for plain in _led(each, rule)],
    }
    if all(treats_digits_alike(pattern) for pattern in _leading(rule)):
        plain["steady"] = True
    plain.update({name: list(getattr(rule, name)) for name in ("unless", "programs") if getattr(rule, name)})
    for name in ("exact", "fallback", "newest", "once"):
        if getattr(rule, name):
            plain[name] = True
    if "no_rank_logs" in rule.kinds:
        plain["no_rank_logs"] = True
    if rule.general:
        plain["general"] = {"match": list(rule.general.match), "unless": list(rule.general.unless)}
    for name, context in (("after", rule.after), ("above", rule.above)):
        if context:
            plain[name] = {"match": context.match, "lines": context.lines}
    if rule.after and (texts := _texts_above(rule.after.match)):
        plain["after"]["texts"] = texts
    plain.update({name: getattr(rule, name) for name in ("block", "until", "raised") if getattr(rule, name)})
    if rule.flood:
        plain["flood"] = {"count": rule.flood.count, "seconds": rule.flood.seconds}
    if rule.recovery:
        plain["recovery"] = {
            "match": rule.recovery.match,
            "same": list(rule.recovery.same),
            "literals": [each.plain() for each in literals_of(rule.recovery.match)],
        }
    if rule.severity_by:
        plain["severity_by"] = rule.severity_by
    return plain


def _texts_above(pattern: str) -> list[str]:
    """Return texts of which one stands as it is in the bytes of each line that the pattern matches.

    Empty: unknown. A tab becomes four blanks before a line is searched.
    """
    found = literals_of(pattern)
    texts = [each.text.strip(" ") for each in found if not each.fold]
    is_sure = len(texts) == len(found) and all(text.isascii() and " " * 4 not in text for text in texts)
    return texts if is_sure and all(texts) else []


def _plain_dialect(dialect: Dialect) -> dict[str, Any]:
    plain: dict[str, Any] = {
        "id": dialect.id,
        "kind": dialect.kind,
        "match": list(dialect.match),
        "literals": [each.plain() for each in literals_for(dialect)],
    }
    if all(treats_digits_alike(pattern) for pattern in (*dialect.match, *dialect.unless)):
        plain["steady"] = True
    if dialect.words:
        plain["words"] = {canonical(word): quantity for word, quantity in dialect.words.items()}
    if dialect.like != dialect.id:
        plain["like"] = dialect.like
    for name in ("unless", "needs"):
        if getattr(dialect, name):
            plain[name] = list(getattr(dialect, name))
    if dialect.least > 1:
        plain["least"] = dialect.least
    for name in ("plain", "phases", "per_epoch", "fallback"):
        if getattr(dialect, name):
            plain[name] = getattr(dialect, name)
    return plain
