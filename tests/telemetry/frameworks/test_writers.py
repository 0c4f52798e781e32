"""TensorBoard and W&B by their own libraries, read back: document 004, line 663, document 000, line 118."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.telemetry.frameworks.programs import need_package, run, session_of

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]
SCRIPT = """
import torch
from gpuwatch.telemetry import TelemetrySettings, TelemetryTracker
settings = TelemetrySettings(
    log_interval_steps=2, enable_tensorboard=TB, enable_wandb=WB, run_name="my_run", gpu_snapshot_interval=0)
model = torch.nn.Linear(3, 1)
with TelemetryTracker(settings OUT) as tracker:
    for step in range(1, 7):
        tracker.communication("gradient_sync", 1e6, 0.25)
        tracker.recorder.gpus.add({"index": 0, "utilization_pct": 80.0 + step, "memory_pct": 50.0})
        tracker.step(step, loss=1 / step, learning_rate=0.1)
    tracker.evaluation({"eval_loss": 0.5, "accuracy": 0.75})
    with torch.no_grad(): model.bias[0] = float("nan")
    tracker.log_parameters(model)
"""


def test_the_tags_of_the_document(tmp_path: Path) -> None:
    """Document 004, line 663."""
    need_package("tensorboard", "torch")
    run(
        tmp_path,
        SCRIPT.replace("TB", "True").replace("WB", "False").replace("OUT", ""),
        RANK="3",
        WORLD_SIZE="4",
    )
    reader = """
import json, sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
found = EventAccumulator("runs/rank_3").Reload()
scalars = {tag: [(each.step, each.value) for each in found.Scalars(tag)] for tag in found.Tags()["scalars"]}
print(json.dumps([scalars, found.Tags()["histograms"]]))
"""
    scalars, histograms = json.loads(run(tmp_path, reader))
    assert scalars["Loss/train"] == [[2, 0.5], [4, 0.25], [6, pytest.approx(1 / 6)]]
    assert scalars["GPU/utilization"] == [[2, 82.0], [4, 84.0], [6, 86.0]]
    assert scalars["GPU/memory"][0] == [2, 50.0]
    assert scalars["Communication/time"] == [[2, 0.125], [4, 0.25], [6, 0.25]]
    assert (scalars["Loss/eval"], scalars["Eval/accuracy"]) == ([[6, 0.5]], [[6, 0.75]])
    assert histograms == ["Params/weight"], "what is no number has no histogram"


def test_the_run_of_wandb_is_in_the_group_of_its_job(tmp_path: Path) -> None:
    """Document 001, line 54."""
    need_package("wandb", "torch")
    script = SCRIPT.replace("TB", "False").replace("WB", "True").replace("OUT", ', output_dir="out"')
    run(tmp_path, script + "\nimport wandb; print(wandb.__version__)\n")
    (folder,) = (tmp_path / "out" / "wandb").glob("offline-run-*")
    (file,) = folder.glob("run-*.wandb")
    raw = file.read_bytes()
    for each in (b"my_run-rank0", b"my_run", b"Loss/train", b"Communication/time", b"Params/weight"):
        assert each in raw


def test_a_writer_that_cannot_be_opened_costs_itself_only(tmp_path: Path) -> None:
    need_package("torch")
    hidden = "import sys\nsys.modules['tensorboard'] = None\nsys.modules['wandb'] = None\n"
    run(tmp_path, hidden + SCRIPT.replace("TB", "True").replace("WB", "True").replace("OUT", ""))
    assert session_of(tmp_path)[1]["steps"] == 6
