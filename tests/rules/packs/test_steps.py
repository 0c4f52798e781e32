"""Each step of a playbook can be read alone, on every kind of accelerator."""

from __future__ import annotations

import re

import pytest

from gpuwatch.diagnose.model.device_kind import KINDS, steps_for
from gpuwatch.rules.load import load_packs

BACKWARD = re.compile(r"(?i)(?:or )?(?:else|otherwise|if (?:not|so|none)|then|too (?:few|many))\b")
"""Openings that refer to the step before."""
ABSENT = re.compile(r"(?i)\blinked (?:issue|page)|\bthe links? (?:below|above)")
"""References to a list of links, which the text report does not print."""


def test_no_step_refers_to_one_that_another_device_does_not_have() -> None:
    lost = []
    for rule in load_packs().by_id.values():
        for kind in KINDS:
            kept = [(number, step) for number, step in enumerate(rule.do) if steps_for([step], kind)]
            numbers = {number for number, _ in kept}
            lost += [
                (rule.id, kind.name, step)
                for number, step in kept
                if BACKWARD.match(step) and number - 1 not in numbers
            ]
    assert not lost


@pytest.mark.parametrize("pattern", [r"(?i)(?:else|otherwise)\b", ABSENT.pattern])
def test_no_step_opens_with_else_or_names_a_link_that_is_not_printed(pattern: str) -> None:
    found = re.compile(pattern)
    steps = [(rule.id, step) for rule in load_packs().by_id.values() for step in rule.do]
    assert not [each for each in steps if found.match(each[1]) or ABSENT.search(each[1])]
