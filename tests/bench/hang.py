"""What verdicts over 1,000 ranks cost: of their dumps, their stacks, NCCL's counts and their GPUs."""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from gpuwatch.diagnose.hang.flight_recorder.verdict import judge_flight
from gpuwatch.diagnose.hang.ras.json_format import read_json
from gpuwatch.diagnose.hang.ras.verdict import judge_ras
from gpuwatch.diagnose.hang.stacks.compare import judge_stacks
from gpuwatch.diagnose.straggler.straggler_watch import EVERY_S, StragglerWatch
from gpuwatch.hosts.plan import Thresholds
from gpuwatch.runs.flight.dumps import read_dump
from tests.bench.cpu import Row
from tests.diagnose.dumps import content, job, steps
from tests.diagnose.hang.rank_stacks import LOADS, WAITS
from tests.diagnose.hang.rank_stacks import python as stack_of
from tests.diagnose.simulated_jobs import GPUS, H100, Cluster, Job
from tests.servers.ras_server import answer, rank

RANKS, ENTRIES = 1000, 2000
GOAL_S = 0.1
GOAL = f"<= {GOAL_S * 1e3:.0f} ms"


def rows(_folder: Path) -> Sequence[Row]:
    """Dumps with a full ring of 2,000 entries."""
    dumps = job(RANKS, {500: steps(ENTRIES - 1, "completed")}, steps(ENTRIES))
    judging = _best(lambda: judge_flight(dumps))
    data = pickle.dumps(content(steps(ENTRIES), {"0": range(RANKS)}), 2)
    reading = _best(lambda: read_dump(data, 0, "trace_rank_0"))
    stacks = [stack_of(rank, LOADS if rank == 500 else WAITS) for rank in range(RANKS)]
    merging = _best(lambda: judge_stacks(stacks))
    reported = read_json(answer([rank(n, 41 if n == 500 else 42) for n in range(RANKS)]).encode(), "n", "a")
    counting = _best(lambda: judge_ras([reported]))
    comparing = _comparing()
    return [
        _verdict(f"stragglers: verdict over {RANKS:,} ranks that tell their own times", comparing),
        _verdict(f"stacks: verdict over {RANKS:,} ranks", merging),
        _verdict(f"RAS: verdict over {RANKS:,} ranks", counting),
        _verdict(f"flight: verdict over {RANKS:,} dumps of {ENTRIES:,} entries", judging),
        Row(
            "flight: one dump read",
            f"{reading * 1e3:.0f} ms CPU ({len(data) / 1e6:.1f} MB)",
            "",
            None,
            reading,
        ),
    ]


def _verdict(what: str, seconds: float) -> Row:
    return Row(what, f"{seconds * 1e3:.0f} ms CPU", GOAL, seconds <= GOAL_S, seconds)


def _comparing() -> float:
    """Return the CPU seconds of the most expensive check, once all figures are known for a minute."""
    cluster, watch, most = Cluster(models=(H100,) * (RANKS // GPUS)), StragglerWatch(Thresholds()), 0.0
    cluster.jobs = [Job("train", cluster.places, "all")]
    for number in range(20):
        cluster.tick()
        began = time.process_time()
        watch.go(cluster.fleet, cluster.now, cluster.wall)
        if number * EVERY_S >= 60.0:
            most = max(most, time.process_time() - began)
    return most


def _best(call: Callable[[], object]) -> float:
    best = float("inf")
    for _ in range(5):
        began = time.process_time()
        call()
        best = min(best, time.process_time() - began)
    return best
