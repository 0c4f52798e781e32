"""Ranks that their program numbers itself, in real processes of mp.spawn and in a /proc of our own."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from gpuwatch.agent.processes import ProcessReader
from gpuwatch.agent.spawned import Sibling, ranks
from tests.parts import need_torch

JOB = Path(__file__).with_name("spawn_job.py")
PATIENCE_S = 90.0


def siblings(commands: list[str], logs: list[list[str]] | None = None, parent: int = 50) -> list[Sibling]:
    return [
        Sibling(100 + n, parent, 5000 - n, command, logs[n] if logs else [])
        for n, command in enumerate(commands)
    ]


def told(found: dict[int, dict[str, object]]) -> dict[int, tuple[object, object]]:
    return {pid: (one["rank"], one["rank_source"]) for pid, one in found.items()}


def test_the_path_or_an_argument_tells_the_rank_and_the_order_is_a_guess() -> None:
    every = lambda _pid: True  # noqa: E731 - shorter than a name for it
    plain = siblings(["python train.py"] * 2)
    assert told(ranks(plain, set(), every)) == {101: (0, "order"), 100: (1, "order")}
    named = siblings(["python train.py"] * 2, [["/r/rank1.log"], ["/r/rank0.log"]])
    assert told(ranks(named, set(), every)) == {100: (1, "path"), 101: (0, "path")}
    same = siblings(["python train.py"] * 2, [["/r/rank1.log"], ["/r/rank1.log"]])
    assert {source for _, source in told(ranks(same, set(), every)).values()} == {"order"}
    argued = siblings(["python t.py --rank 1", "python t.py --rank=0"])
    assert told(ranks(argued, set(), every)) == {100: (1, "command"), 101: (0, "command")}


@pytest.mark.parametrize(
    ("commands", "on_gpu", "distributed", "found"),
    [
        (["spawn_main a", "spawn_main b"], {100, 101}, set(), 2),
        (["spawn_main a", "spawn_main b"], {50}, set(), 0),  # workers of a data loader
        (["spawn_main a", "spawn_main b"], set(), set(), 0),
        (["python a.py", "python b.py"], {100, 101}, set(), 0),  # two runs of one person
        (["python a.py", "python b.py"], set(), {100, 101}, 2),
        (["python a.py", "resource_tracker"], set(), {100}, 0),
    ],
)
def test_what_makes_siblings_ranks(
    commands: list[str], on_gpu: set[int], distributed: set[int], found: int
) -> None:
    assert len(ranks(siblings(commands), on_gpu, distributed.__contains__)) == found


@contextmanager
def spawned(folder: Path, how: str) -> Iterator[int]:
    """The pid of the parent, once its three ranks have joined."""
    env = {**os.environ, "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}
    env = {name: value for name, value in env.items() if name not in ("RANK", "WORLD_SIZE")}
    with subprocess.Popen([sys.executable, str(JOB), str(folder), how], env=env) as parent:
        try:
            deadline = time.monotonic() + PATIENCE_S
            while not all((folder / f"ready{rank}").exists() for rank in range(3)):
                assert time.monotonic() < deadline, "the ranks do not join"
                assert parent.poll() is None
                time.sleep(0.1)
            yield parent.pid
        finally:
            children = Path(f"/proc/{parent.pid}/task/{parent.pid}/children").read_text().split()
            parent.kill()
            for child in map(int, children):
                with suppress(ProcessLookupError):
                    os.kill(child, 9)


@pytest.mark.long
@pytest.mark.parametrize(("how", "source"), [("named", "path"), ("plain", "order")])
def test_the_children_of_mp_spawn_are_ranks(tmp_path: Path, how: str, source: str) -> None:
    need_torch()
    with spawned(tmp_path, how) as parent:
        rows, _ = ProcessReader().read({})
    mine = [row for row in rows if row.get("launcher") == parent]
    assert sorted((row["rank"], row["world_size"], row["rank_source"]) for row in mine) == [
        (rank, 3, source) for rank in range(3)
    ]
    logs = {row["rank"]: Path(row["logs"][0]).name for row in mine}  # type: ignore[index]
    assert logs[0] == ("rank0.log" if how == "named" else "a.log")
