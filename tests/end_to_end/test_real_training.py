"""Three ways in which a real training over gloo comes to grief; test_real_deadlocks has two more.

The jobs of a file run at the same time, and each test ends its own, so the order of the tests counts.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpuwatch.diagnose.hang.patience import PAUSES
from tests.end_to_end.trainings import (
    LIMITS,
    NODE,
    RANKS,
    STEP_OF_GRIEF,
    WHOM,
    Scene,
    name_of,
    need_py_spy,
    trainings,
)
from tests.parts import SEEN_BY_EVERY_AGENT

pytestmark = SEEN_BY_EVERY_AGENT


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    with trainings(("slow", "nan", "stall"), tmp_path_factory) as made:
        yield made


def spread(scene: Scene, story: str) -> list[int | None]:
    """Ranks that have told some more steps after the first bad one, with a loss that is no number."""
    told = scene.session.fleet.progress.voices.values()
    voices = [voice for voice in told if voice.job == name_of(story)]
    late = [voice for voice in voices if (voice.value("step") or 0.0) >= STEP_OF_GRIEF + 8]
    return [voice.rank for voice in late if math.isnan(voice.value("loss") or 0.0)]


def test_the_rank_whose_loss_was_nan_first_is_named_with_its_step(scene: Scene) -> None:
    alert = scene.alert("nan", "num.nan_loss")
    assert (alert.rank, alert.node) == (WHOM, NODE)
    assert alert.text.startswith(f"the loss is nan since step {STEP_OF_GRIEF}")
    assert "none of them" not in alert.text
    (proof,) = alert.proof
    assert proof.file is not None
    assert proof.offset is not None
    line = Path(proof.file).read_text()[proof.offset :].partition("\n")[0]
    assert line.startswith(f"step {STEP_OF_GRIEF} loss nan")
    (scene.folders["nan"] / "seen").touch()
    scene.until("nan", lambda: len(spread(scene, "nan")) == RANKS)  # and the watch has looked again since
    incident = scene.incident("nan")
    assert (incident.code, incident.rank) == ("num.nan_loss", WHOM)
    assert f"rank {WHOM}" in incident.sentence
    scene.end("nan")


def test_the_slow_rank_is_named_by_what_it_computes(scene: Scene) -> None:
    alert = scene.alert("slow", "slower_than_peers")
    assert (alert.rank, alert.node, alert.severity) == (WHOM, NODE, "warning")
    assert "as much as the job's 3 other ranks" in alert.text
    assert "every step waits for it" in alert.text
    assert scene.alerts("slow", "job.hang") == []
    scene.end("slow")


def test_the_rank_in_its_data_loader_is_named(scene: Scene) -> None:
    need_py_spy()
    assert scene.hang("stall").job == name_of("stall")
    scene.until("stall", lambda: scene.incident("stall").heard is not None)
    incident = scene.incident("stall")  # nobody pressed a key
    assert incident.heard is not None
    assert incident.heard.culprits == (WHOM,)
    assert (incident.rank, incident.confidence) == (WHOM, "high")
    assert "in data_loader_next (training_job.py:" in incident.sentence
    # asked, and told, before silence alone would tell
    assert incident.heard.at - incident.first < PAUSES * LIMITS.hang_s, (
        "asked, and told, before silence alone would tell"
    )
    told = scene.asked("stall")
    assert (told.testimony.culprits, told.testimony.confidence) == ((WHOM,), "high")
    assert "is in data_loader_next (training_job.py:" in told.testimony.sentence
    assert (
        "3 of 4 ranks are in all_reduce, called by synchronise (training_job.py:" in told.testimony.sentence
    )
