"""Scanners over text that stands in a test."""

from __future__ import annotations

import itertools
from typing import Any

from gpuwatch.agent.logs.matching.ruleset import RuleSet
from gpuwatch.agent.logs.scanning.scanner import Scanner
from gpuwatch.rules.compiling.compile import compiled
from gpuwatch.rules.parsing.parse import parse_pack

NOW = 1_750_000_000.0
"""2025-06-15 15:06:40 UTC."""


def rule(
    match: str,
    *,
    name: str = "test.rule",
    severity: str = "error",
    extra: str = "",
) -> str:
    """One rule of a pack, as YAML; `extra` are further keys, one a line."""
    more = "".join(f"  {line}\n" for line in extra.splitlines())
    return (
        f"- id: {name}\n  severity: {severity}\n  title: t\n  explain: e\n  do: [d]\n  examples: [x]\n"
        f"  match: '{match}'\n{more}"
    )


def ruleset(*rules: str) -> RuleSet:
    return RuleSet(compiled(each for each, _ in parse_pack("".join(rules), "test.yaml")))


def scanner(rules: RuleSet, speaker: Any = None) -> Scanner:
    return Scanner(rules, "/logs/a.log", itertools.count(1).__next__, speaker)


def found(rules: RuleSet, text: str | bytes, speaker: Any = None) -> list[dict[str, Any]]:
    """What a file with this text holds, each finding in its last state."""
    data = text.encode() if isinstance(text, str) else text
    one = scanner(rules, speaker)
    newest = {finding["id"]: finding for finding in [*one.feed(data, 0, NOW), *one.end()]}
    return list(newest.values())
