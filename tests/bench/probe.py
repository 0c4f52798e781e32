"""The probe beside plain torch: what it measures, how soon, and what a plan for 1,024 GPUs comes to."""

from __future__ import annotations

import importlib.util
import json
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from gpuwatch.probe.conducting.plan import Plan, make_plan
from gpuwatch.probe.results import Seat
from gpuwatch.probe.wish import Wish
from tests.bench.cpu import Row
from tests.cli.running import COMMAND, ROOT, environment
from tests.end_to_end.pty_program import Pty

RUNS = 7
TURNS = 12
"""Single runs differ by a half on a busy machine."""
SIZE_MIB = 64
ITERATIONS = 8
NODES, GPUS = 128, 8
FIRST_ROW = re.compile(rb"\b1 row\b")


def rows(folder: Path) -> Sequence[Row]:
    """The probe's lines of the table."""
    if importlib.util.find_spec("torch") is None:
        return [*plan_rows(), Row("probe", "torch is not installed here", "", None)]
    hosts = folder / "hosts.yaml"  # which Python: the one that runs the scripts beside it
    hosts.write_text(f"hosts: [{{name: here, link: local, python: {json.dumps(sys.executable)}}}]\n")
    return [*plan_rows(), send_recv_row(hosts), first_number_row(hosts)]


def plan_rows() -> Sequence[Row]:
    """A plan for 128 nodes of 8 GPUs by the real planner."""
    seats = [
        Seat(node * GPUS + local, f"gpu-{node:03d}", local, "gpu", local)
        for node in range(NODES)
        for local in range(GPUS)
    ]
    began = time.process_time()
    plan = make_plan(seats, Wish(), "nccl")
    spent = time.process_time() - began
    covered = covered_nodes(plan, seats)
    every = NODES * (NODES - 1) // 2
    classes = sorted({each.link for each in plan.rounds})
    return [
        Row(
            f"probe of {NODES * GPUS:,} GPUs on {NODES} nodes, planned",
            f"{plan.seconds:.0f} s, {len(plan.rounds)} rounds, {covered:,} of {every:,} pairs of nodes, "
            f"classes {', '.join(classes)}",
            "<= 180 s, every pair",
            plan.seconds <= 180 and covered == every,
        ),
        Row("planning it", f"{spent * 1e3:.0f} ms CPU", "", None),
    ]


def covered_nodes(plan: Plan, seats: Sequence[Seat]) -> int:
    """Pairs of nodes that are measured over every rail."""
    nodes = {seat.rank: (seat.node, seat.local) for seat in seats}
    rails: dict[frozenset[str], set[int]] = {}
    for each in plan.rounds:
        if each.link == "same_rail":
            for src, dst in each.pairs:
                (one, rail), (other, _) = nodes[src], nodes[dst]
                rails.setdefault(frozenset((one, other)), set()).add(rail)
    return sum(len(each) == GPUS for each in rails.values())


def send_recv_row(hosts: Path) -> Row:
    """Both in turn, each first in half of the turns, so that whatever else the machine does hits both."""
    ours, plain = [], []
    for turn in range(TURNS):
        if turn % 2:
            plain.append(raw_rate())
        ours.append(probed_rate(hosts))
        if not turn % 2:
            plain.append(raw_rate())
    ratio = statistics.median(ours) / statistics.median(plain)
    medians = f"{statistics.median(ours):.2f} and {statistics.median(plain):.2f} GB/s"
    return Row(
        f"gloo send/recv {SIZE_MIB} MB, two ranks, {TURNS} runs each in turn",
        f"{ratio:.2f}x a raw torch script ({medians})",
        ">= 0.95x",
        ratio >= 0.95,
    )


def probed_rate(hosts: Path) -> float:
    """GB/s as the command says them."""
    arguments = f"--collectives send_recv --sizes 4M,{SIZE_MIB}M --no-pairs --ranks-per-node 2 --backend gloo"
    said = output_of([*COMMAND, "probe", str(hosts), *arguments.split(), "--yes", "--json", "-"])
    (row,) = (each for each in json.loads(said)["collectives"] if each["bytes"] == SIZE_MIB << 20)
    return float(row["busbw_gb_per_s"])


def raw_rate() -> float:
    """GB/s of a script that does nothing else."""
    script = Path(__file__).parent / "raw_send_recv.py"
    return float(output_of([sys.executable, str(script), str(SIZE_MIB), str(ITERATIONS)]))


def output_of(argv: Sequence[str]) -> str:
    """What a command wrote on stdout, whatever it thought of the links."""
    done = subprocess.run(
        argv, cwd=ROOT, env=environment(), capture_output=True, text=True, timeout=300, check=False
    )
    if not done.stdout:
        raise RuntimeError(f"{argv[0]}: {done.stderr}")
    return done.stdout


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


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        print(*rows(Path(folder)), sep="\n")
