"""An error is found wherever it is in a line, whatever is before and behind it, by each prefilter.

What is around an example is the same in a short and in a long line: a rule that finds it in the short one
finds it in the long one, too.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from functools import cache

import pytest

from gpuwatch.rules.load import load_packs
from tests.agent.logs.scanning.each_prefilter import ERROR, prefilters, rules_in

SHORT = 40
LENGTHS = (
    1000,
    4096,
    8000,
    12_288,
    *range(15_900, 16_420, 20),
    16_383,
    20_400,
    28_672,
    32_768,
    65_500,
    200_000,
)
FEEDS = (4096, 1 << 16, 1 << 19)
ENDS = (b"\nnext line\n", b"\n", b"", b"\r\nINFO go on\r\n", b"\r")
UNITS = [
    b"alpha beta ", b"12345 678 ", b"x", b"7", b" ", b"\t", "\u65e5\u672c ".encode(), "\u8bed".encode(),
    "\U0001f600 ".encode(),
    "e\u0301\u0302 ".encode(), "\u0130 ".encode(), b"\xff\xfe ", b"\xc3 ", b"\0", b"'a' \"b\" ", b"\\a \\n ",
    b"\x1b[31mab\x1b[0m ", b"a\x08b ", b"key=value ", b"a@b.c ", b"[ ( { ", b'{"a": 1} ', b"/a/b.py ",
    "\u2028 ".encode(), b"\x0c ",
]  # fmt: skip


def padding(unit: bytes, length: int) -> bytes:
    return unit * (length // len(unit) + 1)


def in_text(example: bytes, unit: bytes, length: int) -> bytes:
    return padding(unit, length) + b" " + example


def between_text(example: bytes, unit: bytes, length: int) -> bytes:
    return in_text(example, unit, length) + b" " + padding(unit, length)


def in_record(key: str) -> Callable[[bytes, bytes, int], bytes]:
    def record(example: bytes, unit: bytes, length: int) -> bytes:
        text = padding(unit, length).decode("utf-8", "replace")
        fields = {"level": "ERROR", "message": example.decode()}
        if key == "message":
            fields["message"] = f"{text} {fields['message']}"
        if key == "level":
            return json.dumps({"message": fields["message"], "pad": text, "level": "ERROR"}).encode()
        whole = json.dumps({key: text, **fields} if key != "behind" else {**fields, key: text})
        return (json.dumps({"log": f"{whole}\n", "stream": "stderr"}) if key == "log" else whole).encode()

    return record


def in_bytes(example: bytes, unit: bytes, length: int) -> bytes:
    return json.dumps({"_HOSTNAME": "n1", "MESSAGE": list(in_text(example, unit, length))}).encode()


RECORDS = [in_record(key) for key in ("message", "before", "behind", "level", "log")]
SHAPES = [in_text, between_text, *RECORDS, in_bytes]


@cache
def examples() -> list[tuple[str, bytes]]:
    """The first two examples of each rule; those of several lines only stand in records."""
    rules = [each for each in load_packs().rules if not each.flood]
    return [(each.id, example.strip("\n").encode()) for each in rules for example in each.examples[:2]]


def missed(choice: random.Random, count: int) -> Iterator[object]:
    for _ in range(count):
        name, example = choice.choice(examples())
        unit, end = choice.choice(UNITS), choice.choice(ENDS)
        shape = choice.choice(RECORDS if b"\n" in example or name == ERROR else SHAPES)
        short = shape(example, unit, SHORT) + b"\n"
        if name not in rules_in(short, prefilters()[0]):
            continue  # the rule needs the beginning or the end of a line
        length, feed = choice.choice(LENGTHS), choice.choice(FEEDS)
        if shape is in_bytes:
            length = min(length, 65_500)  # a list is five times as long
        line = shape(example, unit, length) + end
        for prefilter in prefilters():
            if name not in rules_in(line, prefilter, feed):
                yield name, unit, shape, end, length, feed, type(prefilter).__name__


@pytest.mark.parametrize(
    ("seed", "count"), [(1, 25), *(pytest.param(each, 1000, marks=pytest.mark.long) for each in range(2, 8))]
)
def test_an_error_in_a_short_line_is_found_in_a_long_one(seed: int, count: int) -> None:
    assert list(missed(random.Random(seed), count)) == []
