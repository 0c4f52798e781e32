"""A torch script that does one thing: two gloo ranks on loopback send each other a buffer; prints GB/s.

`python raw_send_recv.py MEBIBYTES ITERATIONS`. Each iteration begins after a barrier and is as slow as its
slower rank, as the probe counts.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import tempfile
import time

import torch
import torch.distributed as dist

WARMUP = 2


def times_of(rank: int, store: str, size: int, iterations: int) -> list[float]:
    """Seconds of every timed iteration of one rank."""
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
    give, take = torch.zeros(size // 4), torch.zeros(size // 4)
    took = []
    for number in range(WARMUP + iterations):
        dist.barrier()
        start = time.perf_counter()
        both = [dist.P2POp(dist.isend, give, 1 - rank), dist.P2POp(dist.irecv, take, 1 - rank)]
        for work in dist.batch_isend_irecv(both):
            work.wait()
        if number >= WARMUP:
            took.append(time.perf_counter() - start)
    dist.destroy_process_group()
    return took


def main() -> None:
    """Fork the second rank after the import, measure, print the rate of the median iteration."""
    size, iterations = int(sys.argv[1]) << 20, int(sys.argv[2])
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    with tempfile.TemporaryDirectory() as folder:
        store = f"{folder}/store"
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.write(writing, json.dumps(times_of(1, store, size, iterations)).encode())
            os._exit(0)
        ours = times_of(0, store, size, iterations)
        theirs = json.loads(os.read(reading, 1 << 16))
        os.waitpid(child, 0)
    slowest = [max(pair) for pair in zip(ours, theirs, strict=True)]
    print(size / statistics.median(slowest) / 1e9)


if __name__ == "__main__":
    main()
