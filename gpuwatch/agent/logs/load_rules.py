"""Loads the rules that the cockpit sends."""

import base64
import json
import re
import zlib

from .files.entry import shown
from .matching.ruleset import RuleSet

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def load(sent: "Any", suspended: "dict[str, dict[str, str]]") -> "tuple[RuleSet, list[dict[str, Any]]]":
    """Return (rule set, notices about rules that this Python cannot compile).

    `sent` is a list of compiled rules, or base64 of zlib of its JSON; `suspended` maps files to rules and
    reasons.
    """
    compiled = (
        json.loads(zlib.decompress(base64.b64decode(sent)).decode("utf-8")) if isinstance(sent, str) else sent
    )
    compiled = compiled or []
    notices: list[dict[str, Any]] = []
    try:
        ruleset = _ready(compiled)
    except (re.error, RecursionError, OverflowError):
        notices = [_unusable(str(one["id"]), _fault(one)) for one in compiled if _fault(one)]
        ruleset = _ready([one for one in compiled if not _fault(one)])
    for path, rules in suspended.items():
        for rule, why in rules.items():
            ruleset.suspend(rule, why, shown(path))
    return ruleset, notices


def _ready(compiled: "list[dict[str, Any]]") -> "RuleSet":
    """Return the rule set of compiled rules, with all its patterns compiled.

    Raises:
        re.error: A pattern cannot be compiled; also RecursionError or OverflowError.
    """
    ruleset = RuleSet(compiled)
    ruleset.compile()
    return ruleset


def _fault(rule: "dict[str, Any]") -> str:
    """Return why this Python cannot compile a rule; empty: it can."""
    try:
        _ready([rule])
    except (re.error, RecursionError, OverflowError) as error:
        return str(error) or repr(error)
    return ""


def _unusable(rule: str, error: str) -> "dict[str, Any]":
    return {
        "code": "rule_unusable",
        "severity": "warning",
        "text": "The Python of this node cannot use the rule {}: {}.".format(rule, error),
        "remedy": "Name a newer interpreter with `python:` in the hosts file, or make the pattern simpler.",
    }
