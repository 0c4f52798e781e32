"""Real trainings over gloo whose ranks wait for each other: another order of collectives, and a deadlock."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.end_to_end.trainings import (
    OTHER,
    STEP_OF_GRIEF,
    WHOM,
    Scene,
    name_of,
    need_py_spy,
    trainings,
)
from tests.parts import SEEN_BY_EVERY_AGENT

pytestmark = [*SEEN_BY_EVERY_AGENT, pytest.mark.long]


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    need_py_spy()
    with trainings(("order", "deadlock"), tmp_path_factory) as made:
        yield made


def test_the_rank_in_another_collective_is_named(scene: Scene) -> None:
    assert scene.hang("order").job == name_of("order")
    reported = scene.asked("order")
    assert reported.verdict.culprits == (WHOM,)
    assert re.search(r"broadcast, .*synchronise \(training_job\.py:", reported.verdict.sentence)
    stated = scene.dumps("order").verdict
    assert (stated.culprits, stated.confidence) == ((WHOM,), "high")
    assert re.match(rf"rank {WHOM} .*broadcast at #{STEP_OF_GRIEF}, .*all_reduce", stated.sentence)


def test_the_two_ranks_that_wait_for_each_other_are_named(scene: Scene) -> None:
    assert scene.hang("deadlock").job == name_of("deadlock")
    reported = scene.asked("deadlock")
    assert reported.verdict.culprits == (OTHER, WHOM)
    assert re.search(r"ranks 1-2 .*recv, .*exchange_halves \(training_job\.py:", reported.verdict.sentence)
    stated = scene.dumps("deadlock").verdict
    assert stated.culprits == (OTHER, WHOM)
    assert re.match(rf"ranks 1-2 .*all_reduce #{STEP_OF_GRIEF}", stated.sentence)
