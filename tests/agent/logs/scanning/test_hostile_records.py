"""No value of a record, and no fault of gpuwatch's over a line, hides what stands there or below."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gpuwatch import wire
from gpuwatch.agent.logs.matching.ruleset import RuleSet
from gpuwatch.agent.logs.scanning.line_findings import LineFindings
from gpuwatch.agent.logs.scanning.scanner import Scanner
from tests.agent.logs.scan_lines import NOW, found, rule, ruleset, scanner
from tests.packs import built_in_rules

OUT_OF_MEMORY = "RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB"
VALUES = ["\u00b2", "9" * 5000, "\u0663", "h" * 5000, "\ud83d", -1, 1e300, True, [1], {"rank": "\u00b2"}]


def sent(finding: dict[str, Any]) -> wire.Finding:
    line = json.dumps({"v": 1, "t": NOW, "seq": 1, "kind": "finding", **finding}).encode()
    frame = wire.decode(line)
    assert isinstance(frame, wire.Finding)
    return frame


@pytest.mark.parametrize("name", ["rank", "local_rank", "hostname", "time", "SYSLOG_IDENTIFIER", "exit_code"])
@pytest.mark.parametrize("value", VALUES)
def test_no_value_of_a_record_hides_its_error(name: str, value: object) -> None:
    record = json.dumps({"level": "ERROR", name: value, "message": f"{OUT_OF_MEMORY} \ud83d"})
    findings = [sent(each) for each in found(built_in_rules(), f"{record}\n{record}\n{OUT_OF_MEMORY}\n")]
    assert "oom.cuda" in {each.rule for each in findings}
    assert all(each.rank in (None, 3) and len(each.host or "") < 300 for each in findings)


@pytest.fixture
def poisoned(monkeypatch: pytest.MonkeyPatch) -> RuleSet:
    take = LineFindings.take

    def fail(self: LineFindings, chunk: Any, span: tuple[int, int], *more: Any) -> int:
        if b"poison" in chunk.clean[slice(*span)]:
            raise ValueError(span)
        return take(self, chunk, span, *more)

    monkeypatch.setattr(LineFindings, "take", fail)
    return ruleset(rule("failed: (?P<what>\\w+)"))


def test_a_fault_over_a_line_costs_this_line_and_is_reported(poisoned: RuleSet) -> None:
    one: Scanner = scanner(poisoned)
    lines = [b"failed: first\n", b"failed: poison\n", b"failed: last\n"]
    findings = [*one.feed(b"".join(lines), 100, NOW), *one.end()]
    assert [each["fields"]["what"] for each in findings] == ["first", "last"]
    assert [failed[:2] for failed in one.take_failed()] == [(114, 128)]
    assert one.take_failed() == []


TAGS = ["[rank1]: ", "1: ", "[1,1]<stdout>:", "(Worker pid=7) ", "gpu-1: [rank1]: ", "[Rank 1] ", "gpu-02: "]


@pytest.mark.parametrize("tag", [*TAGS, "worker-1 | ", "train-1  | ", "[pod/train-1/pytorch] "])
@pytest.mark.parametrize("heading", ["prompt: hello", "Response:", "=== Sample ===", "```", "Observation:"])
def test_a_heading_of_one_rank_hides_no_error_of_another(tag: str, heading: str) -> None:
    """Only a line without a tag can be a part of what another one without a tag begins."""
    log = f"{tag}{heading}\n{tag}some text\n{OUT_OF_MEMORY}\n{tag}```\n{tag}=== end sample ===\n"
    assert "oom.cuda" in {each["rule"] for each in found(built_in_rules(), log)}


@pytest.mark.parametrize("heading", ["prompt: hello", "Response:", "=== Sample ===", "```", "Observation:"])
def test_an_error_that_ends_a_log_is_no_part_of_a_text_that_has_no_end(heading: str) -> None:
    log = f"step 1\n{heading}\n{OUT_OF_MEMORY}\n"
    rules = built_in_rules()
    assert "oom.cuda" in {each["rule"] for each in found(rules, log + "\n")}
    closing = "```\n" if heading == "```" else "=== end sample ===\n"
    assert "oom.cuda" not in {each["rule"] for each in found(rules, f"{log}{closing}step 2\n")}


@pytest.mark.parametrize("before", ["error ", "[rank0]: RuntimeError ", '{"rank": 0, "message": "'])
@pytest.mark.parametrize("length", [100, 4500, 9000, 14_000])
def test_a_long_line_hides_no_error_behind_words_of_another_rule(before: str, length: int) -> None:
    line = f"{before}{'x ' * (length // 2)}{OUT_OF_MEMORY}" + ('"}' if "{" in before else "")
    assert "oom.cuda" in {each["rule"] for each in found(built_in_rules(), f"{line}\n")}


def test_a_phrase_that_is_in_a_long_line_twice_is_looked_at_in_both_places() -> None:
    line = "out of memory?" + " x" * 4000 + " " + OUT_OF_MEMORY
    assert "oom.cuda" in {each["rule"] for each in found(built_in_rules(), f"{line}\n")}


@pytest.mark.parametrize("before", ["", "error ", "first line\n", "[rank0]: error "])
@pytest.mark.parametrize("length", [16_280, 16_340, 16_360, 16_376, 16_383, 16_384, 16_385, 16_400])
def test_an_error_is_found_where_a_long_line_is_cut(before: str, length: int) -> None:
    line = f"{before}{'x' * (length - len(before))} {OUT_OF_MEMORY}"
    assert "oom.cuda" in {each["rule"] for each in found(built_in_rules(), f"{line}\nend\n")}


@pytest.mark.parametrize("unit", ["a@b.c ", "'a' \"b\" ", "\\a \\n ", '{"a": 1} ', "[ ( { "])
@pytest.mark.parametrize("length", [4096, 16_340, 16_390, 20_400, 70_000])
def test_the_beginning_of_a_long_line_is_not_read_as_the_line_above_it(unit: str, length: int) -> None:
    error = "Out of memory error on GPU 1. Cannot allocate 2.250000GB memory on GPU 1, 38.100000GB memory"
    line = f"{(unit * length)[:length]} {error} has been allocated"
    assert "oom.cuda" in {each["rule"] for each in found(built_in_rules(), f"{line}\nnext line\n")}


@pytest.mark.parametrize("length", [300, 3500, 12_250, 33_000])
@pytest.mark.parametrize("field", ["MESSAGE", "PAD"])
def test_a_long_message_that_journald_lists_as_bytes_is_searched(field: str, length: int) -> None:
    padding = "alpha " * (length // 6)
    text = f"{padding}{OUT_OF_MEMORY}" if field == "MESSAGE" else OUT_OF_MEMORY
    record = json.dumps({"_HOSTNAME": "n1", "PAD": padding, "MESSAGE": list(text.encode())})
    for line in (record, f"\x0c{record}\x0c"):
        assert "oom.cuda" in {each["rule"] for each in found(built_in_rules(), f"{line}\n")}


@pytest.mark.parametrize("length", [2000, 3000, 4000])
def test_a_message_is_searched_around_its_own_characters(length: int) -> None:
    """Not around offsets in bytes, or in the record that contains it."""
    message = f"{OUT_OF_MEMORY}{' y' * 3000}"
    padded = json.dumps({"pad": "x" * 2 * length, "level": "ERROR", "message": message})
    escaped = json.dumps({"pad": "x" * 2 * length, "level": "ERROR", "message": f"\u65e5 {message}"})
    for line in (f"{chr(0x65E5) * length} {message}", f"{chr(0x130) * length} {message}", padded, escaped):
        assert "oom.cuda" in {each["rule"] for each in found(built_in_rules(), f"{line}\n")}


@pytest.mark.parametrize("key", ["message", "exc_info"])
def test_the_end_of_a_long_traceback_in_a_record_is_read(key: str) -> None:
    frames = "".join(f'  File "/a/b{each}.py", line {each}, in f\n    g()\n' for each in range(120))
    text = f"Traceback (most recent call last):\n{frames}{OUT_OF_MEMORY}"
    record = json.dumps({"level": "ERROR", "message": "failed", key: text})
    assert "oom.cuda" in {each["rule"] for each in found(built_in_rules(), f"{record}\n")}
