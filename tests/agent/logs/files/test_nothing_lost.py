"""The prefilter leads to every line that a plain search with every pattern finds."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable
from itertools import islice
from pathlib import Path

import pytest

from gpuwatch.agent.logs.lines.normalise import messages
from gpuwatch.agent.logs.lines.splitter import scrubbed
from gpuwatch.agent.logs.matching.prefilter import Prefilter
from gpuwatch.rules.load import load_packs
from tests.bench.log_reading.log_lines import numeric_lines, source_lines, text_lines
from tests.packs import built_in_rules

CORPUS = Path(__file__).parents[5] / "shared" / "corpus"


def lost(lines: Iterable[str]) -> tuple[int, list[tuple[str, str]]]:
    """How many pairs of a line and a rule a plain search finds, and those that the prefilter misses."""
    whole = [part for line in lines for part in line.splitlines() if part.strip()]
    data = scrubbed("\n".join(whole).encode("utf-8", "replace") + b"\n")
    ends, at = {}, 0
    for number, line in enumerate(data.splitlines(keepends=True)):
        ends.update({at: number})
        at += len(line)
    starts = sorted(ends)
    led: set[tuple[int, str]] = set()
    prefilter = Prefilter(built_in_rules())
    prefilter.hits(data)  # the second time it knows the shapes
    index = 0
    for place, phrase in prefilter.hits(data):
        while index + 1 < len(starts) and starts[index + 1] <= place:
            index += 1
        led.update((index, rule.id) for rule in phrase.rules)
    count = 0
    missing = []
    for number, line in enumerate(data.splitlines()):
        texts = [text for text, _ in messages(line)[0]]
        for rule in built_in_rules().rules:
            if any(pattern.search(text) for pattern in rule.match for text in texts):
                count += 1
                if (number, rule.id) not in led:
                    missing.append((rule.id, line.decode("utf-8", "replace")))
    return count, missing


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", ["distributed", "hardware", "progress"])
def test_nothing_of_the_corpus_is_lost(name: str) -> None:
    if not CORPUS.is_dir():
        pytest.skip("the corpus is not beside this checkout")
    rows = [json.loads(line) for line in (CORPUS / f"{name}.jsonl").read_text().splitlines()]
    count, missing = lost(line for row in rows for line in row.get("lines") or [row["line"]])
    assert not missing
    assert count > 100 or name == "progress"


def test_nothing_of_made_lines_is_lost() -> None:
    chance = random.Random(3)
    lines = [line for make in (numeric_lines, text_lines, source_lines) for line in islice(make(chance), 45)]
    examples = [line for rule in load_packs().rules for text in rule.examples for line in text.splitlines()]
    for example in chance.sample(examples, 45):
        words = example.split(" ")
        glued = "".join(chance.choice((" ", " ", "9", "", "_")) + word for word in words)
        lines += [example, f"rank7{example}42", example.upper(), glued, f"[1,3]<stderr>:{example}"]
    chance.shuffle(lines)
    count, missing = lost(lines)
    assert not missing
    assert count > 100
