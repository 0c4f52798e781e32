"""Every dialect on its own examples, and all of them on labelled lines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from msgspec import structs

from gpuwatch.agent.logs.matching.ruleset import RuleSet
from gpuwatch.rules.built_in import built_in_packs
from gpuwatch.rules.compiling.compile import compiled
from gpuwatch.rules.load import load_packs
from gpuwatch.rules.model.dialect import Dialect, Example
from gpuwatch.rules.scoring.labelled_file import LabelledFile
from gpuwatch.rules.scoring.score_progress import read_labelled, read_line, same, score_progress
from tests.packs import rules_and_dialects

PACKS = load_packs()
BY_ID = {dialect.id: dialect for dialect in PACKS.dialects}
PACK_OF = {
    entry["id"]: file.name
    for file in built_in_packs()
    if file.parent.name == "progress"
    for entry in yaml.safe_load(file.read_text(encoding="utf-8"))
}
"""Dialect -> the file of its pack."""
CORPUS = Path(__file__).parents[4] / "shared/corpus/progress.jsonl"
EXAMPLES = [(dialect.id, example) for dialect in PACKS.dialects for example in dialect.examples]


def alone(dialect: Dialect) -> RuleSet:
    """This dialect, with those whose words it shares, which read no line."""
    chain = {dialect.id: dialect}
    while dialect.like not in chain:
        dialect = BY_ID[dialect.like]
        chain[dialect.id] = structs.replace(dialect, match=("no such line",))
    return RuleSet(compiled(chain.values()))


def wrong(example: Example, given: dict[str, Any]) -> dict[str, tuple[object, object]]:
    """Fields that differ: name -> (given, wanted)."""
    given = dict(given)
    timers = given.pop("phases_s", {})
    names = set(given) | set(example.gives)
    return {
        **{
            name: (given.get(name), example.gives.get(name))
            for name in names
            if name not in given
            or name not in example.gives
            or not same(name, given[name], example.gives[name])
        },
        **{
            name: (timers.get(name), example.phases_s.get(name))
            for name in set(timers) | set(example.phases_s)
            if not same(name, timers.get(name), example.phases_s.get(name))
        },
    }


@pytest.mark.parametrize(
    ("name", "example"), EXAMPLES, ids=[f"{name}-{i}" for i, (name, _) in enumerate(EXAMPLES)]
)
def test_a_dialect_reads_every_field_of_its_examples_and_no_other(name: str, example: Example) -> None:
    assert wrong(example, read_line(rules_and_dialects(), example.line)) == {}
    assert wrong(example, read_line(alone(BY_ID[name]), example.line)) == {}


@pytest.mark.parametrize("name", [name for name, dialect in BY_ID.items() if dialect.negatives])
def test_what_a_dialect_must_not_read_gives_nothing(name: str) -> None:
    for line in BY_ID[name].negatives:
        given = read_line(rules_and_dialects(), line)
        assert not set(given) - {"rank"}, line


@pytest.mark.parametrize(
    "head",
    [
        "worker-1  | ",
        "gpu01:3: ",
        "[node-3:0]: ",
        "[STDERR] ",
        "finetune/0 ",
        "rank0[123][MainThread]: INFO: root: ",
        "2031-01-02 03:04:05,123 - INFO - ",
        "I0102 03:04:05.123456 140 train.py:10] ",
    ],
)
def test_a_bar_is_found_behind_the_heads_of_launchers_containers_and_loggers(head: str) -> None:
    given = read_line(rules_and_dialects(), f"{head} 25%|##5       | 30/120 [01:00<03:00,  2.00s/it]")
    assert (given["step"], given["total_steps"], given["eta_s"], given["step_time_s"]) == (30, 120, 180, 2)
    assert not read_line(
        rules_and_dialects(), f"{head}Evaluating:  25%|##5       | 30/120 [01:00<03:00,  2.00s/it]"
    )


@pytest.mark.sampled(60)
@pytest.mark.parametrize(
    "example", [each for _, each in EXAMPLES], ids=[f"{name}-{i}" for i, (name, _) in enumerate(EXAMPLES)]
)
def test_prefixes_and_colours_hide_nothing(example: Example) -> None:
    for line in (
        f"[rank3]:{example.line}",
        f"\x1b[32m{example.line}\x1b[0m",
        f"2031-01-02T03:04:05.006Z {example.line}",
    ):
        differs = wrong(example, read_line(rules_and_dialects(), line))
        differs.pop("rank", None)
        assert differs == {}, line


def test_the_dialects_reach_their_goals_on_labelled_lines() -> None:
    if not CORPUS.exists():
        pytest.skip("the labelled lines are not here")
    facts = score_progress(rules_and_dialects(), read_labelled(LabelledFile.read(CORPUS))).facts()
    assert facts["field_recall"] >= 0.95, facts["field_recall"]
    assert facts["field_precision"] >= 0.98, facts["field_precision"]


@pytest.mark.parametrize("part", [0, *(pytest.param(n, marks=pytest.mark.long) for n in (1, 2, 3))])
def test_no_example_takes_long(part: int) -> None:
    for _, example in EXAMPLES[part::4]:
        read_line(rules_and_dialects(), (example.line * 40)[:8192])
    assert rules_and_dialects().suspended == {}


GENERIC = ("progress_bars.yaml", "progress_shared.yaml")
"""Packs of readers of forms that many programs write."""
WITHOUT_LOG = 16
"""Dialects of a framework that name the program that prints their lines, but no log; it may only fall."""


def test_dialects_of_frameworks_name_a_real_log_or_the_program_that_prints_it() -> None:
    framework = [BY_ID[name] for name, pack in PACK_OF.items() if pack not in GENERIC]
    assert not [each.id for each in framework if not each.links and not each.sources]
    assert len([each.id for each in framework if not each.links]) <= WITHOUT_LOG
    addresses = [address for each in PACKS.dialects for address in (*each.links, *each.sources)]
    assert not [address for address in addresses if not address.startswith("https://")]
