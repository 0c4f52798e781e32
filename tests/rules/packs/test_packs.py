"""Every rule of the built-in packs on its own examples, and all of them on labelled excerpts."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuwatch.rules.load import load_packs
from gpuwatch.rules.scoring.labelled_file import LabelledFile
from gpuwatch.rules.scoring.score import Score, read_excerpts, scan_excerpt, score
from tests.packs import built_in_rules

PACKS = load_packs()
CORPUS = Path(__file__).parents[4] / "shared/corpus"

BAR = " 66%|######    | 2/3 [00:02<00:01,  1.00s/it]"


def copies(rule_id: str, text: str) -> str:
    """The text as often as the rule's flood needs."""
    flood = PACKS.by_id[rule_id].flood
    return "\n".join([text] * (flood.count if flood else 1))


def found(text: str) -> set[object]:
    return {finding["rule"] for finding in scan_excerpt(built_in_rules(), text.rstrip("\n").split("\n"))}


@pytest.mark.parametrize("rule_id", PACKS.by_id)
def test_a_rule_finds_its_examples_and_nothing_of_what_it_must_not(rule_id: str) -> None:
    rule = PACKS.by_id[rule_id]
    for example in rule.examples:
        assert rule_id in found(copies(rule_id, example)), example
    for negative in rule.negatives:
        assert rule_id not in found(copies(rule_id, negative)), negative


@pytest.mark.sampled(40)
@pytest.mark.parametrize("rule_id", PACKS.by_id)
def test_wrapping_does_not_hide_an_example(rule_id: str) -> None:
    """Prefixes of launchers on every line, colours, carriage returns and a bar before it: the class stays."""
    for example in PACKS.by_id[rule_id].examples:
        text = copies(rule_id, example).rstrip("\n")
        lines = text.split("\n")
        for wrapped in (
            "\n".join(f"12: {line}" for line in lines),
            "\n".join(f"2025-06-15T12:00:00.123456789Z {line}" for line in lines),
            "\n".join(f"\x1b[31m{line}\x1b[0m" for line in lines),
            f"{BAR}\r" + "\r\n".join(lines),
        ):
            assert rule_id in found(wrapped), wrapped


@pytest.mark.parametrize("part", [0, *(pytest.param(n, marks=pytest.mark.long) for n in (1, 2, 3))])
def test_no_example_takes_long(part: int) -> None:
    for rule in PACKS.rules[part::4]:
        for example in rule.examples:
            scan_excerpt(built_in_rules(), (example.strip("\n") * 40)[:4096].split("\n"))
    assert built_in_rules().suspended == {}


@pytest.fixture(scope="module")
def scored() -> Score:
    files = [CORPUS / "distributed.jsonl", CORPUS / "hardware.jsonl"]
    if not all(file.exists() for file in files):
        pytest.skip("the labelled excerpts are not here")
    return score(
        built_in_rules(), (excerpt for file in files for excerpt in read_excerpts(LabelledFile.read(file)))
    )


def test_the_packs_reach_their_goals_on_labelled_excerpts(scored: Score) -> None:
    facts = scored.facts()
    assert facts["recall"] >= 0.97, facts["recall"]
    assert facts["class_accuracy"] >= 0.92, facts["class_accuracy"]
    assert facts["false_alarm_rate"] <= 0.02, facts["false_alarm_rate"]


def test_the_rank_that_an_excerpt_names_is_reported(scored: Score) -> None:
    named = [
        (judged.excerpt.rank, [f.get("rank") for f in judged.findings])
        for judged in scored.judged
        if judged.excerpt.rank is not None and judged.class_correct
    ]
    right = [rank in ranks for rank, ranks in named]
    assert sum(right) / len(right) >= 0.9
