"""Statistics in bounded memory agree with those of the standard library."""

from __future__ import annotations

import random
import statistics

import pytest

from gpuwatch.telemetry.measures.distribution import Distribution, percentile, statistics_over_ranks


def test_up_to_the_size_of_the_sample_all_numbers_are_exact() -> None:
    values = [random.Random(7).gauss(5, 2) for _ in range(1000)]
    numbers = Distribution()
    for value in values:
        numbers.add(value)
    found = numbers.statistics()
    assert found["mean"] == pytest.approx(statistics.mean(values))
    assert found["median"] == pytest.approx(statistics.median(values))
    assert found["std_dev"] == pytest.approx(statistics.stdev(values))
    assert (found["count"], found["min"], found["max"]) == (1000, min(values), max(values))


def test_beyond_it_the_median_is_that_of_a_sample_of_all() -> None:
    numbers = Distribution(size=500)
    for value in range(100_000):
        numbers.add(value)
    median = numbers.percentile(0.5)
    assert median is not None
    assert abs(median - 50_000) < 6_000
    assert (numbers.count, numbers.largest) == (100_000, 99_999)


def test_of_nothing_and_of_one_number() -> None:
    numbers = Distribution()
    assert numbers.statistics() == {"count": 0}
    assert (numbers.mean, numbers.percentile(0.5)) == (None, None)
    numbers.add(3.0)
    assert numbers.statistics()["std_dev"] == 0.0
    assert percentile([1.0, 2.0], 0.75) == 1.75


def test_the_indices_of_the_extremes_are_ranks() -> None:
    found = statistics_over_ranks({1: 5.0, 4: 9.0, 7: 2.0})
    assert (found["min_index"], found["max_index"], found["count"]) == (7, 4, 3)


def test_the_seed_of_the_training_stays_as_it_is() -> None:
    random.seed(3)
    expected = random.Random(3).random()
    numbers = Distribution(size=1)
    for value in range(10):
        numbers.add(value)
    assert random.random() == expected
