"""Slurm's word on nodes and jobs, asked for while a session goes on."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

from gpuwatch.diagnose.health.conditions import node_conditions
from gpuwatch.fleet.fleet import Fleet
from gpuwatch.hosts import external_command
from gpuwatch.hosts.plan import Thresholds
from gpuwatch.hosts.slurm.commands import scheduler_facts
from gpuwatch.session.scheduler.slurm_watch import MAX_JOBS, SlurmWatch, job_ids
from gpuwatch.wire import Ranks
from tests.hosts.slurm.printed import JOB, NODES
from tests.report.fleets import NODE_TIME, feed, plan, process

LIMIT_S = 240.0


@pytest.fixture
def scontrol(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a scontrol that prints the files `job` and `node` there; without one it fails."""
    (tmp_path / "job").write_text(JOB)
    (tmp_path / "node").write_text(NODES)
    program = tmp_path / "scontrol"
    program.write_text(
        f"#!{sys.executable}\nimport sys\n"
        "if 'nosuch' in sys.argv[-1]:\n    print('Node nosuch not found'); sys.exit(1)\n"
        f"print(open({str(tmp_path)!r} + '/' + sys.argv[2]).read())\n"
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return tmp_path


def fleet_with(*ids: str) -> Fleet:
    fleet = Fleet(plan("node001", "node002", "nosuch"))
    ranks = [process(100 + n, n, n, job=each, variables={"SLURM_JOB_ID": each}) for n, each in enumerate(ids)]
    feed(fleet, "node001", Ranks(t=NODE_TIME, seq=1, processes=ranks))
    return fleet


def test_one_unknown_node_hides_no_other(scontrol: Path) -> None:
    assert scontrol
    facts = scheduler_facts(["node001", "node002", "nosuch"], ["41"])
    assert {name: each.state for name, each in facts.nodes.items()} == {
        "node001": "MIXED", "node002": "MIXED+DRAIN",
    }  # fmt: skip
    allocation = facts.allocation("41@node001:7")
    assert allocation is not None
    assert (allocation.state, allocation.restarts) == ("RUNNING", 2)


def test_the_states_of_nodes_follow_slurm_while_the_session_goes_on(scontrol: Path) -> None:
    fleet, watch = fleet_with("41"), SlurmWatch(every_s=0.1)
    node = fleet.nodes["node002"]
    try:
        until(lambda: node.standing is not None, fleet, watch)
        (found,) = [
            each for each in node_conditions(node, Thresholds(), 0.0) if each.code == "scheduler_state"
        ]
        assert found.severity == "info"
        assert "bad nic" in found.text
        assert not fleet.nodes["node001"].standing.is_out  # type: ignore[union-attr]
        assert fleet.nodes["nosuch"].standing is None
        version = node.version
        (scontrol / "node").write_text(NODES.replace("MIXED+DRAIN", "DOWN*"))
        until(lambda: node.version > version, fleet, watch)
        found = next(
            each for each in node_conditions(node, Thresholds(), 0.0) if each.code == "scheduler_state"
        )
        assert found.severity == "warning"
        assert fleet.scheduler.allocation(None) is not None
    finally:
        watch.close()


def until(true: object, fleet: Fleet, watch: SlurmWatch) -> None:
    deadline = time.monotonic() + LIMIT_S
    assert callable(true)
    while not true():
        assert time.monotonic() < deadline
        watch.update(fleet, time.monotonic())
        time.sleep(0.02)


def test_ids_that_ranks_carry_are_asked_for_in_form_and_number_only() -> None:
    assert job_ids(fleet_with("41", "--me", "1;2", "7")) == ("41", "7")
    many = fleet_with(*map(str, range(100, 140)), "4711", "4711")
    assert len(job_ids(many)) == MAX_JOBS
    assert job_ids(many)[0] == "4711", "the id of most ranks first"


def test_without_a_job_of_slurm_nothing_is_asked() -> None:
    def look(_names: object, _jobs: object) -> None:
        raise AssertionError

    watch = SlurmWatch(look)  # type: ignore[arg-type]
    watch.update(fleet_with(), 0.0)
    watch.close()


@pytest.mark.parametrize("bad", ["sleep 600", "exit 1", "head -c 10000 /dev/urandom"])
def test_a_controller_that_hangs_fails_or_prints_garbage_delays_no_update(
    scontrol: Path, monkeypatch: pytest.MonkeyPatch, bad: str
) -> None:
    program = scontrol / "scontrol"
    good = program.read_text()
    program.write_text(f"#!/bin/sh\necho asked >> {scontrol}/asked\n{bad}\n")
    fleet, watch = fleet_with("41"), SlurmWatch(every_s=0.05)
    try:
        with monkeypatch.context() as impatient:
            impatient.setattr(external_command, "ANSWER_S", 0.5)
            until((scontrol / "asked").exists, fleet, watch)
            for _ in range(100):
                watch.update(fleet, time.monotonic())
            assert fleet.scheduler.nodes == {}
            replacement = scontrol / "good"
            replacement.write_text(good)
            replacement.chmod(0o755)
            replacement.replace(program)  # the old one may run: it cannot be written
        until(lambda: "node002" in fleet.scheduler.nodes, fleet, watch)
    finally:
        watch.close()
