"""Links that break, and nodes that come back: what happened meanwhile, and what is not made of it."""

from __future__ import annotations

import pytest

from gpuwatch.diagnose.missing_ranks import unwatched_ends
from gpuwatch.diagnose.model.incident import Incident
from gpuwatch.own_folders import state_folder
from gpuwatch.session import Session
from tests.drills.jobs import StartJob, end
from tests.drills.namespaces import Cluster
from tests.end_to_end.cluster import watch
from tests.end_to_end.launched import pause
from tests.parts import SEEN_BY_EVERY_AGENT

pytestmark = SEEN_BY_EVERY_AGENT


def test_a_lost_node_lists_no_rank_of_a_job_that_has_ended(
    start_job: StartJob, cluster: Cluster, session: Session
) -> None:
    with start_job("over", nodes=("n2",)) as run:
        run.until(lambda: run.steps(1))
        for rank in (0, 1):
            run.order(rank, "finish")
        run.until(lambda: all(each.until for each in session.book.places.ranks if each.job == run.name))
        pause(session, 2.0)  # an end within the last second may be that of the link
        with cluster["n2"].unreachable():

            def lost() -> list[Incident]:
                return [each for each in session.book.incidents if each.code == "node_lost" and not each.over]

            run.until(lost)
            (incident,) = lost()
            assert (incident.rank, "rank" in incident.headline) == (None, False)
        run.until(lambda: session.fleet.nodes["n2"].link.phase == "live")


def test_a_job_that_ended_while_its_node_was_out_of_reach_is_reported_once(
    start_job: StartJob, cluster: Cluster, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its ranks write nothing; a later session knows it from this one."""
    monkeypatch.setattr(unwatched_ends, "SETTLE_S", 1.0)
    with start_job("quiet", "--nowhere", nodes=("n2",), quiet=True) as run:
        node = session.fleet.nodes["n2"]
        with cluster["n2"].unreachable():
            run.until(lambda: node.link.phase != "live", 90.0)
            end(run.launchers[0])
        run.until(lambda: unwatched_ends.CODE in [code for code, _, _ in run.named()], 90.0)
        incident = next(each for each in run.incidents() if each.code == unwatched_ends.CODE)
        assert (incident.node, incident.rank, "2 ranks" in incident.headline) == ("n2", None, True)
        kept = state_folder() / "failed_jobs.json"
        run.until(lambda: kept.exists() and f"{unwatched_ends.CODE}@{run.name}" in kept.read_text(), 90.0)
        with cluster.session() as later:
            kept_as = (run.name, unwatched_ends.CODE)
            watch(
                later,
                lambda _f, _n: kept_as in [(each.job, each.code) for each in later.book.incidents],
                90.0,
            )
