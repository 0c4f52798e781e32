"""What the diagnosis knows of a class of failures stands in its pack: nothing decides by the id of a rule.

Modules may raise alerts of a class of their own (`code="rank.killed"`). How an alert is weighed follows from
its kinds, so that a site's own rule can state them.
"""

from __future__ import annotations

import re
from pathlib import Path

from gpuwatch.rules.load import load_packs
from gpuwatch.rules.model import rule_ids
from tests.suite.rule_ids.judged_ids import QUOTED, judged_ids

CODE = Path(__file__).parents[3] / "gpuwatch"
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
PREFIX = re.compile(r"""["']([a-z0-9_]+(?:\.[a-z0-9_]+)*\.)["'{]""")


OWN_CODES = {"telemetry/session/counts.py": "classes of the warnings of the telemetry library itself"}
"""File -> what the ids are by which it decides: codes that gpuwatch makes there, of no alert of a rule."""


def test_a_decision_by_a_rule_is_found_through_imports_and_collections() -> None:
    rules = frozenset(("oom.cuda", "oom.cublas", "rank.killed"))
    sources = {
        "p/ids.py": 'A, B = "oom.cuda", "oom.cublas"\nFREE = "other.text"',
        "p/again.py": "from p import ids\nKILL = 'rank.killed'\nBOTH = frozenset((ids.A, KILL))",
        "p/deep/use.py": "from ..again import BOTH as OF\nfrom p.ids import FREE\na.code in OF or c == FREE",
        "p/made.py": "from p.ids import A, B\nx = Alert(code=A) if y is None else packs.get(B)",
        "p/keys.py": "from p.ids import B\ndef f(c):\n  return {B: 'a title'}[c], OF.has(B, c), OF | {B}",
    }
    found = sorted((file, *sorted(ids)) for file, _, ids in judged_ids(sources, rules))
    assert found == [
        ("p/again.py", "oom.cuda", "rank.killed"),
        ("p/deep/use.py", "oom.cuda", "rank.killed"),
        *[("p/keys.py", "oom.cublas")] * 4,
    ]


def test_no_code_judges_by_the_id_of_a_rule() -> None:
    sources = {f"gpuwatch/{file.relative_to(CODE)}": file.read_text() for file in CODE.rglob("*.py")}
    found = judged_ids(sources, frozenset(load_packs().by_id))
    assert {file.removeprefix("gpuwatch/"): ids for file, _, ids in found}.keys() == OWN_CODES.keys(), found


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
