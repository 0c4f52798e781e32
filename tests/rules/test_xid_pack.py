"""The Xid rules and the agent's Xid catalogue say the same of every code."""

from __future__ import annotations

import re

import pytest

from gpuwatch.agent.xid import ACTIONS, CATALOGUE, meaning
from gpuwatch.rules.load import load_packs
from gpuwatch.rules.rule import Rule

UNUSED_NOW = {61}
"""Listed as unused by NVIDIA, but sent by old drivers: the agent knows what it meant."""


@pytest.fixture(scope="module")
def rules() -> list[Rule]:
    return [rule for rule in load_packs().rules if rule.id.startswith("gpu.xid.")]


def found(rules: list[Rule], line: str) -> list[tuple[str, str]]:
    """Rules that take the line, each with the severity that its fields give."""
    told: list[tuple[str, str]] = []
    for rule in rules:
        matches = (re.search(pattern, line) for pattern in rule.match)
        match = next((each for each in matches if each is not None), None)
        if match is None or any(re.search(pattern, line) for pattern in rule.unless):
            continue
        fields = {name: value for name, value in match.groupdict().items() if value is not None}
        by_field = (table.get(fields.get(name, "")) for name, table in rule.severity_by.items())
        told.append((rule.id, next((each for each in by_field if each), rule.severity)))
    return told


@pytest.mark.parametrize("place", ["PCI:0000:54:00", "0000:54:00", "PCI:0000:48:00 GPU-I:05"])
def test_every_code_has_one_rule_and_its_severity(rules: list[Rule], place: str) -> None:
    bucket = {"info": "info", "warning": "warning", "error": "warning", "critical": "critical"}
    for code in range(400):
        told = found(rules, f"NVRM: Xid ({place}): {code}, pid=48, name=train.py")
        assert len(told) == 1, (code, told)
        rule, severity = told[0]
        assert bucket[severity] == meaning(code)[1], (code, rule, severity)
        assert (rule == "gpu.xid.unknown") == (code not in CATALOGUE or code in UNUSED_NOW), (code, rule)


def test_nonfatal_link_errors_are_warnings_in_both(rules: list[Rule]) -> None:
    for code in range(144, 151):
        text = "NETIR_BER_EVENT Nonfatal XC0 i0 Link 13"
        told = found(rules, f"NVRM: Xid (PCI:0009:01:00): {code}, {text}")
        assert told == [("gpu.xid.nvlink", "warning")]
        assert meaning(code, text)[1] == "warning"


def test_the_text_decides_where_it_contradicts_the_number(rules: list[Rule]) -> None:
    told = found(rules, "NVRM: Xid (PCI:0000:4c:00): 71, pid=3, NVLink: fatal error detected on link 2(0x1)")
    assert told == [("gpu.xid.nvlink", "critical")]


@pytest.mark.parametrize(
    ("code", "action"),
    [(13, "RESTART_APP"), (79, "RESTART_BM"), (95, "RESET_GPU"), (148, "WORKFLOW_NVLINK5_ERR")],
)
def test_the_remedy_names_what_nvidia_asks_for(code: int, action: str) -> None:
    assert ACTIONS[code] == action
    assert action in meaning(code)[2]


def test_actions_are_given_for_codes_of_the_catalogue_only() -> None:
    assert set(ACTIONS) <= set(CATALOGUE)
    assert set(CATALOGUE) - set(ACTIONS) <= {*range(162, 173)} | UNUSED_NOW
