"""Times of ranks to rows: nccl-tests' formulas, nearest ranks, and who did not wait."""

from __future__ import annotations

import pytest

from gpuwatch.probe.orchestration.stages.collective_rates import (
    busbw_factor,
    collective_row,
    least_waiting,
    nearest_rank,
    nic_share,
)

GB = 1e9


def test_a_row_by_the_formulas_of_nccl_tests() -> None:
    """Document 004, line 194."""
    times = {rank: [0.1, 0.2, 0.1 + rank / 1000] for rank in range(4)}
    row = collective_row("all_reduce", int(GB), times, 2, correct=True)
    assert row.p50_s == pytest.approx(0.103)  # the slowest rank of the median iteration
    assert row.min_s == pytest.approx(0.1)
    assert row.p99_s == pytest.approx(0.2)
    assert row.algbw_gb_per_s == pytest.approx(1 / 0.103)
    assert row.busbw_gb_per_s == pytest.approx(1.5 / 0.103)
    assert row.nic_gb_per_s == pytest.approx(0.5 / 0.103)
    assert row.cv is not None
    assert 0.3 < row.cv < 0.4


@pytest.mark.parametrize(
    ("op", "factor"),
    [
        ("all_reduce", 14 / 8),
        ("all_gather", 7 / 8),
        ("reduce_scatter", 7 / 8),
        ("all_to_all", 7 / 8),
        ("broadcast", 1.0),
        ("send_recv", 1.0),
    ],
)
def test_factors(op: str, factor: float) -> None:
    assert busbw_factor(op, 8) == pytest.approx(factor)  # type: ignore[arg-type]


def test_what_a_nic_carried() -> None:
    assert nic_share("all_reduce", 16, 2) == pytest.approx(1 / 15)
    assert nic_share("all_reduce", 4, 4) == pytest.approx(1.0)
    assert nic_share("all_to_all", 16, 2) == pytest.approx(8 / 15)
    assert nic_share("all_reduce", 8, 1) is None
    assert nic_share("broadcast", 16, 2) is None


def test_percentiles_are_values_that_were_measured() -> None:
    values = [float(n) for n in range(1, 101)]
    assert nearest_rank(values, 99) == 99
    assert nearest_rank(values, 50) == 50
    assert nearest_rank([3.0, 1.0, 2.0], 99) == 3.0


def test_the_straggler_is_the_one_that_waits_least() -> None:
    measured = {0: [0.0342], 1: [0.0331], 2: [0.0039], 3: [0.0333]}
    assert least_waiting("all_reduce", measured) == 2
    assert least_waiting("broadcast", measured) is None  # a root leaves first by right
    assert least_waiting("all_reduce", {**measured, 3: [0.004]}) is None  # two of them
    assert least_waiting("all_reduce", {rank: [each[0] / 100] for rank, each in measured.items()}) is None
    assert least_waiting("all_reduce", {0: [0.03], 1: [0.001]}) is None


@pytest.mark.parametrize("bad", [[], [0.0], [-1.0], [float("inf")], [float("nan")]])
def test_times_that_cannot_be_become_an_error(bad: list[float]) -> None:
    row = collective_row("all_reduce", 1024, {0: bad, 1: bad}, 1, correct=None)
    assert row.error is not None
    assert row.busbw_gb_per_s is None
