"""Plans what a probe measures, and estimates how long that takes, before anything runs. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from gpuwatch.probe.orchestration.planning.schedule import PairRound, full_rounds, neighbour_round
from gpuwatch.probe.probe_request import Collective, ProbeRequest
from gpuwatch.probe.results import Estimate, RankSlot

GpuCheck = Literal["matmul", "copy", "h2d", "d2h"]
GPU_CHECKS: tuple[GpuCheck, ...] = ("matmul", "copy", "h2d", "d2h")

ROW_S = 1.0
"""Target seconds for a row of the table of collectives; its iterations are chosen accordingly."""
MAX_ITERATIONS = 50
ROUND_S = {"gloo": 0.5, "nccl": 0.6}
"""Seconds of one round of pairs, both directions and the latency; NCCL also creates a connection."""
START_S = {"gloo": 4.0, "nccl": 12.0}
"""Seconds assumed for importing torch and joining the group.

The import took 1.2 to 3 s when measured; it takes longer from a cold network file system.
"""
CHECK_S = 0.3
GPU_CHECK_S = 1.5
RETEST_S = 5.0
RATE_BPS = {"gloo": 1e9, "nccl": 20e9}
"""Rate assumed for a link of unknown speed (bytes/s); over loopback, gloo reaches 1 to 4 GB/s."""


class ProbePlan(Struct, frozen=True):
    """What a probe is to measure, in order."""

    backend: Literal["nccl", "gloo"]
    checks: tuple[Collective, ...]
    """The correctness checks, which run first."""
    rows: tuple[tuple[Collective, int], ...]
    rounds: tuple[PairRound, ...]
    """The rounds of pairs; in quick mode only the first, because the second depends on its result."""
    quick: bool
    gpu_checks: tuple[GpuCheck, ...]
    seconds: float
    traffic_bytes: int

    @property
    def round_count(self) -> int:
        """Number of rounds, including the second one of quick mode."""
        return len(self.rounds) + (self.quick and bool(self.rounds))

    @property
    def step_count(self) -> int:
        """Number of steps for the progress: each row, check and round counts as one."""
        return len(self.checks) + len(self.rows) + self.round_count + len(self.gpu_checks)


def make_plan(
    slots: Sequence[RankSlot],
    request: ProbeRequest,
    backend: Literal["nccl", "gloo"],
    slowest_bps: float | None = None,
) -> ProbePlan:
    """Return the plan of a probe over these ranks.

    Args:
        slots: All ranks.
        request: What to measure.
        backend: nccl or gloo.
        slowest_bps: Bytes per second of the slowest interface, if known.
    """
    several = len(slots) > 1
    nodes = len({slot.node for slot in slots})
    rounds: tuple[PairRound, ...] = ()
    if several and request.pairs == "full":
        rounds = tuple(full_rounds(slots))
    elif several and request.pairs == "quick":
        rounds = (neighbour_round(slots),)
    quick = request.pairs == "quick" and bool(rounds)
    # Small sizes of all operations come first: when time is short, large ones are missing, and no operation.
    rows = (
        tuple((op, size) for size in sorted(request.sizes) for op in request.collectives) if several else ()
    )
    checks = request.collectives if several else tuple(op for op in request.collectives if op != "send_recv")
    gpu_checks = GPU_CHECKS if request.gpu_checks and backend == "nccl" else ()
    rate = RATE_BPS[backend]
    if backend == "gloo" and nodes > 1 and slowest_bps:
        rate = min(rate, slowest_bps)
    row_s = sum(_row_s(size, rate, request) for _, size in rows)
    round_s = ROUND_S[backend] * (len(rounds) + quick)
    seconds = START_S[backend] + CHECK_S * len(request.collectives) + row_s + round_s
    seconds += GPU_CHECK_S * len(gpu_checks) + (RETEST_S if rounds else 0.0)
    between = sum(len(each.pairs) for each in rounds if each.link != "same_node") * (2 if quick else 1)
    traffic = rate * between * ROUND_S[backend] * 0.8 + (rate * nodes * row_s if nodes > 1 else 0.0)
    return ProbePlan(
        backend,
        checks,
        rows,
        rounds,
        quick,
        gpu_checks,
        seconds=seconds,
        traffic_bytes=int(traffic),
    )


def _row_s(size: int, rate: float, request: ProbeRequest) -> float:
    """Return the seconds of a row at `rate` (bytes/s).

    Without a requested number of iterations, it is as many as `ROW_S` allows, at least 5: a check, a warm-up
    and three timed ones.
    """
    one_s = 2 * size / rate  # an all_reduce moves everything about twice
    if request.iterations is not None:
        return 0.1 + (1 + request.warmup + request.iterations) * one_s
    return max(min(ROW_S, 0.1 + MAX_ITERATIONS * one_s), 5 * one_s)


def estimate(plan: ProbePlan, slots: Sequence[RankSlot], request: ProbeRequest, interface: str) -> Estimate:
    """Return the summary of the plan that is shown before the start; the budget limits its seconds."""
    return Estimate(
        nodes=len({slot.node for slot in slots}),
        ranks=len(slots),
        backend=plan.backend,
        seconds=min(plan.seconds, request.budget_s),
        traffic_bytes=plan.traffic_bytes,
        rounds=plan.round_count,
        pairs=sum(len(each.pairs) for each in plan.rounds) * (2 if plan.quick else 1),
        interface=interface,
    )
