"""Completes the Xid rules from the table of codes: their patterns, and the severities that differ by code."""

from __future__ import annotations

from msgspec import structs

from gpuwatch.agent.kernel.xid_table import CATALOGUE, UNKNOWN
from gpuwatch.rules.model.rule import Rule
from gpuwatch.wire import Severity

PLACEHOLDER = "XID_LINE"
"""The placeholder in a pattern of `xid.yaml` for an Xid line with a code of the rule's own class."""
_HEAD = r"(?:\bXid \((?:PCI:)?(?P<bus_id>[^)\s]{0,40})[^)]{0,30}\)|NVRM: Xid|XidCriticalError: Xid)[:=] ?"
_TAIL = r"\b(?:, pid='?(?P<pid>\d+))?(?:, name=(?P<process>[^,<]{1,64}))?"


def with_codes(rule: Rule) -> Rule:
    """Return an Xid rule with the patterns and severities of its codes filled in.

    A rule without the placeholder is returned unchanged.
    """
    if not any(PLACEHOLDER in pattern for pattern in rule.match):
        return rule
    own = _HEAD + _code_pattern(rule.id) + _TAIL
    severities: dict[str, Severity] = {
        str(code): severity  # type: ignore[misc]  # the table is plain data for Python 3.6
        for code, (name, severity, _, _) in sorted(CATALOGUE.items())
        if name == rule.id and severity != rule.severity
    }
    by_field = {**rule.severity_by, **({"xid": severities} if severities else {})}
    match = tuple(pattern.replace(PLACEHOLDER, own) for pattern in rule.match)
    return structs.replace(rule, match=match, severity_by=by_field)


def _code_pattern(name: str) -> str:
    """Return the regular expression for the Xid codes of a class; `gpu.xid.unknown`: all other codes."""
    if name != UNKNOWN[0]:
        return f"(?P<xid>{_either(name)})"
    return rf"(?! |(?:{_either(*{entry[0] for entry in CATALOGUE.values()} - {name})})\b)(?P<xid>\d{{1,6}})"


def _either(*names: str) -> str:
    return "|".join(str(code) for code in sorted(CATALOGUE) if CATALOGUE[code][0] in names)
