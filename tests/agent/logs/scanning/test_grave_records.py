"""A JSON record that states an error is found wherever its texts are, and however it spells its level."""

from __future__ import annotations

import json

import pytest

from tests.agent.logs.scanning.each_prefilter import ERROR, prefilters, rules_in

LOST = "the frobnicator lost its handle"
FULL = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
TIME = "2026-11-20T10:00:40"
GRAVE = [
    ("level", "ERROR"), ("level", "E"), ("level", "SEVERE"), ("level", 50), ("level", "40"), ("level", 60),
    ("status", "error"), ("@l", "Fatal"), ("priority", "CRITICAL"), ("log.level", "error"), ("log.level", 50),
    ("levelno", 40), ("levelno", "50"), ("lvl", "err"), ("lvl", 50), ("severity", "alert"), ("severity", 17),
    ("severityNumber", 21), ("severity", 500), ("level_number", 40), ("level", {"name": "ERROR", "no": 40}),
]  # fmt: skip
MILD = [
    ("level", "INFO"), ("level", 30), ("level", 40), ("levelno", 30), ("status", 500), ("priority", 50),
    ("severity", 9), ("severityNumber", 13), ("status", "ok"), ("priority", "E2"), ("level", 5),
]  # fmt: skip


def in_forms(text: str) -> list[object]:
    return [text, [[text]], {"a": {"b": text}}, [{"lines": ["x", text]}], json.dumps({"m": {"n": text}})]


def found(record: object, separators: tuple[str, str] | None = None) -> list[set[str]]:
    line = json.dumps(record, separators=separators).encode() + b"\n"
    return [rules_in(line, prefilter) for prefilter in prefilters()]


@pytest.mark.parametrize(("name", "level"), GRAVE)
def test_each_spelling_of_a_grave_level_is_an_error(name: str, level: object) -> None:
    records = [
        {name: level, "time": TIME, "details": {"cause": LOST}},
        {"time": TIME, "msg": LOST, name: level},
        {"log": json.dumps({name: level, "message": LOST}) + "\n", "stream": "stderr"},
    ]
    for record, separators in zip(records, (None, (",", ":"), None), strict=True):
        assert all(ERROR in rules for rules in found(record, separators)), record


@pytest.mark.parametrize(("name", "level"), MILD)
def test_other_levels_and_numbers_are_no_errors(name: str, level: object) -> None:
    for record in ({name: level, "time": TIME, "details": {"cause": LOST}}, {"msg": LOST, name: level}):
        assert not any(ERROR in rules for rules in found(record)), record


@pytest.mark.parametrize("key", ["error", "exc", "details", "", "x.y", "message", "rank"])
def test_the_texts_of_an_error_are_searched_at_any_depth(key: str) -> None:
    for form in in_forms(FULL):
        level = "WARNING" if isinstance(form, str) else "ERROR"
        assert all("oom.cuda" in rules for rules in found({"level": level, key: form, "time": TIME})), form
    assert all(ERROR in rules for rules in found({"level": "FATAL", key: list(LOST.encode()), "time": TIME}))
    assert all(ERROR in rules for rules in found({"level": "FATAL", key: {"code": [7]}, "time": TIME}))


@pytest.mark.parametrize(
    "record",
    [
        {"severity": "critical", "prompt": LOST, "completion": "CUDA out of memory"},
        {"level": "INFO", "time": TIME, "config": {"level": "ERROR", "text": FULL}},
        {"level": "INFO", "time": TIME, "msg": "set up", "logging": {"level": "error"}},
        {"level": "E", "prompt": FULL},
        {"name": "E", "status": 50, "details": {"text": FULL}},
    ],
)
def test_data_and_settings_are_no_errors(record: object) -> None:
    assert not any(rules & {ERROR, "oom.cuda"} for rules in found(record))


def test_a_record_of_deep_or_many_values_is_an_error_and_ends() -> None:
    deep: object = LOST
    for _ in range(500):
        deep = [deep]
    for value in (deep, [[LOST]] * 2_000, list(range(2_000)), {str(n): {} for n in range(2_000)}):
        assert all(ERROR in rules for rules in found({"level": "ERROR", "time": TIME, "a": value}))
