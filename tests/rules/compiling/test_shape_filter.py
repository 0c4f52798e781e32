"""Patterns tried on shapes leave out no line that a rule matches, and lines that hold a word by chance."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from gpuwatch.agent.logs.matching.prefilter import Prefilter
from gpuwatch.agent.logs.matching.ruleset import RuleSet
from gpuwatch.rules.compiling.ambiguity import MAX_STEPS, MAX_WAYS, checked_tree, estimated_steps
from gpuwatch.rules.compiling.choices import ways
from gpuwatch.rules.compiling.compile import compiled
from gpuwatch.rules.compiling.shape_patterns import has_other_digits, shape_pattern
from gpuwatch.rules.load import load_packs
from gpuwatch.rules.model.rule import Rule
from gpuwatch.runs.prefilter import hyperscan_database, hyperscan_prefilter
from gpuwatch.runs.prefilter.expressions import expression_of
from gpuwatch.runs.prefilter.phrase_patterns import LiteralOwners, patterns_of
from gpuwatch.runs.prefilter.piece_prefilter import PiecePrefilter
from gpuwatch.runs.prefilter.whole_lines import MAX_TRIED, is_tried
from tests.corpus.score import CORPUS

EVERY = 8
"""Of so many examples one is searched in `make test`; together they take seconds."""
NO_EXAMPLE = "INFO [rank5] comm.py:88: all_reduce bucket 0 bytes=4711 took 0.1 ms, errors=0"


@pytest.fixture(scope="module")
def ruleset() -> RuleSet:
    return RuleSet(compiled(load_packs().all))


def led_to(prefilter: Prefilter, data: bytes) -> set[tuple[int, str]]:
    """Line number and rule of each hit."""
    hits = prefilter.hits(data)
    return {(data.count(b"\n", 0, at), rule.id) for at, phrase in hits for rule in phrase.rules}


def examples(start: int, step: int) -> list[tuple[str, str]]:
    """Rule and line of the examples of one line, without JSON, which is not tried by its shapes."""
    rules = [rule for rule in load_packs().rules if isinstance(rule, Rule)]
    every = [
        (rule.id, text)
        for rule in rules
        for text in rule.examples
        if "\n" not in text.strip() and '{"' not in text
    ]
    return every[start::step]


def as_record(text: str) -> str:
    return json.dumps({"rank": 3, "message": text, "level": "INFO"}, ensure_ascii=False)


def as_exception(text: str) -> str:
    return json.dumps({"msg": "worker ended", "labels": {"a": 1}, "error": text})


def of_a_runtime(text: str) -> str:
    return json.dumps({"log": f"{text}\n", "stream": "stderr"})


@pytest.mark.parametrize("form", [str, as_record, as_exception, of_a_runtime])
@pytest.mark.parametrize("start", [0, *(pytest.param(at, marks=pytest.mark.long) for at in range(1, EVERY))])
def test_no_example_of_a_rule_is_left_out(ruleset: RuleSet, start: int, form: Callable[[str], str]) -> None:
    chosen = examples(start, EVERY)
    data = "\n".join(form(text) for _, text in chosen).encode()
    plain, filtered = led_to(Prefilter(ruleset), data), led_to(PiecePrefilter(ruleset), data)
    own = {(number, rule) for number, (rule, _) in enumerate(chosen)}
    assert len(own & plain) > 50
    assert own & plain - filtered == set()
    assert filtered < plain


@pytest.mark.parametrize(
    "record",
    [
        {"msg": "worker ended", "exit_code": 137},
        {"msg": "worker ended", "error": {"type": "CudaError", "message": "out of memory"}},
        {"involvedObject": {"kind": "Pod", "name": "a"}, "reason": "OOMKilling", "message": "memory"},
    ],
)
def test_a_record_of_which_fields_make_one_text_is_not_tried(record: dict[str, Any]) -> None:
    line = json.dumps(record).encode()
    shape = line.translate(None, b"0123456789")
    assert not is_tried(shape, shape.lower())
    plain = json.dumps({"msg": "worker ended", "code": 137, "rank": 3, "local_rank": 1}).encode()
    assert is_tried(plain, plain)


def test_an_ordinary_line_with_the_words_of_rules_is_left_out(ruleset: RuleSet) -> None:
    line = NO_EXAMPLE.encode()
    assert {rule for _, rule in led_to(Prefilter(ruleset), line)} >= {"ckpt.corrupt", "c10d.op_failed"}
    assert not {rule for _, rule in led_to(PiecePrefilter(ruleset), line)} & {
        "ckpt.corrupt",
        "c10d.op_failed",
    }


@pytest.mark.parametrize(
    ("pattern", "line", "found"),
    [
        (r"^err (\d{1,3})x{2,}(?!y)", b"an err xxx", True),
        (r"^err (\d{1,3})x{2,}", b"an err x", False),
        (r"(?i)\bno  room\b", b"No\troom", True),
        (r"caf[e\u00e9]{1,2} (?:on|off)$", "caf\u00e9 off".encode(), True),
        (r"\d ?(?:of|out of|/) ?\d (?:up|left over)\b", b"a  b  c", False),
        (r"\d ?(?:of|out of|/) ?\d (?:up|left over)\b", b" out\tof  left\tover", True),
        (r"(?: a| b c) (?: d|e)", b"\tb\tc\td", True),
        (r"rank 7 (?P<why>.{1,9})?died", b"rank  died", True),
        (r"rank 7 (?P<why>.{1,9})?died", b"rank  lived", False),
        (r"loss: (?:nan| \[nan|=nan)", b"loss:  fine", False),
        (r"loss: (?:nan| \[nan|=nan)", b"loss:\t[nan", True),
        (r"a (?: b ){2}c", b"a\tb\tb\tc", True),
        (r"a (?: b ){2}c", b"a\tb c", False),
        (r"rows (?:\S{1,80} ){0,2}lost", b"rows  lost", True),
        (r"rows \d lost", b"rows lost", False),
        (r"rows \d? lost", b"rows\tlost", True),
        (r"(?:a |b\d) c", b"b c", True),
        (r"(?i)\b(?:asked|allocated)\b", b"MemAllocated=", False),
        (r"(?i)\b(?:asked|allocated)\b", b"Asked.", True),
        (r"\blost\b \d|\b\dlost\b", b"xlost", True),
        (r"\blost\b \d", b"xlost ", False),
    ],
)
def test_a_pattern_for_shapes_finds_what_the_pattern_may_find(pattern: str, line: bytes, found: bool) -> None:
    loosened = shape_pattern(pattern)
    assert loosened is not None
    assert loosened.matches(line) == found


@pytest.mark.parametrize("start", [0, *(pytest.param(at, marks=pytest.mark.long) for at in range(1, EVERY))])
def test_a_pattern_for_shapes_takes_no_more_steps_than_a_rule_may(start: int) -> None:
    known = {text for entry in load_packs().all for text in entry.match}
    loosened = {shape for text in sorted(known)[start::EVERY] if (shape := shape_pattern(text)) is not None}
    costly = {}
    for shape in loosened:
        tree, folded = checked_tree(shape.text.decode())
        steps = estimated_steps(tree, folded=folded, window=MAX_TRIED)
        if steps > MAX_STEPS or ways(tree, folded=folded) > MAX_WAYS:
            costly[shape] = steps
    assert len(loosened) > 100
    assert not costly


def test_shapes_with_digits_and_blanks_beyond_ascii_are_not_tried() -> None:
    every = [chr(code) for code in range(128, 0x11_0000) if not 0xD800 <= code < 0xE000]
    other = re.findall(r"[\d\s]", "".join(every))
    assert len(other) > 600
    assert all(has_other_digits(each.encode()) for each in other)
    assert not any(map(has_other_digits, [b"loss 1", "│ █▉▏ é 学習".encode(), "⚡ 🚀".encode()]))


def test_a_pattern_of_a_look_ahead_alone_leaves_nothing_out() -> None:
    assert shape_pattern(r"^\s*(?=[\w-]{3,60}$)") is None


def test_a_pattern_is_tried_for_its_own_literals_only(ruleset: RuleSet) -> None:
    owners = LiteralOwners(ruleset)
    tried, every = Counter[str](), Counter[str]()
    for phrase in ruleset.phrases:
        every.update({text for _, text in patterns_of(phrase)})
        tried.update({text for _, text, _ in owners.patterns_of(phrase)})
    assert set(tried) == set(every)
    assert tried.total() < 0.5 * every.total()


def test_a_pattern_whose_literal_needs_other_words_for_another_pattern_is_tried_for_any() -> None:
    """`other` leads to the rule with `lamps` only; `orb` leads to the lines of the second pattern."""
    rule = load_packs().rules[0]
    ruled = replace(rule, id="a.rule", match=(r"other lamps", r"other (?:orb|orbs)\b"), literals=("orb",))
    ruleset = RuleSet(compiled([ruled]))
    for line in (b"the other lamps", b"the other orb", b"the other orbs"):
        assert {each for _, each in led_to(PiecePrefilter(ruleset), line)} == {"a.rule"}


@pytest.mark.parametrize(
    ("pattern", "reduced"),
    [
        (
            r"[Ww]orker[\x09\x20][\x00-\x09\x0b-\x2f]*(?:exited|died)[\x09\x20]unexpectedly",
            r"(?:exited|died)[\x09\x20]unexpectedly",
        ),
        (r"\b[Ww]orker\b[\x00-\x2f]*exit[\x20](?:code|status)", r"exit[\x20](?:code|status)"),
        (r"\bcode[\x00-\x2f]*x", r"\bcode[\x00-\x2f]*x"),
        (r"(?:stopped|[a-z_]*halted)", r"(?:stopped|[a-z_]*halted)"),
        (r"one.{0,9}[a-z]{0,30}several\|more|all of them", r"one.*[a-z]*several\|more|all of them"),
        (r"(?:long words[\x20-\x7e]*)?[(]is[)][\x20-\x7e]+shorter \((?:here|)\)", r"shorter \((?:here|)\)"),
    ],
)
def test_an_expression_is_the_longest_text_of_its_pattern(pattern: str, reduced: str) -> None:
    assert expression_of(pattern) == reduced


@pytest.mark.skipif(not hyperscan_database.installed(), reason="the extra hyperscan is not installed")
def test_hyperscan_finds_the_phrases_that_the_words_find(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(hyperscan_prefilter, "MANY_BYTES", 0)
    monkeypatch.setattr(hyperscan_prefilter, "WORTH_BYTES", 0)
    few = RuleSet(compiled(load_packs().all[::12]))
    text = b"\n".join(
        file.read_bytes()[:20_000] for file in sorted((CORPUS / "failures").glob("*/*.log"))[::25]
    )
    assert hyperscan_database.installed()
    for _ in range(2):  # compiled, and loaded from the cache folder
        fast = hyperscan_prefilter.HyperscanPrefilter(few)
        fast.prepare()
        found = led_to(fast, text)
        assert len(fast.databases) == 1
        assert found == led_to(PiecePrefilter(few), text)
        assert found
    assert len(list(tmp_path.glob("gpuwatch/patterns-*.hyperscan"))) == 2  # of patterns, and of phrases


@pytest.mark.long  # databases of all rules: 5 s of CPU time
@pytest.mark.timeout(600)
@pytest.mark.skipif(not hyperscan_database.installed(), reason="the extra hyperscan is not installed")
def test_hyperscan_misses_no_example_of_all_rules(
    ruleset: RuleSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(hyperscan_prefilter, "MANY_BYTES", 0)
    monkeypatch.setattr(hyperscan_prefilter, "WORTH_BYTES", 0)
    fast = hyperscan_prefilter.HyperscanPrefilter(ruleset)
    fast.prepare()
    assert len(fast.databases) > 1
    for form in (str, as_record, as_exception, of_a_runtime):
        data = "\n".join(form(text) for _, text in examples(0, 1)).encode()
        assert led_to(PiecePrefilter(ruleset), data) - led_to(fast, data) == set()
