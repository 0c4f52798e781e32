"""The rank that samples of a slow job seldom find where the others wait."""

from __future__ import annotations

from typing import Any

import pytest

from gpuwatch.diagnose.hang.stacks.compare import judge_stacks
from gpuwatch.diagnose.hang.stacks.groups import JobStacks, RankStack
from gpuwatch.diagnose.straggler.sampled_stacks import slow_rank
from gpuwatch.wire import KernelThread, ProcessStack, PythonThread, StackFrame

AT = 1_750_000_000.0
REDUCE = (
    StackFrame("all_reduce", "/x/torch/distributed/distributed_c10d.py", 2806),
    StackFrame("train_step", "/work/train.py", 31),
)
READ = (StackFrame("read_shard", "/work/data.py", 9), StackFrame("train_step", "/work/train.py", 20))


def sample(reading: set[int], world: int = 4) -> JobStacks:
    """Ranks of a job; those in `reading` read a shard, the others are in all_reduce."""

    def stack(rank: int) -> ProcessStack:
        frames = list(READ if rank in reading else REDUCE)
        thread: Any = KernelThread(tid=100 + rank, name="python", state="S")
        python: Any = PythonThread(main=True, frames=frames)
        return ProcessStack(pid=100 + rank, threads=[thread], python=[python])

    ranks = [RankStack(n, "n1", 100 + n, "job", world=world, stack=stack(n)) for n in range(world)]
    (judged,) = judge_stacks(ranks)
    return judged


@pytest.mark.parametrize(
    ("samples", "rank"),
    [
        ([{3}] * 6 + [{3, 1}, {3, 0}], 3),
        ([{3}, {3, 0}, {3, 1}, {3, 2}, {3, 0, 1}, {3}, set(), {3}], 3),  # sampled one after the other
        ([{3}] * 4 + [set()] * 4, None),  # it waits in half of them
        ([{3, 2}] * 8, None),
        ([{0, 1, 2}, {0, 1, 3}, {1, 2, 3}, {0, 2, 3}] * 2, None),  # all work most of the time
        ([{3}] * 4, None),
        ([], None),
    ],
)
def test_the_only_rank_that_seldom_waits_is_named(samples: list[set[int]], rank: int | None) -> None:
    found = slow_rank([sample(each) for each in samples], AT)
    assert (None if found is None else found.rank) == rank
    assert found is None or "read_shard" in found.text


def test_a_rank_that_answered_once_and_waited_is_not_named() -> None:
    samples = [sample(set(), world=4), *(sample(set(), world=3) for _ in range(7))]
    assert slow_rank(samples, AT) is None
