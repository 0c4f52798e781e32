"""Lines whose rules need a line above that is nowhere are not searched, and no finding is lost by that."""

from __future__ import annotations

import itertools
import random
from typing import Any

import pytest

from gpuwatch.agent.logs.matching.candidate import CandidateLine
from gpuwatch.agent.logs.matching.chunk import Chunk
from gpuwatch.agent.logs.matching.ruleset import RuleSet
from gpuwatch.agent.logs.scanning import line_findings
from gpuwatch.agent.logs.scanning.scanner import Scanner
from gpuwatch.rules.compiling.compile import compiled
from gpuwatch.rules.load import load_packs
from tests.agent.logs.scan_lines import NOW

HEAD = "Traceback (most recent call last):"
LINES = [
    HEAD, '  File "a.py", line 3, in f', "    x = g(1)", "ValueError: shard 3", "KeyError: 'mask'",
    "2025-06-01 10:00:00 ERROR ValueError: bad", "x> KeyError: 'b'", "step 3 loss 2.5", "except OSError:",
    "{\"msg\": \"\\u0054raceback (most recent call last):\"}", "Trace\x01back (most recent call last):",
    "[rank3]: " + HEAD, "[rank3]: ValueError: y", "[default0]:[rank0]: ValueError: z", "shm_open failed",
    "FileExistsError: [Errno 17] File exists: '/psm_1a2b'", "        Aggregate",
    "            DRAM Uncorrectable : 3", "training died in worker 5 (pid=9): ValueError: c",
    "training died in process 5 (pid=9): ValueError: c",
]  # fmt: skip


@pytest.fixture(scope="module")
def rules() -> RuleSet:
    return RuleSet(
        compiled([rule for rule in load_packs().rules if rule.after or rule.id.startswith("rank.")])
    )


def found_in(rules: RuleSet, text: str, piece: int) -> list[dict[str, Any]]:
    one, data = Scanner(rules, "a.log", itertools.count(1).__next__), text.encode()
    found = [
        row
        for at in range(0, len(data), piece)
        for row in one.feed(data[at : at + piece], at, NOW, backlog=True)
    ]
    return found + one.end()


@pytest.mark.parametrize("seed", range(6))
def test_the_findings_are_those_of_searching_every_line(
    rules: RuleSet, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(seed)
    weights = [chance.choice((0, 1, 4)) for _ in LINES]
    weights[3] = 3
    text = "\n".join(chance.choices(LINES, weights, k=150)) + "\n"
    fast = found_in(rules, text, 1500)
    monkeypatch.setattr(Chunk, "may_hold", lambda *_: True)
    assert fast == found_in(rules, text, 1500)
    assert fast


def test_exceptions_that_no_traceback_precedes_are_not_searched(
    rules: RuleSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    searched = []

    class Counted(CandidateLine):
        def __init__(self, *args: Any) -> None:
            searched.append(args[1])
            super().__init__(*args)

    monkeypatch.setattr(line_findings, "CandidateLine", Counted)
    text = "".join(f"{'x' * n} except ValueError(a):\n" for n in range(200))
    assert found_in(rules, text, len(text)) == []
    assert searched == []
    (found,) = found_in(rules, f'{text}{HEAD}\n  File "a.py", line 3, in f\nValueError: b\n', len(text) + 80)
    assert found["rule"] == "python.exception"
    assert len(searched) < 5
