"""The hosts that batch systems and launchers give to a job, in order, and the ranks on them."""

from __future__ import annotations

import pytest

from gpuwatch.runs.placement.joins.allocations import allocations, ranks_in_order

PBS = b"    exec_host = a1/0*16+a2/0*16"
STATED = [
    PBS,
    b"    exec_host = a1/0-7+a2/0-7",
    b"Mon Nov  2 10:11:04: Started 16 Task(s) on Host(s) <8*a1> <8*a2>, Allocated 16 Slot(s);",
    b"8812    ann     EXIT  gpu        login1      8*a1:8*a2 llm        Nov  2 10:11",
    b'LSB_MCPU_HOSTS="a1 8 a2 8"',
    b"      771       gpu      llm      ann  R       1:12      2 a[1-2]",
    b"SLURM_JOB_NODELIST=a[1,2]",
    b"+ mpirun -np 16 -H a1:8,a2:8 python t.py",
    b"a1 slots=8\na2 slots=8",
    b"a1 8 gpu.q@a1 UNDEFINED\na2 8 gpu.q@a2 UNDEFINED",
]


@pytest.mark.parametrize("stated", STATED)
def test_ranks_follow_the_order_of_the_hosts(stated: bytes) -> None:
    places = ranks_in_order(allocations([("f", stated.split(b"\n"))]), 16, {})
    assert (len(places), places[7], places[8]) == (16, "a1", "a2")


@pytest.mark.parametrize(
    ("lines", "world", "hosts"),
    [
        ([PBS], None, {}),  # CPUs are no processes
        ([PBS], 15, {}),
        ([PBS], 16, {("rank", 3): {"a2"}}),
        ([PBS, b"    exec_host = b1/0*16+b2/0*16"], 16, {}),
        ([PBS, b"torchrun --rdzv_backend=c10d --nnodes 2"], 16, {}),
        ([PBS, b"+ srun --distribution=cyclic -n 16 python train.py"], 16, {}),
        ([PBS, b"srun -m cyclic:block python train.py"], 16, {}),
        ([PBS, b"SLURM_DISTRIBUTION=plane"], 16, {}),
        ([PBS, b"mpirun -np 16 --map-by node python train.py"], 16, {}),
        ([PBS, b"mpiexec -rf ranks.txt python train.py"], 16, {}),
    ],
)
def test_no_rank_is_placed_by_doubtful_hosts(
    lines: list[bytes], world: int | None, hosts: dict[tuple[str, int], set[str]]
) -> None:
    assert ranks_in_order(allocations([("f", lines)]), world, hosts) == {}
