"""The prefilter finds exactly what a search of every line finds, whatever it has learned of the log."""

from __future__ import annotations

import json
import random

from gpuwatch.agent.logs.matching.prefilter import Prefilter
from gpuwatch.rules.load import load_packs
from tests.agent.logs.scan_lines import NOW, found, rule, ruleset, scanner
from tests.packs import built_in_rules

WORDS = [
    "loss",
    "step",
    "rank",
    "error",
    "connection",
    "reset",
    "memory",
    "out",
    "of",
    "device",
    "CUDA",
    "worker",
]


def test_words_that_are_common_in_a_log_are_given_up_and_nothing_is_missed() -> None:
    rules = ruleset(
        rule("connection was reset hard", name="a.one"),
        rule("[Dd]evice out of paper reset hard", name="a.two"),
        rule("(?i)worker gave a shout", name="a.three"),
        rule("Frobnication", name="a.four"),
    )
    chance = random.Random(7)
    hits = (
        "connection was reset hard",
        "device out of paper reset hard",
        "WORKER gave a Shout",
        "DeFrobnications",
    )
    lines = []
    for number in range(60_000):
        lines.append(" ".join(chance.choices([*WORDS, "shout", "paper", "hard", "frobnication"], k=8)))
        if number % 6000 == 0:
            lines.extend(f"{number} {hit}" for hit in hits)
    one, data = scanner(rules), "\n".join(lines).encode() + b"\n"
    findings = {}
    for at in range(0, len(data), 100_000):
        findings.update({f["id"]: f for f in one.feed(data[at : at + 100_000], at, NOW)})
    findings.update({f["id"]: f for f in one.end()})
    counts: dict[object, int] = {}
    for finding in findings.values():
        counts[finding["rule"]] = counts.get(finding["rule"], 0) + finding["count"]
    assert counts == dict.fromkeys(("a.one", "a.two", "a.three", "a.four"), 10)


def test_every_example_is_led_to_after_its_words_became_common() -> None:
    packs = load_packs()
    rules = built_in_rules()
    prefilter = Prefilter(rules)
    noise = sorted({phrase.lead for phrase in rules.phrases})
    block = b"\n".join(noise[at] + b" " + noise[-at] for at in range(len(noise))) + b"\n"
    for _ in range(40):
        prefilter.hits(block)
    for each in packs.rules:
        for example in each.examples:
            if each.raised and "Traceback (" in example:
                continue  # the end of a traceback leads to the rule, whatever its words
            led = {rule.id for _, phrase in prefilter.hits(example.encode()) for rule in phrase.rules}
            assert each.id in led, (each.id, example)


def test_a_line_without_the_words_beside_a_literal_is_passed_over() -> None:
    rules = ruleset(rule(r"frobnicator (?:failed|не отвечает|✗)", name="a.one"))
    prefilter = Prefilter(rules)
    for line, hits in (
        ("frobnicator 3 is fine", 0),
        ("frobnicator FAILED", 1),
        ("frobnicator не отвечает", 1),
        (json.dumps({"message": "frobnicator не отвечает"}), 1),
        (json.dumps({"message": "frobnicator ✗"}), 1),
    ):
        assert len(prefilter.hits(line.encode())) == hits, line


def test_what_stands_on_the_edge_of_a_block_is_found() -> None:
    rules = ruleset(rule("the frobnicator seized up"))
    for pad in range(16_370, 16_390):
        text = "x" * (pad // 2) + "\n" + "y" * (pad // 2) + "\n" + "the frobnicator seized up\n"
        assert len(found(rules, text)) == 1
