"""Stacks to trees, shares, differences and boxes; the numbers are counted by hand."""

from __future__ import annotations

import base64
import zlib

import pytest

from gpuwatch.diagnose.profiles.call_tree import (
    MAX_DEPTH,
    MAX_TEXT_BYTES,
    CodeLine,
    ProfileError,
    profile_text,
    threads_of,
)
from gpuwatch.diagnose.profiles.cost import ProfileOptions, cost_pct, cost_text
from gpuwatch.diagnose.profiles.flame_layout import common_frames, flame_cells, flame_rows
from gpuwatch.diagnose.profiles.hot_frames import differences, hot_frames
from tests.rules.compiling.costs import at_most

TORCH = "/venv/lib/python3.12/site-packages/torch"
SLOW = f"""thread (7): Thread-1;loop ({TORCH}/utils/pin.py:3) 100
thread (5): MainThread;main (/t.py:9);step (/t.py:5);all_reduce ({TORCH}/c10d.py:80) 10
thread (5): MainThread;main (/t.py:9);load (/job/data.py:2);__next__ ({TORCH}/loader.py:7) 60
thread (5): MainThread;main (/t.py:9);load (/job/data.py:3);__next__ ({TORCH}/loader.py:9) 20
thread (5): MainThread;main (/t.py:9) 10
a torn line
"""
USUAL = f"""thread (5): MainThread;main (/t.py:9);step (/t.py:5);all_reduce ({TORCH}/c10d.py:80) 80
thread (5): MainThread;main (/t.py:9);load (/job/data.py:2);__next__ ({TORCH}/loader.py:7) 10
thread (5): MainThread;main (/t.py:9) 10
"""


def fit(text: str, width: int) -> str:
    return text[:width].ljust(width)


def test_a_frame_of_any_name_is_parsed_in_its_own_length() -> None:
    with at_most(5.0):
        (tree,) = threads_of(
            f"thread (5): MainThread;{' (' * 500_000};f (a b (c:x.py:12);g (h.py);<lambda> 3\n"
        )
    codes = [call.code for call, _ in tree.walk()]
    assert [(code.function, code.file, code.line) for code in codes[1:3]] == [
        ("f (a b", "c:x.py", 12), ("g", "h.py", None),
    ]  # fmt: skip
    assert len(codes[0].function) <= 300


def test_the_main_thread_comes_first_and_torn_lines_are_skipped() -> None:
    main, other = threads_of(SLOW)
    assert (main.name, main.samples, other.name, other.samples) == ("MainThread", 100, "Thread-1", 100)


def test_shares_of_functions_over_all_their_lines() -> None:
    loader, *rest = hot_frames(threads_of(SLOW)[0])
    assert (loader.code.function, loader.code.line, loader.own_pct, loader.total_pct) == (
        "__next__",
        7,
        80,
        80,
    )
    assert loader.caller == CodeLine("load", "/job/data.py", 2)
    by_name = {each.code.function: each for each in rest}
    assert (by_name["main"].own_pct, by_name["main"].total_pct, by_name["main"].caller) == (10, 100, None)


def test_of_a_recursion_the_outermost_counts() -> None:
    text = "a (/x.py:1);b (/x.py:2);a (/x.py:1) 3\na (/x.py:1) 1\n"
    found = {each.code.function: each for each in hot_frames(threads_of(text)[0])}
    assert (found["a"].total_pct, found["a"].own_pct, found["b"].total_pct) == (100, 100, 75)


def test_the_frames_that_differ_come_first_and_equal_ones_do_not() -> None:
    slow, usual = (hot_frames(threads_of(text)[0]) for text in (SLOW, USUAL))
    found = differences(slow, usual)
    assert [(each.code.function, each.points) for each in found] == [("__next__", 70), ("all_reduce", -70)]
    assert differences(slow, slow) == []


def test_boxes_lie_below_their_callers_and_fill_the_width() -> None:
    tree = threads_of(SLOW)[0]
    shared, top = common_frames(tree)
    assert [code.function for code in shared] == ["main"]
    first, second = flame_rows(top, 0.0, 10)
    assert [(round(box.start, 2), round(box.width, 2)) for box in first] == [(0, 0.6), (0.6, 0.2), (0.8, 0.1)]
    assert [box.call.code.function for box in second] == ["__next__", "__next__", "all_reduce"]
    for row in flame_cells(tree, 40, 10, fit):
        assert sum(len(cell.text) for cell in row) == 40


def test_hostile_text_is_bounded_and_cannot_steer() -> None:
    deep = ";".join(["f (/x.py:1)"] * 5000)
    text = f"thread (1): MainThread;{deep} 1\nthread (1): MainThread;\x1b[2Jx (\x07:9) 99999999999999999\n"
    text += "thread (1): MainThread;\x1b[2Jx (/a\x07:9) 2\n"
    tree = threads_of(text)[0]
    assert tree.samples == 3
    assert max(len(above) for _, above in tree.walk()) < MAX_DEPTH
    assert all("\x1b" not in call.code.short and "\x07" not in call.code.file for call, _ in tree.walk())


@pytest.mark.parametrize("packed", ["#", base64.b64encode(b"no zlib").decode()])
def test_a_damaged_profile_is_refused(packed: str) -> None:
    with pytest.raises(ProfileError):
        profile_text(packed)


def test_a_profile_that_unpacks_to_too_much_is_refused() -> None:
    with pytest.raises(ProfileError):
        profile_text(base64.b64encode(zlib.compress(b"x" * (MAX_TEXT_BYTES + 1))).decode())


def test_the_cost_grows_with_frames_and_rate_and_says_whether_the_rank_stops() -> None:
    few, many = ProfileOptions(rate=100), ProfileOptions(rate=200)
    assert cost_pct(few, 10) < cost_pct(few, 100) < cost_pct(many, 100) <= 100
    assert cost_text(few, None) != cost_text(ProfileOptions(blocking=True), None)
