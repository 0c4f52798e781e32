"""The lab itself: its links are what it says, and nothing of it stays."""

from __future__ import annotations

import subprocess

import pytest

from tests.netlab.lab import BAD_MBIT, GOOD_MBIT, Lab, lab
from tests.netlab.throughput import mb_per_s
from tests.parts import need

BETWEEN = (BAD_MBIT / GOOD_MBIT + 1) / 2
"""A busy machine can only make a link slower: the best of three is its shape, and halfway tells which one."""


def best(made: Lab, src: int, dst: int) -> float:
    """What a link reaches when nothing but its shape holds it back."""
    rates = [rate for _ in range(3) if (rate := mb_per_s(made, src, dst)) is not None]
    assert rates
    return max(rates)


def test_faults_are_where_they_were_put() -> None:
    with lab(4) as made:
        healthy = best(made, 0, 1)
        made.slow_node(1)
        made.slow_egress(2)
        made.slow_link(0, 3)
        for slow in ((0, 1), (1, 0), (2, 0), (0, 3)):
            assert best(made, *slow) < BETWEEN * healthy, slow
        for fine in ((3, 0), (0, 2)):
            assert best(made, *fine) > BETWEEN * healthy, fine


def test_a_cut_pair_is_silent_and_the_others_talk() -> None:
    with lab(3) as made:
        made.cut(0, 1)

        assert mb_per_s(made, 0, 1) is None
        assert mb_per_s(made, 0, 2) is not None


def test_nothing_of_it_stays_when_a_test_fails() -> None:
    made: list[Lab] = []
    with pytest.raises(KeyError), lab(2) as one:
        made.append(one)
        raise KeyError

    listed = subprocess.run([need("ip"), "netns", "list"], capture_output=True, text=True, check=True).stdout
    assert made[0].prefix not in listed
