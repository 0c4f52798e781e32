"""Reading packs: what is wrong is reported with file, line, column and remedy."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from gpuwatch.rules.built_in import built_in_packs
from gpuwatch.rules.load import load_packs, with_class
from gpuwatch.rules.model.errors import RulesError
from gpuwatch.rules.model.rule import Rule
from gpuwatch.rules.model.xid_codes import with_codes
from gpuwatch.rules.parsing.parse import parse_pack, read_packs
from tests.agent.logs.scan_lines import rule
from tests.sentences import Sentences

GOOD = rule("the frobnicator seized up", name="my.frobnicator")


def problems(text: str) -> list[str]:
    with pytest.raises(RulesError) as caught:
        parse_pack(text, "my.yaml")
    return list(caught.value.problems)


def test_a_pack_is_a_list_or_a_mapping_with_rules() -> None:
    indented = "rules:\n" + "".join(f"  {line}\n" for line in GOOD.splitlines())
    assert [each.id for each, _ in parse_pack(GOOD, "a")] == ["my.frobnicator"]
    assert [each.id for each, _ in parse_pack(indented, "a")] == ["my.frobnicator"]


MATCH = "'the frobnicator seized up'"
MISTAKES = [
    ("severity: error", "severity: bad", "2:13", "'severity' must be info or warning"),
    ("title: t", "title: t\n  blok: 3", "4:3", "unknown key 'blok', did you mean 'block'?"),
    ("  explain: e\n", "", "1:3", "a rule needs the key 'explain'"),
    (
        MATCH,
        "'the (frobnicator'",
        "7:15",
        "'match' is refused: not a regular expression: missing ), unterminated subpattern at character 5",
    ),
    (MATCH, "'[a-z]+ \\d+'", "7:10", "no word of three letters"),
    (MATCH, "'seized (?:a+)+'", "7:10", "'match' is refused: a repeated group"),
    ("do: [d]", "do: [a, b, c, d]", "5:7", "4 steps in 'do'"),
    ("do: [d]", "do: [d]\n  kinds: [colective_timeout]", "6:11", "collective_timeout"),
    ("do: [d]", "do: [d]\n  explains: [Rank Killed]", "6:14", "'explains'"),
    ("do: [d]", "do: [a: b]", "5:8", "not a mapping; text with ': ' in it needs quotes"),
]


@pytest.mark.parametrize(("old", "new", "at", "stated"), MISTAKES)
def test_a_mistake_is_reported_with_its_place_and_rule(old: str, new: str, at: str, stated: str) -> None:
    assert old in GOOD
    problem = "\n".join(problems(GOOD.replace(old, new)))
    assert problem.startswith(f"my.yaml:{at}: rule my.frobnicator: ")
    assert stated in problem


def test_all_mistakes_come_at_once_in_order() -> None:
    first = GOOD.replace("severity: error", "severity: bad")
    second = rule("(", name="my.other")
    assert [each.split(": ")[1] for each in problems(first + second)] == [
        "rule my.frobnicator",
        "rule my.other",
    ]


def test_an_id_given_twice_is_refused_across_files_too(tmp_path: Path, sentences: Sentences) -> None:
    one, two = tmp_path / "one.yaml", tmp_path / "two.yaml"
    one.write_text(GOOD)
    two.write_text("\n" + GOOD)
    with pytest.raises(RulesError) as caught:
        load_packs([one, two])
    sentences(caught.value.problems)


def test_a_users_rule_replaces_a_built_in_one(tmp_path: Path, sentences: Sentences) -> None:
    built_in = load_packs()
    known = next(iter(built_in.by_id))
    pack = tmp_path / "mine.yaml"
    pack.write_text(rule("the frobnicator seized up", name=known) + GOOD)
    packs = load_packs([pack])
    sentences(packs.by_id[known].match)
    assert packs.packs[known] == str(pack)
    assert len(packs.rules) == len(built_in.rules) + 1
    assert load_packs().by_id[known] == built_in.by_id[known]


@pytest.mark.parametrize("content", [None, b"\xff\xfe", b"- {", b"", b"rules: 5"])
def test_what_is_no_pack_is_refused(content: bytes | None, tmp_path: Path) -> None:
    pack = tmp_path / "mine.yaml"
    if content is not None:
        pack.write_bytes(content)
    with pytest.raises(RulesError, match=r"mine\.yaml"):
        load_packs([pack])


@pytest.mark.parametrize(
    "pattern",
    [
        r"word (?:a+)+$",
        r"word (?:a*)*b",
        r"word (?:\w+\s?)+:",
        r"word (?:x|x)*y",
        r"word (?:aa|a)+c",
        r"word (?:(?:a|b)+)+c",
        r"word (?:.*,)+x",
        r"word (?:\d+\.?){5,}x",
    ],
)
def test_a_pattern_that_can_blow_up_is_refused(pattern: str, sentences: Sentences) -> None:
    sentences(problems(rule(pattern))[0])


@pytest.mark.parametrize(
    "pattern",
    [
        r"word (?:\w+\s)+:",
        r"word (?:foo|far|bar)+c",
        r"word \[(?:\d+, )*\d+\]",
        r"word .*? after .*",
        r"word (?:[^,]+,){2,}x",
        r"word (?:(?:\d+)\.)+x",
        r"word (?:a|b)*c",
        r"word (?:\w|\d)+:",
        r"word (?:ab|a\w)+c",
    ],
)
def test_a_pattern_that_cannot_is_taken(pattern: str) -> None:
    assert parse_pack(rule(pattern), "a")


FAMILIES = """\
families:
  my: [hardware, catchable]
rules:
"""


@pytest.mark.parametrize(
    ("wrong", "right", "at", "reason"),
    [
        ("hardware", "hardwear", "2:8", "did you mean 'hardware'?"),
        ("  my:", "  mine:", "2:3", "no rule of this pack is of the family 'mine'"),
        ("  my:", "  My:", "2:3", "'My' is not a family, the id before a dot"),
        ("[hardware, catchable]", "[]", "2:7", "must be a kind or a list of kinds, not an empty list"),
        ("families", "familys", "1:1", "did you mean 'families'?"),
    ],
)
def test_a_mistake_in_families_is_reported_with_its_place(
    wrong: str, right: str, at: str, reason: str
) -> None:
    ((good, _),) = parse_pack(FAMILIES + GOOD, "a")
    assert isinstance(good, Rule)
    assert good.kinds == ("hardware", "catchable")
    first = problems((FAMILIES + GOOD).replace(wrong, right, 1))[0]
    assert first.startswith(f"my.yaml:{at}:")
    assert reason in first


def test_patterns_of_newer_pythons_are_refused() -> None:
    """Those before 3.11 cannot read it themselves."""
    reason = "3.6" if sys.version_info >= (3, 11) else "regular expression"
    assert reason in problems(rule("word (?>a+)b"))[0]


def test_built_in_packs_are_without_mistakes_and_read_the_fast_way_as_the_checked_one() -> None:
    by_id, files = read_packs(built_in_packs())
    packs = load_packs()
    checked = {
        name: with_codes(with_class(each)) if isinstance(each, Rule) else each for name, each in by_id.items()
    }
    assert {each.id: each for each in packs.all} == checked
    assert packs.packs == files


DIALECT = """\
- kind: progress
  id: my.trainer
  title: t
  words: {frob rate: samples_per_s}
  match: 'frobnicated (?P<step>\\d+)'
  examples:
    - line: 'frobnicated 5, frob rate: 2'
      gives: {step: 5, samples_per_s: 2}
"""
DIALECT_MISTAKES = [
    ("samples_per_s}", "samples_per_sec}", "4:22", "did you mean 'samples_per_s'?"),
    ("?P<step>", "?P<stepp>", "5:10", "the group 'stepp' is not a quantity, did you mean 'step'?"),
    ("  title: t\n", "", "1:3", "a dialect needs the key 'title'"),
    ("  title: t\n", "  title: t\n  severity: error\n", "4:3", "unknown key 'severity'"),
    ("  title: t\n", "  title: t\n  like: progress.comon\n", "4:9", "did you mean 'progress.common'?"),
    ("kind: progress", "kind: progres", "1:9", "'kind' must be progress, not 'progres', did you mean"),
    ("'frobnicated (?P<step>\\d+)'", "'(?P<step>\\d+)'", "5:10", "no word of three letters"),
    ("line: ", "lines: ", "7:7", "unknown key 'lines', did you mean 'line'?"),
]


def test_a_dialect_of_ones_own_is_tried_before_the_built_in_ones(tmp_path: Path) -> None:
    pack = tmp_path / "mine.yaml"
    pack.write_text(DIALECT)
    packs = load_packs([pack])
    assert packs.dialects[0].id == "my.trainer"
    assert packs.dialects[1:] == load_packs().dialects
    assert packs.packs["my.trainer"] == str(pack)


@pytest.mark.parametrize(("old", "new", "at", "stated"), DIALECT_MISTAKES)
def test_a_mistake_in_a_dialect_is_reported_with_its_place(old: str, new: str, at: str, stated: str) -> None:
    assert old in DIALECT
    problem = "\n".join(problems(DIALECT.replace(old, new)))
    assert f"my.yaml:{at}: rule my.trainer: " in problem
    assert stated in problem
