"""A JSON record is searched as its short form is, however long it is and however it is fed."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest

from gpuwatch.agent.logs.scanning.scanner import Scanner
from gpuwatch.rules.load import load_packs
from tests.agent.logs.scan_lines import NOW
from tests.packs import built_in_rules

OUT_OF_MEMORY = "RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB"
BOUND = ["rank.killed", "batch.job_held", "oom.host.cgroup"]
"""Rules that need the beginning of a message, or a character that JSON escapes."""
LENGTHS = [5_000, 17_000, 70_000, 300_000]
FEEDS = [4096, 1 << 16, 1 << 19]


def rules_in(data: str, feed: int) -> set[str]:
    one = Scanner(built_in_rules(), "/logs/a.log", itertools.count(1).__next__)
    raw, found = data.encode(), []
    for at in range(0, len(raw), feed):
        found += one.feed(raw[at : at + feed], at, NOW)
    found += one.end()
    assert one.take_failed() == []
    return {each["rule"] for each in found}


def padded(message: str, place: str, text: str) -> dict[str, Any]:
    fields = {"level": "ERROR", "message": message}
    if place == "message":
        return {**fields, "message": f"{text}\n{message}"}
    return {"pad": text, **fields} if place == "before" else {**fields, "pad": text}


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("place", ["before", "behind", "message"])
def test_a_rule_that_needs_the_message_itself_finds_it_in_a_long_record(place: str, length: int) -> None:
    rules = {rule.id: rule.examples[0] for rule in load_packs().rules if rule.id in BOUND}
    for number, (name, example) in enumerate(rules.items()):
        unit = ["alpha beta ", '{"a": "b"} ', "\u65e5\u672c \\ "][number]
        record = padded(example, place, unit * (length // len(unit)))
        assert name in rules_in(json.dumps(record) + "\nnext line\n", FEEDS[number])
        outer = {"log": json.dumps(record) + "\n", "stream": "stderr"}
        assert name in rules_in(json.dumps(outer) + "\n", FEEDS[number - 1])


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("place", ["before", "behind"])
def test_the_level_of_a_long_record_is_read(place: str, length: int) -> None:
    record = padded("the frobnicator has come loose", place, "alpha " * (length // 6))
    assert "rank.error_unexplained" in rules_in(json.dumps(record) + "\n", 1 << 16)
    level_last = {"message": record["message"], "pad": record["pad"], "level": "ERROR"}
    assert "rank.error_unexplained" in rules_in(json.dumps(level_last) + "\n", 1 << 16)
    info = json.dumps({**record, "level": "INFO"})
    assert "rank.error_unexplained" not in rules_in(info + "\n", 1 << 16)


@pytest.mark.parametrize("lines", [300, 2000])
def test_a_line_in_the_midst_of_a_long_message_is_read(lines: int) -> None:
    text = [f"this is line {number}" for number in range(lines)]
    text[lines // 2] = OUT_OF_MEMORY
    record = json.dumps({"level": "ERROR", "message": "\n".join(text)})
    assert "oom.cuda" in rules_in(f"{record}\n", 1 << 19)


@pytest.mark.parametrize("as_list", [False, True])
def test_a_line_in_the_midst_of_many_short_ones_is_read(as_list: bool) -> None:
    """200 lines of one character need 600 bytes."""
    text = [*["a"] * 200, OUT_OF_MEMORY, *["a"] * 200]
    record = (
        {"level": "ERROR", "message": "failed", "exception": text}
        if as_list
        else {"log": "\n".join(text), "stream": "stderr"}
    )
    assert "oom.cuda" in rules_in(f"{json.dumps(record)}\n", 1 << 19)


@pytest.mark.parametrize("name", ["stderr", "text", "data", "message", "@message", "exc", "error.message"])
def test_a_list_of_lines_is_the_message_of_a_record_with_a_level(name: str) -> None:
    record = {"level": "ERROR", "time": "2026-03-04T00:00:00Z", name: ["first", OUT_OF_MEMORY]}
    assert "oom.cuda" in rules_in(f"{json.dumps(record)}\n", 1 << 19)
    assert rules_in(json.dumps({**record, "level": 3, name: [1, 2]}) + "\n", 1 << 19) == set()


def test_the_message_of_a_deep_record_is_read() -> None:
    record: dict[str, Any] = {"message": OUT_OF_MEMORY}
    for _ in range(60):
        record = {"body": record}
    assert "oom.cuda" in rules_in(f"{json.dumps(record)}\n", 1 << 19)


@pytest.mark.parametrize(("lines", "is_partly"), [(900, False), (1500, True)])
def test_a_record_with_too_many_lines_to_search_is_named(lines: int, is_partly: bool) -> None:
    record = json.dumps({"level": "INFO", "message": "\n".join(["CUDA out of memory x"] * lines)}) + "\n"
    one = Scanner(built_in_rules(), "/logs/a.log", itertools.count(1).__next__)
    one.feed(b"first\n" + record.encode(), 0, NOW)
    assert one.take_partly_searched() == [(6, 5 + len(record))] * is_partly
    assert one.take_partly_searched() == []


@pytest.mark.parametrize("length", [13_000, 20_000, 60_000, 200_000])
@pytest.mark.parametrize("feed", FEEDS)
def test_a_message_that_journald_lists_as_bytes_is_searched_where_it_is_cut(length: int, feed: int) -> None:
    for more in (0, 37):
        text = f"{'alpha ' * (length // 6)}{'b' * more} {OUT_OF_MEMORY}"
        record = json.dumps({"_HOSTNAME": "n1", "MESSAGE": list(text.encode()), "PRIORITY": "3"})
        assert "oom.cuda" in rules_in(f"{record}\n", feed)


@pytest.mark.parametrize("length", [17_000, 40_000, 150_000])
def test_an_error_between_two_decoys_of_its_phrase_is_found_in_a_long_line(length: int) -> None:
    padding = "alpha beta " * (length // 11)
    for decoy in ("out of memory?", "CUDA out of memory is handled below"):
        line = f"{decoy} {padding}{OUT_OF_MEMORY} {padding}{decoy}"
        assert "oom.cuda" in rules_in(f"{line}\n", 1 << 19)


def test_data_of_a_long_record_is_no_message() -> None:
    for length in LENGTHS:
        record = {
            "prompt": f"{'alpha ' * (length // 6)} {OUT_OF_MEMORY}",
            "level": "INFO",
            "message": "sample",
        }
        assert rules_in(json.dumps(record) + "\n", 1 << 16) == set()
