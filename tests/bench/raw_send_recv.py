"""A torch script that does one item: two gloo ranks on loopback send each other a buffer.

`python raw_send_recv.py MEBIBYTES WARMUP ITERATIONS`: a turn for every line on stdin, answered by a line of
JSON with the seconds of the timed iterations of both ranks. Each iteration begins after a barrier, as the
probe's do.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator

import torch
import torch.distributed as dist


def turns(
    rank: int, store: str, size: int, warmup: int, iterations: int, reported: Iterable[bytes]
) -> Iterator[list[float]]:
    """The seconds of every timed iteration of one rank, a turn for every line that it receives."""
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
    give, take = torch.zeros(size // 4), torch.zeros(size // 4)
    for _ in reported:
        took = []
        for number in range(warmup + iterations):
            dist.barrier()
            start = time.perf_counter()
            both = [dist.P2POp(dist.isend, give, 1 - rank), dist.P2POp(dist.irecv, take, 1 - rank)]
            for work in dist.batch_isend_irecv(both):
                work.wait()
            if number >= warmup:
                took.append(time.perf_counter() - start)
        yield took
    dist.destroy_process_group()


def main() -> None:
    """Fork the second rank after the import; it receives each turn and returns its times through pipes."""
    size, warmup, iterations = int(sys.argv[1]) << 20, int(sys.argv[2]), int(sys.argv[3])
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    with tempfile.TemporaryDirectory() as folder:
        store = f"{folder}/store"
        reported, report = os.pipe()
        receive, emit = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(report)
            for took in turns(1, store, size, warmup, iterations, os.fdopen(reported, "rb", 0)):
                os.write(emit, json.dumps(took).encode() + b"\n")
            os._exit(0)

        def lines() -> Iterator[bytes]:
            for line in sys.stdin.buffer:
                os.write(report, b"\n")
                yield line
            os.close(report)

        theirs = os.fdopen(receive, "rb")
        for took in turns(0, store, size, warmup, iterations, lines()):
            print(json.dumps([took, json.loads(theirs.readline())]), flush=True)
        os.waitpid(child, 0)


if __name__ == "__main__":
    main()
