"""The exception at the end of a Python traceback is found whatever its name is."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gpuwatch.agent.logs.scanning.scanner import Scanner
from tests.packs import built_in_rules

HEAD = "Traceback (most recent call last):"
FRAMES = f'{HEAD}\n  File "/a/t.py", line 4, in <module>\n    raise it\n'
NAMES = [
    "Exception: worker gone", "Exception", "_queue.Empty", "queue.Empty", "bdb.BdbQuit", "StopIteration",
    "subprocess.TimeoutExpired: Command 'x' timed out after 5 seconds", "AssertionError", "SystemExit: 3",
    "torch._dynamo.exc.Unsupported: call_function", "ExceptionGroup: failed (2 sub-exceptions)",
    "__main__.DataGone", "DataGone: shard 3", "__main__.load.<locals>.Gone: 7", "lost", "pkg.Höher: 3",
    "MyError: CUDA tile lost",
]  # fmt: skip
AT = "2026-05-04T10:00:00Z"
FOUND = {"python.exception", "rank.error_unexplained"}


def scanned(text: str, piece: int = 1 << 20) -> list[dict[str, Any]]:
    """The findings of a file that comes in pieces of so many bytes, without the signs that no person sees."""
    ids = iter(range(1000))
    scanner = Scanner(built_in_rules(), "/x.log", lambda: next(ids))
    data, found = text.encode(), []
    for at in range(0, len(data), piece):
        found += scanner.feed(data[at : at + piece], at, 100.0)
    return [each for each in found + scanner.end() if each["rule"] != "job.loss_sign"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("prefix", ["", "[rank3]: ", "cn4.1> ", "2025-03-02 10:00:00 | ERROR | "])
def test_any_name_below_the_frames_is_the_exception(prefix: str, name: str) -> None:
    text = "".join(f"{prefix}{line}\n" for line in (FRAMES + name).split("\n"))
    found = scanned("step 1 loss 2.0\n" + text)
    assert {each["rule"] for each in found} <= FOUND
    ends = [each for each in found if each["lines"][each["key"]].endswith(name)]
    assert [each["severity"] in ("warning", "error") for each in ends] == [True]


@pytest.mark.parametrize("prefix", ["", "[rank3]: ", "cn4.1> ", "2025-03-02 10:00:00 | ERROR | "])
def test_the_head_may_be_cut_off(prefix: str) -> None:
    lines = [*FRAMES.rstrip("\n").split("\n")[1:], "KeyError: 'labels'"]
    found = scanned("step 1 loss 2.0\n" + "".join(f"{prefix}{line}\n" for line in lines))
    assert "python.exception" in {each["rule"] for each in found} <= FOUND


@pytest.mark.parametrize("line", ["step 2 loss 1.9", "Thread 0x7f (most recent call first):", "lost"])
def test_frames_without_a_head_and_a_named_exception_are_none(line: str) -> None:
    assert scanned(FRAMES.partition("\n")[2] + line + "\n") == []


@pytest.mark.parametrize("marks", ["^^^^^^^^", "~~~~~^^^^^^^^^^", "~~~~~~^~~~~~", "~~~~^~~~~~~~"])
def test_the_marks_under_a_frame_of_newer_pythons_are_no_fence(marks: str) -> None:
    found = scanned(f"step 1 loss 2.0\n{FRAMES}    {marks}\nKeyError: 'labels'\n")
    assert [each["rule"] for each in found] == ["python.exception"]


def test_the_head_may_stand_behind_a_loggers_own() -> None:
    found = scanned(f"2025-03-02 10:00:00 ERROR loop: step failed {FRAMES}__main__.DataGone\n")
    assert "python.exception" in {each["rule"] for each in found}


def test_a_traceback_in_a_json_record() -> None:
    record = json.dumps({"level": "info", "msg": "x", "exc_info": FRAMES + "__main__.DataGone"})
    assert "python.exception" in {each["rule"] for each in scanned(record + "\n")}


@pytest.mark.parametrize("piece", [1, 7, 40])
def test_a_traceback_that_comes_in_pieces_is_found_once(piece: int) -> None:
    found = scanned(f"begin\n{FRAMES}__main__.DataGone\nend\n", piece)
    assert [each["rule"] for each in found] == ["python.exception"]


def test_lines_of_others_stand_between() -> None:
    lines = (FRAMES + "__main__.DataGone").split("\n")
    lines = [f"[rank1]: {line}\n[rank2]: step 5: done\n" for line in lines]
    found = scanned("".join(lines))
    assert [(each["rule"], each["rank"]) for each in found] == [("python.exception", 1)]


def test_the_parts_of_an_exception_group() -> None:
    group = (
        f'  + Exception Group {HEAD}\n  |   File "/a/t.py", line 4, in <module>\n  |     go()\n'
        "  | ExceptionGroup: failed (1 sub-exception)\n  +-+---------------- 1 ----------------\n"
        f'    | {HEAD}\n    |   File "/a/t.py", line 2, in go\n    | __main__.Gone: 1\n    +----------\n'
    )
    assert sum(each["rule"] == "python.exception" for each in scanned(group)) == 2


@pytest.mark.parametrize(
    "text",
    [
        f"{FRAMES}KeyboardInterrupt\n",
        f"{FRAMES}SystemExit: 0\n",
        f"{HEAD} means that the program crashed\nDone: 3\n",
        f"{FRAMES}2025-03-02 10:00:00 INFO step 4\n",
        "__main__.DataGone\n",
        f"Exception ignored in: <function f at 0x7f>\n{FRAMES}__main__.DataGone\n",
    ],
)
def test_what_is_no_end_of_a_program(text: str) -> None:
    assert [each["rule"] for each in scanned(text) if each["severity"] != "info"] == []


@pytest.mark.parametrize(
    ("record", "found"),
    [
        ({"heure": AT, "niveau": "ERREUR", "rang": 5, "texte": "OSError: [Errno 28] plus de place"}, 1),
        ({"heure": AT, "rang": 5, "reponse": "OSError: [Errno 28] plus de place"}, 0),
        ({"niveau": "ERREUR", "rang": 5, "texte": "OSError: [Errno 28] plus de place"}, 0),
    ],
)
def test_a_record_with_a_time_and_a_level_is_a_loggers_in_any_language(
    record: dict[str, Any], found: int
) -> None:
    reported = scanned(json.dumps(record) + "\n")
    assert [(each["rule"], each["rank"]) for each in reported] == [("storage.full", 5)] * found
