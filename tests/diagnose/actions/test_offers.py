"""Which actions a place has, what they run, and what they hit."""

from __future__ import annotations

import shlex

import pytest
from msgspec.structs import replace

from gpuwatch.diagnose.actions.action import Action, ActionTarget, safe_reason
from gpuwatch.diagnose.actions.offers import possible_actions
from gpuwatch.fleet.fleet import Fleet
from gpuwatch.hosts.plan import Allocation, NodeSpec, Plan
from gpuwatch.hosts.slurm.scheduler_facts import SchedulerFacts
from gpuwatch.shell_command import value
from gpuwatch.wire import Ranks
from tests.report.fleets import NODE_TIME, feed, plan, process

HOSTILE = ("gpu;reboot", "-rf", "$(id)", "a b", "gpu-1\nreboot", "gpu\x1b[2J", "ALL", "default", "gpu-[1-9]")


def job_fleet(of: Plan, slurm: str | None = "41", user: str | None = "alice") -> Fleet:
    """A rank on each node, all of one job that Slurm knows."""
    fleet = Fleet(of)
    if slurm is not None:
        fleet.take_scheduler(
            SchedulerFacts(jobs={slurm: Allocation(slurm, "x", "alice", "RUNNING", None, 0)})
        )
    variables = {"SLURM_JOB_ID": slurm} if slurm is not None else {}
    for rank, spec in enumerate(of.nodes):
        own = process(100 + rank, 0, rank, job="41", variables=variables, start=5.0, user=user)
        feed(fleet, spec.name, Ranks(t=NODE_TIME, seq=1, processes=[own]))
    return fleet


def by_kind(target: ActionTarget, fleet: Fleet) -> dict[str, Action]:
    return {each.kind: each for each in possible_actions(target, fleet)}


def test_a_node_of_slurm_is_drained_with_a_reason_and_its_job_requeued_or_cancelled() -> None:
    found = by_kind(ActionTarget("a", about="gpuwatch: gpu.xid.79, GPU 3"), job_fleet(plan("a", "b")))
    drain, requeue, cancel = found["drain"], found["requeue"], found["cancel"]
    reason = "Reason=gpuwatch: gpu.xid.79, GPU 3"
    assert drain.argv == ("scontrol", "update", "NodeName=a", "State=DRAIN", reason)
    assert (drain.confirm, drain.node) == ("a", None)
    assert drain.undo.split() == ["scontrol", "update", "NodeName=a", "State=RESUME"]
    assert (requeue.argv, cancel.argv) == (("scontrol", "requeue", "41"), ("scancel", "41"))
    assert requeue.confirm == cancel.confirm == "41"
    assert any("2 ranks" in line for line in cancel.hits)
    assert any("a" in line and "b" in line for line in cancel.hits)


@pytest.mark.parametrize(("pausing", "offered"), [((1,), False), ((0,), True)])
def test_a_rank_that_saves_is_not_ended(pausing: tuple[int, ...], *, offered: bool) -> None:
    found = by_kind(ActionTarget("b", rank=1, job="41", pausing=pausing), job_fleet(plan("a", "b")))
    assert ("end_rank" in found, "kill_rank" in found) == (offered, offered)
    assert "cancel" in found


def test_a_rank_is_ended_on_its_node_by_the_number_of_its_process() -> None:
    found = by_kind(ActionTarget(rank=1, job="41"), job_fleet(plan("a", "b")))
    end, kill = found["end_rank"], found["kill_rank"]
    assert (end.argv, kill.argv) == (("kill", "101"), ("kill", "-KILL", "101"))
    assert (end.node, end.confirm) == ("b", "1")
    assert end.process is not None
    assert (end.process.pid, end.process.start) == (101, 5.0)
    assert end.command == "ssh b kill 101"


def test_without_slurm_nothing_of_slurm_is_offered() -> None:
    assert set(by_kind(ActionTarget("a"), job_fleet(plan("a"), slurm=None))) == {"end_rank", "kill_rank"}


def test_a_node_that_slurm_calls_otherwise_is_not_drained() -> None:
    fleet = job_fleet(plan("a", "b"))
    for name, stated in (("a", "gpu-007"), ("b", "b")):
        variables = {"SLURM_JOB_ID": "41", "SLURMD_NODENAME": stated}
        own = process(100, 0, 0, job="41", variables=variables, start=5.0)
        feed(fleet, name, Ranks(t=NODE_TIME, seq=2, processes=[own]))
    assert "drain" not in by_kind(ActionTarget("a"), fleet)
    assert "drain" in by_kind(ActionTarget("b"), fleet)


def test_a_pod_is_deleted_and_its_machine_cordoned() -> None:
    labels = {"kube_node": "gpu-7", "kube_namespace": "ml"}
    spec = NodeSpec("run7-worker-0", link="command", command=("kubectl", "exec", "--"), labels=labels)
    found = by_kind(ActionTarget(spec.name), job_fleet(Plan((spec,))))
    assert found["cordon"].argv == ("kubectl", "cordon", "gpu-7")
    assert found["cordon"].undo == "kubectl uncordon gpu-7"
    deleted = ("kubectl", "delete", "pod", "--namespace", "ml", "--wait=false", "run7-worker-0")
    assert found["delete_pod"].argv == deleted
    assert "drain" not in found


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_name_of_a_node_leaves_its_actions_out(name: str) -> None:
    spec = NodeSpec(name, labels={"slurm_state": "IDLE"})
    assert "drain" not in by_kind(ActionTarget(name), Fleet(Plan((spec,))))
    pod = replace(spec, labels={"kube_node": name, "kube_namespace": name})
    if name != "default":  # a legal name of an object there
        assert not by_kind(ActionTarget(name), Fleet(Plan((pod,))))


@pytest.mark.parametrize("job", ["41;id", "--me", "41,42", "", "$HOME", "4 1"])
def test_a_hostile_job_id_leaves_its_actions_out(job: str) -> None:
    assert not {"requeue", "cancel"} & by_kind(ActionTarget("a"), job_fleet(plan("a"), slurm=job)).keys()


def test_ranks_that_carry_another_jobs_id_have_no_action_on_a_job() -> None:
    fleet = Fleet(plan("a"))
    variables = [{"SLURM_JOB_ID": "41"}, {"SLURM_JOB_ID": "99"}]
    ranks = [process(10 + n, n, n, job="41", variables=each) for n, each in enumerate(variables)]
    feed(fleet, "a", Ranks(t=NODE_TIME, seq=1, processes=ranks))
    assert "cancel" not in by_kind(ActionTarget("a", job="41"), fleet)
    allocation = Allocation("41", "train", "ada", "RUNNING", None, 0)
    other = job_fleet(replace(plan("a"), allocation=allocation), slurm="99")
    assert "cancel" not in by_kind(ActionTarget("a"), other)


def test_a_job_that_slurm_gives_to_another_user_has_no_action() -> None:
    fleet = job_fleet(plan("a"))
    for user, offered in (("bob", False), ("alice", True)):
        fleet.take_scheduler(SchedulerFacts(jobs={"41": Allocation("41", "x", user, "RUNNING", None, 0)}))
        found = by_kind(ActionTarget("a"), fleet)
        assert ("cancel" in found) is offered
        assert not offered or any("RUNNING" in line for line in found["cancel"].hits)


def test_a_job_whose_ranks_have_no_user_has_no_action() -> None:
    """Their node states an id of Slurm, which may be that of another user's job."""
    fleet = job_fleet(plan("a"), user=None)
    fleet.take_scheduler(SchedulerFacts(jobs={"41": Allocation("41", "x", "alice", "RUNNING", None, 0)}))
    assert "cancel" not in by_kind(ActionTarget("a"), fleet)


@pytest.mark.parametrize("ident", ["0041", "4294967337", "41_0", "041_0", "41_00", "41"])
def test_an_id_that_slurm_did_not_answer_for_has_no_action(ident: str) -> None:
    facts = SchedulerFacts(jobs={"7": Allocation("7", "x", "alice", "RUNNING", None, 0)})
    fleet = job_fleet(plan("a"), slurm=ident)
    fleet.take_scheduler(facts)
    assert "cancel" not in by_kind(ActionTarget("a"), fleet)
    if ident in ("0041", "4294967337", "041_0", "41_00"):  # what Slurm reads as 41, in no command at all
        assert "cancel" not in by_kind(ActionTarget("a"), job_fleet(plan("a"), slurm=ident))
        assert value("job", ident) is None


def test_a_process_that_no_signal_may_reach_is_left_out() -> None:
    fleet = Fleet(plan("a"))
    ranks = [process(1, 0, 0), process(0, 1, 1), process(50, 2, 2, state="Z")]
    feed(fleet, "a", Ranks(t=NODE_TIME, seq=1, processes=ranks))
    assert not by_kind(ActionTarget("a"), fleet)


def test_what_is_shown_is_what_a_shell_would_run() -> None:
    reason = "it's; $(down) \x1b[2J `x` \n" * 20
    for action in possible_actions(ActionTarget("a", about=reason), job_fleet(plan("a"))):
        if action.node is None:
            assert tuple(shlex.split(action.command)) == action.argv
    assert len(safe_reason(reason)) <= 120
    assert not set("'$`;\x1b\n()") & set(safe_reason(reason))
