"""The commands about a rank that hangs, as they are typed on this machine."""

from __future__ import annotations

import pytest

from gpuwatch.diagnose.hang.remedies import commands, on_node
from gpuwatch.diagnose.hang.stacks.groups import RankStack
from gpuwatch.fleet.fleet import Fleet
from gpuwatch.hosts.plan import NodeSpec
from gpuwatch.wire import KernelThread, Process, ProcessStack, PythonThread, Ranks, StackFrame
from tests.report.fleets import NODE_TIME, feed, plan
from tests.sentences import Sentences


@pytest.mark.parametrize(
    ("spec", "line"),
    [
        (NodeSpec("gpu-001"), "ssh gpu-001 kill 7"),
        (
            NodeSpec("a", address="10.0.0.1", port=2222, user="ann", jump="gate"),
            "ssh -p 2222 -J gate ann@10.0.0.1 kill 7",
        ),
        (NodeSpec("here", link="local"), "kill 7"),
        (
            NodeSpec("pod-1", link="command", command=("kubectl", "exec", "-i", "{name}", "--")),
            "kubectl exec -i pod-1 -- /bin/sh -c 'kill 7'",
        ),
    ],
)
def test_a_command_goes_the_nodes_own_way(spec: NodeSpec, line: str) -> None:
    assert on_node(spec, ["kill", "7"]) == line


@pytest.mark.parametrize(
    ("state", "worker", "line"),
    [
        ("T", None, "ssh gpu-001 kill -CONT 50"),
        ("S", "T", "ssh gpu-001 kill -CONT 51"),
        ("S", "D", "ssh gpu-001 py-spy dump --subprocesses --pid 50"),
        ("S", None, "ssh gpu-001 py-spy dump --pid 50"),
    ],
)
def test_what_was_stopped_is_let_go_on_before_anything_else(
    state: str, worker: str | None, line: str, sentences: Sentences
) -> None:
    fleet = Fleet(plan("gpu-001"))
    feed(fleet, "gpu-001", Ranks(t=NODE_TIME, seq=1, processes=[Process(50, "python", rank=2, job="7")]))
    children = [KernelThread(51, state=worker)] if worker is not None else []
    stack = ProcessStack(50, threads=[KernelThread(50, state=state)], children=children)
    reported = commands(fleet, (2,), "7", {("gpu-001", 50): RankStack(2, "gpu-001", 50, stack=stack)})
    assert reported[0][1] == line
    sentences(reported[1])


@pytest.mark.parametrize(
    ("function", "ended"),
    [("save_checkpoint", False), ("run_evaluation", False), ("validate", False), ("get_batch", True)],
)
def test_a_rank_that_saves_or_evaluates_is_not_to_be_ended(function: str, ended: bool) -> None:
    fleet = Fleet(plan("gpu-001"))
    feed(fleet, "gpu-001", Ranks(t=NODE_TIME, seq=1, processes=[Process(50, "python", rank=2, job="7")]))
    frames = [StackFrame(function, "train.py", 9), StackFrame("main", "train.py", 40)]
    stack = ProcessStack(50, python=[PythonThread(main=True, frames=frames)])
    reported = commands(fleet, (2,), "7", {("gpu-001", 50): RankStack(2, "gpu-001", 50, stack=stack)})
    assert any("kill" in line for _, line in reported) is ended
    assert reported
