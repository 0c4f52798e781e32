"""Ranks that their program numbers itself, in real processes of mp.spawn and in a /proc of our own."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from gpuwatch.agent.processes.process_reader import ProcessReader
from gpuwatch.agent.processes.sibling_numbers import Sibling
from gpuwatch.agent.processes.spawned_ranks import SpawnGroups
from tests.agent.trees import wait_until
from tests.parts import need_torch

Asked = Callable[[int], bool]
JOB = Path(__file__).with_name("spawn_job.py")
WORKERS = Path(__file__).with_name("spawned_workers.py")
PATIENCE_S = 240.0


def siblings(commands: list[str], logs: list[list[str]] | None = None, parent: int = 50) -> list[Sibling]:
    return [
        Sibling(100 + n, parent, 5000 - n, command, logs[n] if logs else [])
        for n, command in enumerate(commands)
    ]


def ranks(group: list[Sibling], on_gpu: set[int], distributed: Asked) -> dict[int, dict[str, object]]:
    return SpawnGroups().ranks(group, on_gpu, distributed, lambda _pid: True)


def reported(found: dict[int, dict[str, object]]) -> dict[int, tuple[object, object]]:
    return {pid: (one["rank"], one["rank_source"]) for pid, one in found.items()}


def test_the_path_or_an_argument_tells_the_rank_and_the_order_is_a_guess() -> None:
    every = lambda _pid: True  # noqa: E731 - shorter than a name for it
    plain = siblings(["python train.py"] * 2)
    assert reported(ranks(plain, set(), every)) == {101: (0, "order"), 100: (1, "order")}
    named = siblings(["python train.py"] * 2, [["/r/rank1.log"], ["/r/rank0.log"]])
    assert reported(ranks(named, set(), every)) == {100: (1, "path"), 101: (0, "path")}
    same = siblings(["python train.py"] * 2, [["/r/rank1.log"], ["/r/rank1.log"]])
    assert {source for _, source in reported(ranks(same, set(), every)).values()} == {"order"}
    argued = siblings(["python t.py --rank 1", "python t.py --rank=0"])
    assert reported(ranks(argued, set(), every)) == {100: (1, "command"), 101: (0, "command")}


@pytest.mark.parametrize(
    "titles",
    [
        ["train: rank 1/2", "train: rank 0/2"],
        ["ray::Trainer[rank=1].fit()", "ray::Trainer[rank=0].fit()"],
        ["llm_train_rank1", "llm_train_rank0"],
    ],
)
def test_a_process_title_reports_the_rank(titles: list[str]) -> None:
    found = ranks(siblings(titles), set(), lambda _pid: True)
    assert reported(found) == {100: (1, "command"), 101: (0, "command")}


@pytest.mark.parametrize("name", ["ray::RayTrainWo", "train: rank 0/2"])
def test_workers_that_set_their_own_title_are_ranks(tmp_path: Path, name: str) -> None:
    for pid in (60, 61):
        (tmp_path / str(pid) / "task/1").mkdir(parents=True)
        (tmp_path / f"{pid}/task/1/comm").write_text("pt_gloo_runloop\n")
        (tmp_path / f"{pid}/stat").write_text(f"{pid} ({name}) S 50 {'1 ' * 17}{5000 + pid} {'0 ' * 30}\n")
        (tmp_path / f"{pid}/environ").write_bytes(b"")
        (tmp_path / f"{pid}/cmdline").write_bytes(name.encode())
    found, _ = ProcessReader(proc=str(tmp_path)).read({})
    assert {one["pid"]: one.get("rank") for one in found} == {60: 0, 61: 1}


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


def workers(*numbers: int, logs: str = "/r/worker_{}.log", started: int = 0) -> list[Sibling]:
    """Members without a GPU, in the order of their starts, each with a log of its own and one of all."""
    return [
        Sibling(100 + number, 50, 5000 + started + number, "", ["/r/out.log", logs.format(number)])
        for number in numbers
    ]


def ended(pid: int) -> Sibling:
    return Sibling(pid, 50, 4900 + pid, "", [], ended=True)


def given(group: list[Sibling], keeper: SpawnGroups | None = None) -> dict[int, tuple[object, object]]:
    nobody = lambda _pid: False  # noqa: E731 - shorter than a name for it
    trains = lambda _pid: True  # noqa: E731 - shorter than a name for it
    return reported((keeper or SpawnGroups()).ranks(group, set(), nobody, trains))


def test_logs_that_differ_in_one_number_make_ranks_of_processes_without_a_gpu() -> None:
    by_path = {100: (0, "path"), 101: (1, "path"), 102: (2, "path")}
    tracker = Sibling(99, 50, 4990, "resource_tracker", ["/r/out.log"])
    assert given([*workers(0, 1, 2), tracker]) == by_path
    assert given(workers(0, 1, 2, logs="/r/{}/train.txt")) == by_path
    assert given(workers(1, 2, 3)) == {}  # counted from 1: which is rank 0?
    assert given(workers(0, 40, 812)) == {}
    loaders = [Sibling(pid, 50, 5000, "", ["/r/out.log"]) for pid in (100, 101)]
    assert given(loaders) == {}
    no_library = SpawnGroups().ranks(workers(0, 1), set(), lambda _: False, lambda _: False)
    assert no_library == {}


def test_a_member_that_nobody_has_collected_is_the_rank_of_its_place() -> None:
    assert given([*workers(0, 2), ended(101)])[101] == (1, "path")
    assert given([*workers(1, 2), ended(100)])[100] == (0, "path")
    late = workers(0, 2, started=500)  # started long after it: an earlier attempt's
    assert 101 not in given([*late, ended(101)])


def test_the_ranks_of_those_that_live_on_stay() -> None:
    keeper = SpawnGroups()
    given(workers(0, 1, 2), keeper)
    assert given([*workers(1), ended(102)], keeper) == {101: (1, "path"), 102: (2, "path")}
    found = keeper.ranks(workers(1), set(), lambda _: False, lambda _: True)
    assert [(pid, each["rank"], each["world_size"]) for pid, each in found.items()] == [(101, 1, 3)]


@pytest.mark.usefixtures("only_job")
@pytest.mark.timeout(600)
def test_a_worker_without_a_gpu_that_died_is_listed_with_its_rank_and_exit_status(tmp_path: Path) -> None:
    (tmp_path / "libtorch.so").write_bytes(b"x" * 4096)
    with subprocess.Popen([sys.executable, str(WORKERS), str(tmp_path)]) as parent:
        try:
            wait_until((tmp_path / "ready").exists, time.sleep)
            rows = []
            for _ in range(600):
                listed, _ = ProcessReader().read({})
                rows = [row for row in listed if row.get("launcher") == parent.pid]
                if len(rows) == 3 and any("exit_status" in row for row in rows):
                    break
                time.sleep(0.1)
        finally:
            children = Path(f"/proc/{parent.pid}/task/{parent.pid}/children").read_text().split()
            parent.kill()
            for child in map(int, children):
                with suppress(ProcessLookupError):
                    os.kill(child, 9)
    found = sorted((row["rank"], row["rank_source"], row.get("exit_status")) for row in rows)
    assert found == [(0, "path", None), (1, "path", 3), (2, "path", None)]


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
