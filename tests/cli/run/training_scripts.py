"""Small trainings on CPU, with and without the library, and what `gpuwatch runs` states about them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.cli.running import gpuwatch

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


def runs(folder: Path, *arguments: str) -> Any:
    return json.loads(gpuwatch("runs", *arguments, "--json", cwd=folder).stdout)
