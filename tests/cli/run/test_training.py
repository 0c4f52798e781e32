"""Real training on CPU, one rank and two gloo ranks, through `gpuwatch run`, then compared."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.running import COMMAND, environment, gpuwatch
from tests.parts import need_torch

pytestmark = pytest.mark.long


@pytest.fixture(autouse=True)
def _torch() -> None:
    need_torch()


SCRIPT = """\
import os, sys, time
import torch
import torch.distributed as dist

world, rank = int(os.environ.get("WORLD_SIZE", 1)), int(os.environ.get("RANK", 0))
if world > 1:
    dist.init_process_group("gloo")
torch.manual_seed(0)
model = torch.nn.Linear(16, 1)
if world > 1:
    model = torch.nn.parallel.DistributedDataParallel(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for step in range(1, 41):
    x = torch.randn(32 // world, 16)
    loss = (model(x) - x.sum(1, keepdim=True)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    time.sleep(0.1 / world)
    if rank == 0:
        print(f"step {step}/40 loss: {loss.item():.4f} lr: 0.05", flush=True)
if world > 1:
    dist.destroy_process_group()
"""
LIBRARY = """\
import os, time
import torch
from gpuwatch.telemetry import TelemetrySettings, TelemetryTracker

if "RANK" in os.environ:
    torch.distributed.init_process_group("gloo")
model = torch.nn.Linear(16, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
with TelemetryTracker(TelemetrySettings(log_interval_steps=1)) as telemetry:
    configuration = {"lr": 0.05, "api_key": "s3cret"}
    telemetry.start(model, total_steps=20, model_name="linear", configuration=configuration)
    for step in range(1, 21):
        loss = model(torch.randn(8, 16)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        telemetry.step(step, loss=loss, learning_rate=0.05, samples=8)
"""


def trained(folder: Path, script: str, ranks: int) -> subprocess.CompletedProcess[str]:
    (folder / "train.py").write_text(script)
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks)]
    command = [sys.executable, *(launcher if ranks > 1 else []), "train.py"]
    return subprocess.run(
        [*COMMAND, "run", "--", *command],
        cwd=folder,
        env=environment(OMP_NUM_THREADS="1"),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )


def runs(folder: Path, *arguments: str) -> Any:
    return json.loads(gpuwatch("runs", *arguments, "--json", cwd=folder).stdout)


def test_one_rank_and_two_are_compared_reported_and_plotted(tmp_path: Path) -> None:
    """Document 002, lines 118 to 137 and 156 to 221: both demos, then --compare, --report and --plot."""
    for ranks in (1, 2):
        done = trained(tmp_path, SCRIPT, ranks)
        assert done.returncode == 0, done.stderr
        assert done.stdout.count("\n") == 40
    found = runs(tmp_path, "compare")
    one, two = found["sessions"]
    assert [(each["mode"], each["world_size"]) for each in (one, two)] == [("single", 1), ("multi", 2)]
    assert (one["steps"], two["steps"]) == (40, 40)
    assert found["speedup"] == pytest.approx(one["duration_s"] / two["duration_s"])
    assert found["efficiency"] == pytest.approx(found["speedup"] / 2)
    shown = runs(tmp_path, "show", two["id"])["sessions"][0]
    assert [rank["rank"] for rank in shown["ranks"]] == [0, 1]
    assert shown["packages"]["torch"]
    assert gpuwatch("runs", "report", "--html", "r.html", cwd=tmp_path).returncode == 0
    assert "<svg" in (tmp_path / "r.html").read_text()
    assert gpuwatch("runs", "plot", cwd=tmp_path).returncode == 0


def test_the_library_writes_into_the_folder_of_the_run(tmp_path: Path) -> None:
    """Document 002, lines 223 to 231; one writer per file."""
    done = trained(tmp_path, LIBRARY, 2)
    assert done.returncode == 0, done.stderr
    (session,) = (tmp_path / "logs").glob("training_*")
    shown = runs(tmp_path, "show")["sessions"][0]
    assert shown["parts"] == ["rank_0000.json", "rank_0001.json"]
    assert (shown["model"]["name"], shown["configuration"]["lr"], shown["status"]) == (
        "linear",
        0.05,
        "completed",
    )
    assert shown["writer"].startswith("gpuwatch run")
    assert "s3cret" not in (session / f"{session.name}_summary.json").read_text()
    loss = next(curve for curve in shown["curves"] if curve["name"] == "loss")
    assert loss["points"] == 20
