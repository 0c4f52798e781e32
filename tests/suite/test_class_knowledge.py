"""What the diagnosis knows of a class of failures stands in its pack: nothing compares an alert with a rule.

Modules may raise alerts of a class of their own (`code="rank.killed"`). How an alert is weighed follows from
its kinds, so that a site's own rule can state them.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from gpuwatch.rules.load import load_packs
from gpuwatch.rules.model import rule_ids

CODE = Path(__file__).parents[2] / "gpuwatch"
DIAGNOSE = CODE / "diagnose"
OTHER_NAMES = {
    ("agent/host/system_settings.py", "net."): "settings of the kernel",
    ("diagnose/preflight/checklist.py", "net."): "checks before a job, which have ids of their own",
    ("diagnose/preflight/checklist.py", "env."): "as above",
    ("diagnose/preflight/hardware.py", "gpu."): "as above",
    ("tui/training/screen.py", "rank."): "a metric of a rank",
}
"""File and text -> what the text names, if it looks like a family of rules."""
HOMES = ("rules/model/rule_ids.py", "agent/", "telemetry/", "hosts/kube/events.py")
"""The files with the ids of findings that code makes; those besides the first import no rules."""
MAX_HOMELESS = 0
"""Ids in other files. This number only falls."""
QUOTED = re.compile(r"""["']([a-z0-9_]+(?:\.[a-z0-9_]+)+)["']""")
PREFIX = re.compile(r"""["']([a-z0-9_]+(?:\.[a-z0-9_]+)*\.)["'{]""")


def compared(source: str) -> Iterator[str]:
    """Texts with which an attribute `code` or `rule` is compared, also those in a tuple, set or list."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Compare) and getattr(node.left, "attr", "") in ("code", "rule"):
            for part in node.comparators:
                elements = part.elts if isinstance(part, (ast.Tuple, ast.Set, ast.List)) else [part]
                values = (each.value for each in elements if isinstance(each, ast.Constant))
                yield from (value for value in values if isinstance(value, str))


def test_a_comparison_with_a_rule_is_found() -> None:
    assert list(compared('alert.code == "oom.cuda"')) == ["oom.cuda"]
    assert list(compared('found.rule in ("oom.cuda", "oom.cublas")')) == ["oom.cuda", "oom.cublas"]
    assert list(compared('Alert(code="oom.cuda")')) == []


def test_the_diagnosis_compares_no_alert_with_a_rule() -> None:
    rules = load_packs().by_id.keys()
    found = {
        (str(file.relative_to(DIAGNOSE)), text)
        for file in DIAGNOSE.rglob("*.py")
        for text in compared(file.read_text())
        if text in rules
    }
    assert found == set()


def families() -> set[str]:
    """The beginnings of the ids of all rules, up to each dot."""
    return {rule[: dot.end()] for rule in load_packs().by_id for dot in re.finditer(r"\.", rule)}


def test_a_beginning_of_ids_is_found() -> None:
    assert PREFIX.findall('code.startswith(("gpu.xid.", "num.")), f"slurm.{name}"') == [
        "gpu.xid.",
        "num.",
        "slurm.",
    ]


def test_no_code_judges_by_the_beginning_of_an_id() -> None:
    known = families()
    found = {
        (str(file.relative_to(CODE)), text)
        for file in CODE.rglob("*.py")
        for text in PREFIX.findall(file.read_text())
        if text in known
    }
    assert found == OTHER_NAMES.keys()


def test_ids_of_rules_stand_in_one_place() -> None:
    rules = load_packs().by_id.keys()
    found = [
        (name, text)
        for file in CODE.rglob("*.py")
        if not (name := str(file.relative_to(CODE))).startswith(HOMES)
        for text in QUOTED.findall(file.read_text())
        if text in rules
    ]
    assert len(found) <= MAX_HOMELESS, found


def test_each_named_id_is_one_of_a_rule() -> None:
    named = {value for name, value in vars(rule_ids).items() if name.isupper()}
    assert named <= load_packs().by_id.keys()
