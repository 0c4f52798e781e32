"""The probe beside plain torch: what it measures, how soon, and what a plan for 1,024 GPUs comes to."""

from __future__ import annotations

import importlib.util
import json
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from gpuwatch.link.dialers import dial_local
from gpuwatch.probe.orchestration.planning.plan import ProbePlan, make_plan
from gpuwatch.probe.orchestration.stages.collective_rates import collective_row
from gpuwatch.probe.probe_request import ProbeRequest
from gpuwatch.probe.protocol import Done, Listen, Listening, NodeSlot, Prepare, Step
from gpuwatch.probe.results import RankSlot
from tests.bench.cpu import Row
from tests.cli.running import COMMAND
from tests.end_to_end.tty.pty_program import Pty
from tests.probe.launcher.driving import Driven

RUNS = 7
TURNS = 60
"""Pairs of short turns; single ones differ by a half on a busy machine."""
SIZE_MIB = 64
WARMUP, ITERATIONS = 1, 4
NODES, GPUS = 128, 8
FIRST_ROW = re.compile(rb"\b1 row\b")


def rows(folder: Path) -> Sequence[Row]:
    """The probe's lines of the table."""
    if importlib.util.find_spec("torch") is None:
        return [*plan_rows(), Row("probe", "torch is not installed here", "", None)]
    hosts = folder / "hosts.yaml"  # which Python: the one that runs the scripts beside it
    hosts.write_text(f"hosts: [{{name: here, link: local, python: {json.dumps(sys.executable)}}}]\n")
    return [*plan_rows(), send_recv_row(), first_number_row(hosts)]


def plan_rows() -> Sequence[Row]:
    """A plan for 128 nodes of 8 GPUs by the real planner."""
    slots = [
        RankSlot(node * GPUS + local, f"gpu-{node:03d}", local, "gpu", local)
        for node in range(NODES)
        for local in range(GPUS)
    ]
    began = time.process_time()
    plan = make_plan(slots, ProbeRequest(), "nccl")
    spent = time.process_time() - began
    covered = covered_nodes(plan, slots)
    every = NODES * (NODES - 1) // 2
    classes = sorted({each.link for each in plan.rounds})
    return [
        Row(
            f"probe of {NODES * GPUS:,} GPUs on {NODES} nodes, planned",
            f"{plan.seconds:.0f} s, {len(plan.rounds)} rounds, {covered:,} of {every:,} pairs of nodes, "
            f"classes {', '.join(classes)}",
            "<= 180 s, every pair",
            plan.seconds <= 180 and covered == every,
            plan.seconds,
        ),
        Row("planning it", f"{spent * 1e3:.0f} ms CPU", "", None, spent),
    ]


def covered_nodes(plan: ProbePlan, slots: Sequence[RankSlot]) -> int:
    """Pairs of nodes that are measured over every rail."""
    nodes = {slot.rank: (slot.node, slot.local) for slot in slots}
    rails: dict[frozenset[str], set[int]] = {}
    for each in plan.rounds:
        if each.link == "same_rail":
            for src, dst in each.pairs:
                (one, rail), (other, _) = nodes[src], nodes[dst]
                rails.setdefault(frozenset((one, other)), set()).add(rail)
    return sum(len(each) == GPUS for each in rails.values())


def send_recv_row() -> Row:
    """The probe's own ranks and plain torch, both started once and run in turn; pairs of turns are compared.

    What else the machine does changes from second to second, so only turns side by side are: the median of
    their ratios is the number, and the quartiles say how sure it is.
    """
    with ProbeTurns() as ours, RawTurns() as plain:
        both = [turn_about(ours.rate, plain.rate, first=number % 2 == 0) for number in range(TURNS)]
    ratios = [probe / raw for probe, raw in both]
    low, ratio, high = statistics.quantiles(ratios, n=4)
    medians = " and ".join(f"{statistics.median(each):.2f}" for each in zip(*both, strict=True))
    return Row(
        f"gloo send/recv {SIZE_MIB} MiB, 2 ranks: the probe's busbw over a raw torch script's, "
        f"{TURNS} pairs of turns of {ITERATIONS} iterations",
        f"{ratio:.3f}x, quartiles {low:.3f} to {high:.3f} (medians {medians} GB/s)",
        ">= 0.95x, the median of the pairs' ratios",
        ratio >= 0.95,
        ratio,
    )


def turn_about(ours: Callable[[], float], plain: Callable[[], float], *, first: bool) -> tuple[float, float]:
    """Both rates, ours measured first or second: whoever is second finds the caches and the clock warm."""
    if first:
        mine = ours()
        return mine, plain()
    theirs = plain()
    return ours(), theirs


class ProbeTurns:
    """A launcher with two real ranks, sent the steps that a probe sends."""

    def __init__(self) -> None:
        self._driven = Driven(dial_local, modules=None)
        self._steps = 0

    def __enter__(self) -> ProbeTurns:
        self._driven.send(Listen(address="127.0.0.1"))
        port = self._driven.until(Listening).port
        slots = [NodeSlot(rank=rank, local=rank) for rank in range(2)]
        self._driven.send(
            Prepare(backend="gloo", world_size=2, slots=slots, store_address="127.0.0.1", store_port=port,
                    store_here=True, iface="lo")
        )  # fmt: skip
        return self

    def __exit__(self, *_error: object) -> None:
        self._driven.close()

    def rate(self) -> float:
        """GB/s of one turn."""
        self._steps += 1
        step = Step(
            id=self._steps, what="collective", collective="send_recv", bytes=SIZE_MIB << 20, warmup=WARMUP,
            iterations=ITERATIONS, check=True,
        )  # fmt: skip
        self._driven.send(step)
        done = [
            self._driven.until(Done, lambda m, rank=rank: (m.step, m.rank) == (step.id, rank))  # type: ignore[misc]
            for rank in range(2)
        ]
        return rate_of([each.times_s for each in done])


class RawTurns:
    """A script that does nothing else."""

    def __enter__(self) -> RawTurns:
        script = Path(__file__).parent / "raw_send_recv.py"
        argv = [sys.executable, str(script), str(SIZE_MIB), str(WARMUP), str(ITERATIONS)]
        self._process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        return self

    def __exit__(self, *_error: object) -> None:
        self._process.communicate(timeout=60)

    def rate(self) -> float:
        """GB/s of one turn."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return rate_of(json.loads(self._process.stdout.readline()))


def rate_of(times_s: Sequence[Sequence[float]]) -> float:
    """busbw of both ranks' iterations, by the probe's own formula for both programs."""
    row = collective_row("send_recv", SIZE_MIB << 20, dict(enumerate(times_s)), 1, None)
    assert row.busbw_gb_per_s is not None, row.error
    return row.busbw_gb_per_s


def first_number_row(hosts: Path) -> Row:
    """From the start of the command to the first row of the table, beside `import torch` in turn."""
    firsts, imports = [], []
    for _ in range(RUNS):
        began = time.monotonic()
        subprocess.run([sys.executable, "-c", "import torch"], check=True, timeout=120)
        imports.append(time.monotonic() - began)
        firsts.append(first_number_s(hosts))
    first, torch = statistics.median(firsts), statistics.median(imports)
    return Row(
        "4 CPU ranks, default sweep: from the command to the first number",
        f"{first:.2f} s; import torch alone {torch:.2f} s",
        f"<= {torch + 1.5:.2f} s (import torch + 1.5 s)",
        first <= torch + 1.5,
        first - torch,
    )


def first_number_s(hosts: Path) -> float:
    """Seconds until the progress on the terminal counts the first row."""
    arguments = "--ranks-per-node 4 --backend gloo --yes"
    began = time.monotonic()
    program = Pty([*COMMAND, "probe", str(hosts), *arguments.split()])
    program.read_until(lambda seen: FIRST_ROW.search(seen) is not None)
    took = time.monotonic() - began
    program.end()
    return took
