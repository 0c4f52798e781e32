"""The lab itself: its links are what it says, and nothing of it stays."""

from __future__ import annotations

import subprocess

import pytest

from tests.netlab.lab import BAD_MBIT, GOOD_MBIT, Lab, lab
from tests.netlab.throughput import mb_per_s

SLOW = BAD_MBIT / GOOD_MBIT


def compared(made: Lab, suspect: tuple[int, int], healthy: tuple[int, int]) -> float:
    """What one link reaches of another one."""
    slow, good = mb_per_s(made, *suspect), mb_per_s(made, *healthy)
    assert slow is not None
    assert good is not None
    return slow / good


def test_faults_are_where_they_were_put() -> None:
    with lab(4) as made:
        assert compared(made, (0, 1), (1, 0)) == pytest.approx(1.0, rel=0.2)
        made.slow_node(1)
        made.slow_egress(2)
        made.slow_link(0, 3)

        assert compared(made, (0, 1), (3, 0)) == pytest.approx(SLOW, rel=0.2)
        assert compared(made, (1, 0), (3, 0)) == pytest.approx(SLOW, rel=0.2)
        assert compared(made, (2, 0), (0, 2)) == pytest.approx(SLOW, rel=0.2)
        assert compared(made, (0, 3), (3, 0)) == pytest.approx(SLOW, rel=0.2)
        assert compared(made, (0, 2), (3, 0)) == pytest.approx(1.0, rel=0.2)


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

    listed = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True).stdout
    assert made[0].prefix not in listed
