"""The scanner on the oldest and the newest Python that a node may have."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from gpuwatch.rules.compiling.compile import compiled
from gpuwatch.rules.load import load_packs
from tests.agent.pythons import interpreter

AGENT = Path(__file__).parents[4] / "gpuwatch"
LOOP = """
import itertools, json, sys
sys.path.insert(0, sys.argv[1])
from agent.logs.matching.ruleset import RuleSet
from agent.logs.scanning.scanner import Scanner
rules, examples = json.load(sys.stdin)
ruleset = RuleSet(rules)
found = []
for example in examples:
    scanner = Scanner(ruleset, "a.log", itertools.count(1).__next__)
"""
SCRIPT = (
    LOOP
    + """
    data = example.encode("utf-8") + b"\\n"
    findings = scanner.feed(data, 0, 1.75e9) + scanner.end()
    found.append(sorted((f["rule"], f["offset"], json.dumps(f["fields"], sort_keys=True)) for f in findings))
print(json.dumps(found))
"""
)


@pytest.mark.parametrize(
    ("version", "step"), [("3.6", 8), *(pytest.param(v, 1, marks=pytest.mark.long) for v in ("3.6", "3.13"))]
)
def test_examples_give_the_same_on(version: str, step: int) -> None:
    packs = load_packs()
    examples = [text.rstrip("\n") for rule in packs.rules for text in rule.examples][::step]
    asked = json.dumps([compiled(packs.rules), examples])
    stated = [
        subprocess.run(
            [python, "-c", SCRIPT, str(AGENT)], input=asked, capture_output=True, text=True, check=True
        ).stdout
        for python in (interpreter(version), interpreter("3.11"))
    ]
    assert json.loads(stated[0]) == json.loads(stated[1])
    assert all(json.loads(stated[0])[:1])


PROGRESS = (
    LOOP
    + """
    scanner.feed(example.encode("utf-8") + b"\\n", 0, 1.75e9)
    scanner.end()
    found.append([sorted(frame["fields"].items()) for frame in scanner.progress()])
print(json.dumps(found))
"""
)


@pytest.mark.parametrize("version", ["3.6", pytest.param("3.13", marks=pytest.mark.long)])
def test_every_progress_line_gives_the_same_on(version: str) -> None:
    dialects = load_packs().dialects
    examples = [example.line for dialect in dialects for example in dialect.examples]
    asked = json.dumps([compiled(dialects), examples])
    stated = [
        subprocess.run(
            [python, "-c", PROGRESS, str(AGENT)], input=asked, capture_output=True, text=True, check=True
        ).stdout
        for python in (interpreter(version), interpreter("3.11"))
    ]
    assert json.loads(stated[0]) == json.loads(stated[1])
    assert all(json.loads(stated[0])[:1])
