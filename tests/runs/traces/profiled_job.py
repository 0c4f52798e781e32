"""A training of two gloo ranks under torch's profiler; rank 1 does more. Argument: where the traces go."""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from torch import distributed
from torch.profiler import ProfilerActivity, profile, record_function, schedule

STEPS = 3


def run(folder: Path) -> None:
    distributed.init_process_group("gloo")
    rank = distributed.get_rank()
    torch.set_num_threads(1)
    layers = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.ReLU(), torch.nn.Linear(512, 256))
    model = torch.nn.parallel.DistributedDataParallel(layers)
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    with profile(
        activities=[ProfilerActivity.CPU],
        schedule=schedule(wait=0, warmup=1, active=STEPS, repeat=1),
        record_shapes=True,
        profile_memory=True,
    ) as profiler:
        for _ in range(STEPS + 1):
            with record_function("forward_pass"):
                loss = model(torch.randn(64, 256)).sum()
            loss.backward()
            if rank == 1:
                matrix = torch.randn(600, 600)
                for _ in range(8):
                    matrix = matrix @ matrix
            optimizer.step()
            optimizer.zero_grad()
            profiler.step()
    profiler.export_chrome_trace(str(folder / f"trace_rank{rank}.json.gz"))
    table = profiler.key_averages()
    own = {each.key: each.self_cpu_time_total for each in table}
    (folder / f"table{rank}.txt").write_text(repr(own))
    distributed.destroy_process_group()


if __name__ == "__main__":
    run(Path(sys.argv[1]))
