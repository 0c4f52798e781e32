"""Whatever one node says about the others, the incident of the honest ones keeps its culprit."""

from __future__ import annotations

import pytest

from tests.diagnose.sources.lying_node import (
    JOB,
    LIAR,
    STORIES,
    LyingNode,
    accused,
    is_named,
    lying_cluster,
)

LIES = 3
SEEDS = (0, 1, 2, 6, 7, 104, 108, 118, 119, 120, 123, 127, *range(200, 230))
"""The first ones found a fault when this test was written."""
LED_AWAY = (223,)
"""A node of the job claims that a barrier names absent ranks: its incident leads, with medium confidence."""
MEMBERS = [name for name in STORIES if name != "vanished"]
"""A rank that only vanished has nothing but lists of processes on its side: see SECURITY.md."""


@pytest.mark.parametrize("name", STORIES)
def test_the_stories_have_their_culprit(name: str) -> None:
    assert is_named(lying_cluster(name, 0, member=False, lies=0))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("seed", SEEDS)
def test_a_node_outside_the_job_changes_no_culprit(seed: int) -> None:
    for name in STORIES:
        cluster = lying_cluster(name, seed, member=False, lies=LIES)
        assert is_named(cluster), name
        assert accused(cluster) == [], name


@pytest.mark.sampled(2)
@pytest.mark.parametrize("seed", SEEDS)
def test_a_node_of_the_job_gets_no_honest_node_named(seed: int) -> None:
    for name in MEMBERS:
        cluster = lying_cluster(name, seed, member=True, lies=LIES)
        assert is_named(cluster) or seed in LED_AWAY, name
        assert accused(cluster) == [], name


@pytest.mark.parametrize(
    ("name", "seed", "lies", "member"),
    [
        ("xid", 9048, 3, True),  # of a job that no rank has
        ("xid", 9026, 7, True),  # all ranks end after another one's fault
        ("xid", 9057, 7, True),
        ("xid", 9014, 7, True),
        ("xid", 9023, 3, True),  # a doubtful claim without a node, against the kernel of another one
        ("xid", 9078, 7, False),  # a node of a job was out of reach, says one outside of it
        ("killed", 9010, 7, False),  # the same end as its own node reports
        ("killed", 9015, 7, False),
        ("killed", 9310, 7, True),  # a doubtful end of another rank, against the end that a node saw
    ],
)
def test_a_lie_that_named_another_rank_once_names_none(name: str, seed: int, lies: int, member: bool) -> None:
    cluster = lying_cluster(name, seed, member=member, lies=lies)
    assert is_named(cluster) or (name, seed) == ("xid", 9026)  # a node of the job leads with its claim
    assert accused(cluster) == []


def test_the_same_failure_of_another_node_confirms_no_claim() -> None:
    """A printed `gpu-001: CUDA out of memory`, a second before the out-of-memory of rank 9 on gpu-002."""
    cluster = LyingNode(1, member=True)
    cluster.find("oom.cuda", None, LIAR, file="/logs/rank_17.log", host="gpu-001", job=JOB, at=cluster.t - 1)
    cluster.step(1)
    STORIES["out of memory"](cluster)
    cluster.rest()
    assert accused(cluster) == []


@pytest.mark.parametrize(
    ("rule", "rank", "host", "fields", "after"),
    [
        ("storage.full", 9, None, {}, False),
        ("storage.full", None, "gpu-001", {}, False),
        ("slurm.time_limit", None, None, {}, False),
        ("rank.segfault", 12, "gpu-002", {}, False),
        ("launch.ssh_unreachable", None, "gpu-001", {"rank": 11}, False),
        ("c10d.monitored_barrier", None, None, {"node": "gpu-001", "peer_rank": 2}, True),
    ],
)
def test_words_about_another_node_lead_over_no_kernel(
    rule: str, rank: int | None, host: str | None, fields: dict[str, str | int | float], after: bool
) -> None:
    """A node of the job prints them; the kernel of gpu-002 reports the lost GPU of rank 9."""
    cluster = LyingNode(1, member=True)
    for _ in range(after):
        STORIES["xid"](cluster)
        cluster.rest(1)
    cluster.find(
        rule, rank, LIAR, severity="critical", role="root", file="/home/u/x.log", at=cluster.t - 1,
        rank_from=None if rank is None else "line", host=host, job=JOB, fields=fields,
    )  # fmt: skip
    for _ in range(not after):
        cluster.step(1)
        STORIES["xid"](cluster)
    cluster.rest(2)
    standing = [each for each in cluster.book.incidents if not each.over and each.severity != "warning"]
    assert is_named(cluster)
    assert {each.cause.kernel for each in standing if each.confidence != "low" and each.cause} == {True}


def test_a_peer_that_a_node_outside_of_its_job_names_is_no_culprit() -> None:
    cluster = LyingNode(1, member=False)
    cluster.find(
        "c10d.monitored_barrier", None, LIAR, severity="critical", role="root", file="/home/u/x.log",
        at=cluster.t - 1, fields={"node": "gpu-001", "peer_rank": 2},
    )  # fmt: skip
    cluster.step(1)
    STORIES["xid"](cluster)
    cluster.rest()
    assert is_named(cluster)
    assert [each.confidence for each in cluster.book.incidents if each.rank == 2] in ([], ["low"])
