"""A DDP training over gloo with all of the library on, as each rank runs it; see `result_N.json`.

It runs without numpy, as where nothing but torch is installed.
"""

# ruff: noqa: E402 - numpy is hidden before torch looks for it

from __future__ import annotations

import json
import logging
import os
import sys
from pathlib import Path

sys.modules["numpy"] = None  # type: ignore[assignment]

import torch
import torch.distributed as dist
from torch import nn

from gpuwatch.telemetry import (
    CommunicationProfiler,
    DistributedTracer,
    ProfilerSettings,
    TelemetrySettings,
    TelemetryTracker,
    TrainingProfiler,
    setup_rank_logging,
)

STEPS = 20


def main(folder: Path) -> None:
    os.chdir(folder)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    setup_rank_logging("rank_logs")
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(32, 16), nn.ReLU(), nn.Linear(16, 4))
    ddp = nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.05)
    settings = TelemetrySettings(
        log_interval_steps=5,
        performance_log_steps=10,
        collect_telemetry_for_all_ranks=True,
        log_level="debug",
    )
    found: dict[str, object] = {}
    with TelemetryTracker(settings, output_dir="out") as tracker:
        tracker.start(ddp, total_steps=STEPS, global_batch_size=16, configuration={"lr": 0.05})
        tracer = DistributedTracer()
        communication = CommunicationProfiler(tracker, announce=True)
        communication.watch(ddp)
        profiling = TrainingProfiler(ProfilerSettings(save_dir="profiler", repeat=1), tracker=tracker)
        with communication, profiling:
            for step in range(1, STEPS + 1):
                with tracer.trace("forward_pass"), tracker.cuda_timer("forward"):
                    loss = nn.functional.cross_entropy(ddp(torch.randn(8, 32)), torch.randint(0, 4, (8,)))
                with tracer.trace("backward_pass"), tracker.timer("backward"):
                    loss.backward()
                if step == STEPS:
                    report = tracker.check_gradients(model, per_layer=True)
                    found["norm"], found["layers"] = report.norm, list(report.per_layer)
                    found["grads_differ"] = len(tracker.check_equal_across_ranks(model, "gradients"))
                optimizer.step()
                optimizer.zero_grad(set_to_none=False)
                dist.all_reduce(torch.ones(1000))
                profiling.step()
                tracker.step(step, loss=loss, learning_rate=0.05, samples=8, epoch=step / 10)
        found["params_differ"] = [each.name for each in tracker.check_equal_across_ranks(model)]
        if rank == 1:
            with torch.no_grad():
                model[2].bias[0] += 1e-7
        found["changed"] = [(each.name, each.ranks) for each in tracker.check_equal_across_ranks(model)]
        sharding = tracker.check_data_sharding(range(10 * rank, 10 * rank + 11))
        found["overlaps"] = sharding.overlaps
        tracker.print_cross_rank_summary()
        found["communication"] = communication.get_stats().to_dict()
        found["table"] = profiling.table()
        tracer.export_traces("traces.json")
    found["session"] = tracker.session_id
    Path(f"result_{rank}.json").write_text(json.dumps(found))
    logging.shutdown()
    dist.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
    sys.stdout.flush()
    os._exit(0)  # with a profiler and gloo, torch's own destructors may abort the process behind this
