"""Real trainings over gloo whose numbers go wrong: a loss that is nan, and a rank that computes slowly.

The jobs run at the same time, and each test ends its own, so the order of the tests counts.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.end_to_end.trainings import NODE, RANKS, STEP_OF_GRIEF, WHOM, Scene, name_of, trainings
from tests.parts import SEEN_BY_EVERY_AGENT

pytestmark = [*SEEN_BY_EVERY_AGENT, pytest.mark.long]


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    with trainings(("slow", "nan"), tmp_path_factory) as made:
        yield made


def spread(scene: Scene, story: str) -> list[int | None]:
    """Ranks that have reported some more steps after the first bad one, with a loss that is no number."""
    reported = scene.session.fleet.progress.writers.values()
    writers = [writer for writer in reported if writer.job == name_of(story)]
    late = [writer for writer in writers if (writer.value("step") or 0.0) >= STEP_OF_GRIEF + 8]
    return [writer.rank for writer in late if math.isnan(writer.value("loss") or 0.0)]


def test_the_rank_whose_loss_was_nan_first_is_named_with_its_step(scene: Scene) -> None:
    alert = scene.alert("nan", "num.nan_loss")
    assert (alert.rank, alert.node) == (WHOM, NODE)
    assert alert.text.endswith(f" nan since step {STEP_OF_GRIEF}")
    (proof,) = alert.proof
    assert proof.file is not None
    assert proof.offset is not None
    line = Path(proof.file).read_text()[proof.offset :].partition("\n")[0]
    assert line.split()[:4] == ["step", str(STEP_OF_GRIEF), "loss", "nan"]
    (scene.folders["nan"] / "seen").touch()
    scene.until("nan", lambda: len(spread(scene, "nan")) == RANKS)  # and the watch has looked again since
    incident = scene.incident("nan")
    assert (incident.code, incident.rank) == ("num.nan_loss", WHOM)
    assert f"rank {WHOM}" in incident.headline
    scene.end("nan")


def test_the_slow_rank_is_named_by_what_it_computes(scene: Scene) -> None:
    alert = scene.alert("slow", "slower_than_peers")
    assert (alert.rank, alert.node, alert.severity) == (WHOM, NODE, "warning")
    assert "3 other ranks" in alert.text
    assert scene.alerts("slow", "job.hang") == []
    scene.end("slow")
