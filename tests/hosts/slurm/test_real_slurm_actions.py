"""Actions and the live word of a real Slurm: a drain, a requeue and a cancel that it really takes."""

from __future__ import annotations

import os
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest
from msgspec.structs import replace

from gpuwatch.diagnose.actions.action import Action, ActionTarget
from gpuwatch.diagnose.actions.offers import possible_actions
from gpuwatch.hosts.slurm.commands import known_job, node_reports
from gpuwatch.hosts.slurm.plan import job_plan
from gpuwatch.session.session import Session
from tests.servers.slurm_cluster import slurm_cluster
from tests.session import polling

pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(1200),
    pytest.mark.skipif(os.geteuid() != 0, reason="device files and munge's user need root"),
]
LIMIT_S = 400.0
until = partial(polling.until, seconds=LIMIT_S)


def test_slurm_takes_the_actions_and_the_session_sees_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for above in (tmp_path, *tmp_path.parents):
        if above.owner() == "root" and above != Path("/") and above.name != "tmp":
            above.chmod(0o755)  # munge's user passes through
    with slurm_cluster(tmp_path) as cluster:
        monkeypatch.setenv("SLURM_CONF", cluster.env["SLURM_CONF"])
        job = cluster.submit("sleep 300", "-N2", "-t", "30", "--requeue")
        cluster.wait_for(job, "RUNNING")
        found = known_job(job)
        plan = job_plan(found, node_reports(found.nodes))
        nodes = tuple(replace(spec, link="command", command=("env",)) for spec in plan.nodes)
        with closing(Session(replace(plan, nodes=nodes, discover=False))) as session:
            session.start()
            target = ActionTarget("node002", job=None, about="gpuwatch: gpu.xid.79, GPU 3")
            run(session, target, "drain")
            until(session, lambda: "DRAIN" in standing(session))
            node = session.fleet.nodes["node002"]
            assert node.standing is not None
            assert node.standing.reason.startswith("gpuwatch: gpu.xid.79, GPU 3")
            assert "DRAIN" in cluster.run("scontrol", "show", "node", "node002")
            by_job = replace(target, job=job)
            run(session, by_job, "requeue")
            until(session, lambda: restarts(session) == 1)
            cluster.run("scontrol", "update", "NodeName=node002", "State=RESUME")
            run(session, by_job, "cancel")
            cluster.wait_for(job, "CANCELLED")


def run(session: Session, target: ActionTarget, kind: str) -> None:
    action: Action = next(each for each in possible_actions(target, session.fleet) if each.kind == kind)
    acting = session.act(action, target)
    until(session, lambda: acting.outcome is not None)
    assert acting.outcome is not None
    assert acting.outcome.exit_status == 0, acting.outcome


def standing(session: Session) -> str:
    known = session.fleet.nodes["node002"].standing
    return "" if known is None else known.state


def restarts(session: Session) -> int:
    known = session.fleet.scheduler.allocation(None)
    return -1 if known is None else known.restarts
