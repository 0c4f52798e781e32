"""Changes between measurements in pairs."""

from __future__ import annotations

import random

import pytest

from tests.bench.paired import compared, outside


def test_bounds_are_those_of_the_sign_test() -> None:
    """Tables of the sign test: of 6 values the extremes, of 10 the second ones, of 40 the 14th."""
    assert [outside(count) for count in (6, 10, 20, 40)] == [0, 1, 5, 13]
    with pytest.raises(ValueError, match="six"):
        compared([(1.0, 1.0)] * 5)


def test_what_pairs_cannot_tell_neither_holds_nor_fails() -> None:
    noise = random.Random(7)
    noisy = compared([(1.0, 1.0 + noise.gauss(0.0, 0.05)) for _ in range(40)])
    assert noisy.is_at_most(0.002) is None
    assert compared([(1.0, 1.001)] * 20).is_at_most(0.002) is True
    costly = compared([(1.0, 1.03 + noise.gauss(0.0, 0.005)) for _ in range(40)])
    assert costly.is_at_most(0.002) is False
    assert costly.change == pytest.approx(0.03, abs=0.01)


def test_a_drift_of_the_machine_is_no_change() -> None:
    assert compared([(1.0 + n, 1.0 + n) for n in range(10)]).change == 0
