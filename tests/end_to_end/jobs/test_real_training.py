"""A real training over gloo that hangs; test_real_numbers and test_real_deadlocks have four more stories."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from gpuwatch.diagnose.hang.hang_threshold import PAUSE_WINDOWS
from tests.end_to_end.trainings import LIMITS, WHOM, Scene, name_of, need_py_spy, trainings
from tests.parts import SEEN_BY_EVERY_AGENT

pytestmark = [*SEEN_BY_EVERY_AGENT, pytest.mark.long]


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    need_py_spy()
    with trainings(("stall",), tmp_path_factory) as made:
        yield made


def test_the_rank_in_its_data_loader_is_named(scene: Scene) -> None:
    assert scene.hang("stall").job == name_of("stall")
    scene.until("stall", lambda: scene.incident("stall").hang_check is not None)
    incident = scene.incident("stall")  # nobody pressed a key
    assert incident.hang_check is not None
    assert incident.hang_check.verdict.culprits == (WHOM,)
    assert (incident.rank, incident.confidence) == (WHOM, "high")
    assert "in data_loader_next (training_job.py:" in incident.headline
    # queried and reported before silence alone is enough
    assert incident.hang_check.at - incident.first < PAUSE_WINDOWS * LIMITS.hang_s, (
        "queried and reported before silence alone is enough"
    )
    reported = scene.asked("stall")
    assert (reported.verdict.culprits, reported.verdict.confidence) == ((WHOM,), "high")
    assert "data_loader_next (training_job.py:" in reported.verdict.sentence
    assert re.search(r"3 of 4 ranks .*all_reduce, .*\(training_job\.py:", reported.verdict.sentence)
