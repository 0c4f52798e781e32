"""What is looked at once more between the confirmation and the command."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from msgspec import structs
from msgspec.structs import replace

from gpuwatch.diagnose.actions.action import Action, ActionTarget
from gpuwatch.diagnose.actions.offers import possible_actions
from gpuwatch.fleet.fleet import Fleet
from gpuwatch.hosts.plan import NodeSpec, Plan
from gpuwatch.link.stream.inbox import LinkStatus
from gpuwatch.session.actions.running import RefusedActionError, RunningActions
from gpuwatch.wire import Process, Ranks
from tests.report.fleets import NODE_TIME, START, feed, hello, info, process

PID = os.getpid()
"""A process that must not be signalled."""
TARGET = ActionTarget("a", rank=3, job="41")


def fleet_of(*processes: Process, plan: Plan | None = None) -> Fleet:
    fleet = Fleet(plan or Plan((NodeSpec("a", link="command", command=("env",)),)))
    feed(fleet, "a", LinkStatus("live"))
    feed(fleet, "a", Ranks(t=NODE_TIME, seq=1, processes=list(processes)))
    return fleet


def own(**changes: object) -> Process:
    return structs.replace(process(PID, 0, 3, job="41", start=5.0), **changes)


def end_of(fleet: Fleet) -> Action:
    return next(each for each in possible_actions(TARGET, fleet) if each.kind == "end_rank")


def refused(action: Action, fleet: Fleet) -> None:
    running = RunningActions(lambda _ident, _text: None, lambda _node: None)
    with pytest.raises(RefusedActionError):
        running.begin(action, TARGET, fleet)


def test_another_process_with_the_same_number_is_not_signalled() -> None:
    action = end_of(fleet_of(own()))
    refused(action, fleet_of(own(start=9.0)))
    refused(action, fleet_of())
    refused(action, fleet_of(own(rank=4)))
    refused(replace(action, argv=("kill", "-KILL", "1")), fleet_of(own()))
    refused(end_of(fleet_of(own(start=None))), fleet_of(own(start=None)))


def test_a_list_from_before_the_connection_proves_nothing() -> None:
    fleet = fleet_of(own())
    action = end_of(fleet)
    feed(fleet, "a", LinkStatus("lost", "gone"), at=START + 1.0)
    feed(fleet, "a", LinkStatus("live"), at=START + 2.0)
    refused(action, fleet)


def test_a_reset_hits_the_gpu_that_was_confirmed() -> None:
    target = ActionTarget("a", gpu=1)
    fleet = fleet_of()
    feed(fleet, "a", hello(3))
    action = next(each for each in possible_actions(target, fleet) if each.kind == "reset_gpu")
    assert action.argv[-1] == info(1).uuid
    moved = [structs.replace(info(2), index=1)]
    feed(fleet, "a", structs.replace(hello(), gpus=moved))
    running = RunningActions(lambda _ident, _text: None, lambda _node: None)
    with pytest.raises(RefusedActionError):
        running.begin(action, target, fleet)


def test_a_node_that_does_not_answer_is_not_trusted() -> None:
    fleet = fleet_of(own())
    action = end_of(fleet)
    feed(fleet, "a", LinkStatus("lost", "gone"))
    refused(action, fleet)


def test_the_result_is_noted_once_and_what_still_runs_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "scontrol"
    program.write_text("#!/bin/sh\nwhile [ -e $0.wait ]; do sleep 0.1; done\necho refused:$2\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    fleet = fleet_of(own(variables={"SLURM_JOB_ID": "41"}))
    target = ActionTarget("a", incident="i1")
    drain = next(each for each in possible_actions(target, fleet) if each.kind == "drain")
    notes: list[tuple[str, str]] = []

    def note(ident: str, text: str) -> None:
        notes.append((ident, text))

    running = RunningActions(note, lambda _node: None)
    run = running.begin(drain, target, fleet)
    assert run.wait(60)
    running.update()
    running.update()
    assert len(notes) == 1
    assert notes[0][0] == "i1"
    assert "exit status 1" in notes[0][1]
    assert "refused:NodeName=a" in notes[0][1]
    wait = tmp_path / "scontrol.wait"
    wait.touch()
    run = running.begin(drain, target, fleet)
    running.close()
    assert len(notes) == 2
    wait.unlink()
    assert run.wait(60)


@pytest.mark.parametrize("plan", [
    Plan((NodeSpec("a", link="demo"),)),
    Plan((NodeSpec("a", link="command", command=("env",)),), actions=False),
])  # fmt: skip
def test_the_demo_and_actions_off_run_nothing(plan: Plan) -> None:
    fleet = fleet_of(own(), plan=plan)
    refused(end_of(fleet), fleet)
