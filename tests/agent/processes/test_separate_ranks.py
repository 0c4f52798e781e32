"""Ranks that were each started from a shell of their own, as real processes and by the facts of a group."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from subprocess import PIPE
from time import sleep

import pytest

from gpuwatch.agent.processes.process_reader import ProcessReader
from gpuwatch.agent.processes.sibling_numbers import Sibling
from gpuwatch.agent.processes.spawned_ranks import SpawnGroups
from tests.agent.trees import wait_until

RANK = Path(__file__).with_name("own_shell_rank.py")


def started(
    stack: ExitStack, folder: Path, log: str, joined: str, own: dict[str, str]
) -> subprocess.Popen[bytes]:
    """Start a shell that starts one rank; return the shell."""
    (folder / log).parent.mkdir(parents=True, exist_ok=True)
    with (folder / log).open("wb") as out:
        command = ["sh", "-c", '"$0" "$@"; exit', sys.executable, str(RANK), str(folder), joined]
        names = {name: value for name, value in os.environ.items() if name not in ("RANK", "WORLD_SIZE")}
        shell = subprocess.Popen(command, stdin=PIPE, stdout=out, stderr=out, env={**names, **own})
    return stack.enter_context(shell)


@pytest.mark.parametrize(
    ("logs", "joined", "variables", "source"),
    [
        (("rank1.log", "rank0.log"), "alone", [{}, {}], "path"),
        (("b.log", "a.log"), "alone", [{"RANK": "1"}, {"RANK": "0"}], None),
        (("w1.log", "w0.log"), "joined", [{}, {}], "order"),
        (
            ("b.log", "a.log"),
            "joined",
            [{"CUDA_VISIBLE_DEVICES": "5"}, {"CUDA_VISIBLE_DEVICES": "2"}],
            "order",
        ),
        (("b.log", "a.log"), "alone", [{}, {}], "none"),
        (("two/rank1.log", "one/rank0.log"), "alone", [{}, {}], "none"),
    ],
    ids=["path", "environment", "log number", "gpu", "two runs", "two folders"],
)
def test_ranks_of_own_shells_are_a_group(
    tmp_path: Path, logs: tuple[str, str], joined: str, variables: list[dict[str, str]], source: str | None
) -> None:
    (tmp_path / "libtorch.so").write_bytes(b"library")
    proc = tmp_path / "proc"
    proc.mkdir()
    (proc / "stat").symlink_to("/proc/stat")
    with ExitStack() as stack:
        shells = [
            started(stack, tmp_path, log, joined, own) for log, own in zip(logs, variables, strict=True)
        ]
        stack.callback(lambda: [each.stdin.close() for each in shells if each.stdin is not None])
        assert wait_until(lambda: len(list(tmp_path.glob("ready*"))) == len(logs), sleep)
        own = [children(shell.pid) for shell in shells]
        for pid in [shell.pid for shell in shells] + [pid for each in own for pid in each]:
            (proc / str(pid)).symlink_to(f"/proc/{pid}")
        found, _ = ProcessReader(proc=str(proc)).read({})
    order = {one["pid"]: (one.get("rank"), one.get("rank_source")) for one in found}
    ranks = {own[0][0]: (1, source), own[1][0]: (0, source)}
    assert order == ({} if source == "none" else ranks)


def children(pid: int) -> list[int]:
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def test_the_rank_of_those_that_train_on_stays_when_another_ends() -> None:
    groups = SpawnGroups()
    first = groups.separate(three(), lambda _: True, lambda _: True)
    left = groups.separate(three()[2:], lambda _: True, lambda _: True)
    assert [one["rank"] for one in first.values()] == [0, 1, 2]
    assert [(pid, one["rank"], one["world_size"]) for pid, one in left.items()] == [(82, 2, 3)]


def three() -> list[tuple[str, Sibling]]:
    return [("u", Sibling(80 + n, 50 + n, 5000 + n, "python t.py", [f"/r/{'abc'[n]}.log"])) for n in range(3)]


@pytest.mark.parametrize(
    ("argument", "variable", "rank"), [("--rank 2", None, 2), ("", 2, 2), ("", None, None)]
)
def test_a_process_alone_on_its_node_has_the_rank_that_it_states(
    argument: str, variable: int | None, rank: int | None
) -> None:
    command = f"python t.py {argument} --world-size 4 --dist-url tcp://n1:23456"
    one = Sibling(80, 50, 5000, command, ["/r/a.log"])
    one.own_rank = variable
    found = SpawnGroups().separate([("u", one)], lambda _: True, lambda _: True)
    assert [facts["rank"] for facts in found.values()] == ([] if rank is None else [rank])
