"""What one node reports of another one that answers and whose ranks run: no verdict of high confidence."""

from __future__ import annotations

import random

import pytest
from msgspec import structs

from gpuwatch import wire
from gpuwatch.diagnose.alert_book import AlertBook
from gpuwatch.diagnose.alerts.from_findings import UNKNOWN_FINDING
from gpuwatch.rules.load import load_packs
from tests.diagnose.incidents.alert_cluster import LIMITS, Watched, idle

PACKS = load_packs()
KINDS = sorted(PACKS.by_id)
VICTIM, RANK, PID = "gpu-002", 9, 101
TABLE = ["Root Cause (first observed failure):", "[0]:", "  host      : gpu-002",
         "  rank      : 9 (local_rank: 1)", "  exitcode  : -9 (pid: 101)"]  # fmt: skip
FORMS: dict[str, dict[str, object]] = {
    "host": {"host": VICTIM},
    "host in capitals": {"host": VICTIM.upper()},
    "node": {"fields": {"node": VICTIM}},
    "node with a domain": {"fields": {"node": f"{VICTIM.title()}.example.org."}},
    "node and host": {"host": VICTIM, "fields": {"node": VICTIM, "host": VICTIM}},
    "task": {"host": VICTIM, "fields": {"node": VICTIM, "tasks": RANK, "task": RANK}},
    **{
        f"rank from its {source}": {"rank": RANK, "rank_from": source, "file": "/tmp/rank9.log"}
        for source in ("line", "field", "process", "path", "index")
    },
    "missing ranks": {"fields": {"missing_ranks": str(RANK), "culprit_ranks": str(RANK)}},
    "lagging ranks": {"fields": {"lagging_ranks": f"[{RANK}]", "peer_rank": RANK}},
    "missing ranks in the text": {"lines": [f"Missing ranks: {RANK}"]},
    "table": {"lines": TABLE, "key": 4, "fields": {"pid": PID, "exitcode": -9}},
    "pid": {"host": VICTIM, "pid": PID, "fields": {"pid": PID}},
    "peer": {"fields": {"peer": VICTIM, "address": "10.0.0.2", "remote": VICTIM, "peer_rank": RANK}},
    "local rank": {"host": VICTIM, "local_rank": 1, "fields": {"local_rank": 1}},
    "gpu": {"host": VICTIM, "gpu": "GPU-1-1", "fields": {"pci": "0000:01:00", "gpu": 1}},
    "index": {"index": RANK, "index_of": "task", "host": VICTIM},
    "kernel log": {"host": VICTIM, "file": wire.KERNEL_LOG, "fields": {"node": VICTIM}},
}


@pytest.fixture(scope="module")
def cluster() -> Watched:
    """gpu-001 and gpu-002 share a job; gpu-003 runs nothing."""
    cluster = Watched(packs=PACKS)
    idle(cluster, "gpu-003")
    cluster.wait()
    return cluster


def accused(cluster: Watched) -> list[tuple[str, str | None, str]]:
    """Class, node and confidence of the verdicts of high confidence that name the other node."""
    return [
        (each.code, each.node, each.confidence)
        for each in cluster.book.incidents
        if each.confidence == "high" and (each.node == VICTIM or each.rank == RANK)
    ]


def forget(cluster: Watched) -> None:
    """The same fleet, of which nothing was reported yet."""
    cluster.fleet.findings.clear()
    cluster.book = AlertBook(PACKS, LIMITS)


def attack(cluster: Watched, kinds: list[str], forms: list[str], sender: str, ago: float) -> None:
    for kind, form in zip(kinds, forms, strict=True):
        facts: dict[str, object] = {
            "file": "/tmp/x.log",
            "job": "4711",
            "severity": "critical",
            "role": "root",
        }
        facts |= FORMS[form]
        cluster.find(kind, node=sender, at=cluster.t - ago, **facts)  # type: ignore[arg-type]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("sender", ["gpu-001", "gpu-003"])
@pytest.mark.parametrize("seed", range(2))
def test_one_nodes_words_name_no_other_node_with_high_confidence(
    cluster: Watched, sender: str, seed: int
) -> None:
    """Every kind of finding, alone and with a second one, of now and of before the ranks were seen."""
    chance = random.Random(f"{seed}-{sender}")
    for kind in KINDS:
        forget(cluster)
        kinds = [kind, *chance.sample(KINDS, chance.choice((0, 0, 1)))]
        forms = [chance.choice(list(FORMS)) for _ in kinds]
        attack(cluster, kinds, forms, sender, chance.choice((0.0, 0.0, 40.0, 7200.0)))
        for seconds in (3, 18):
            cluster.step(1)
            cluster.now += seconds - 1
            assert accused(cluster) == [], (kinds, forms)


def test_a_rule_that_is_in_no_pack_is_shown_as_the_nodes_words_and_leads_nothing(cluster: Watched) -> None:
    forget(cluster)
    finding = wire.Finding(
        t=cluster.t, seq=9, id=9_000, rule="gpu.xid.invented", severity="critical", role="root",
        file=wire.KERNEL_LOG, offset=0, at=cluster.t, timed=True, host=VICTIM, rank=RANK, lines=["gone"],
    )  # fmt: skip
    cluster.report("gpu-001", finding)
    cluster.step(3)
    alert = cluster.alert(UNKNOWN_FINDING)
    assert (alert.node, alert.rank, alert.severity, alert.role) == ("gpu-001", None, "warning", "hint")
    assert "gpu.xid.invented" in alert.text
    assert cluster.book.incidents == []


@pytest.mark.parametrize("spelling", ["gpu-002", "GPU-002", "gpu-002.", "Gpu-002.example.org"])
@pytest.mark.parametrize("rank", [None, 0])
def test_a_node_is_known_by_its_name_in_any_spelling(spelling: str, rank: int | None) -> None:
    cluster = Watched()
    cluster.find("slurm.node_failure", rank, rank_from="process", fields={"node": spelling}, job="4711")
    cluster.wait()
    alert = cluster.alert("slurm.node_failure")
    assert (alert.node, alert.rank, alert.refuted) == ("gpu-002", None, True)
    assert (cluster.incident().rank, cluster.incident().confidence) == (None, "low")


def claim(cluster: Watched, ranks: list[int]) -> None:
    """gpu-003 lists ranks of the job of gpu-001 and gpu-002 as its own."""
    listed = [
        wire.Process(700 + rank, "python", rank=rank, job="4711", world_size=16, start=cluster.t - 9000)
        for rank in ranks
    ]
    cluster.report("gpu-003", wire.Ranks(t=cluster.t, seq=7, processes=listed))
    cluster.step(3)


@pytest.mark.parametrize(
    ("claimed", "liar", "honest"), [([RANK], "low", "medium"), (list(range(8, 16)), "medium", "medium")]
)
def test_a_rank_that_two_nodes_list_is_named_with_less_confidence(
    claimed: list[int], liar: str, honest: str
) -> None:
    cluster = Watched()
    idle(cluster, "gpu-003")
    claim(cluster, claimed)
    for sender, level in (("gpu-003", liar), ("gpu-002", honest)):
        cluster.fleet.findings.clear()
        cluster.book = AlertBook(cluster.packs, LIMITS)
        cluster.find("oom.cuda", RANK, sender, rank_from="process", job="4711")
        cluster.step(3)
        incident = cluster.incident()
        assert (incident.rank, incident.confidence) == (RANK, level)
        assert ("gpu-002" if sender == "gpu-003" else "gpu-003") in incident.because


def test_the_honest_nodes_error_goes_before_that_of_a_node_that_claims_its_rank() -> None:
    cluster = Watched()
    idle(cluster, "gpu-003")
    claim(cluster, [RANK])
    cluster.find("oom.cuda", RANK, "gpu-003", rank_from="process", job="4711")
    cluster.step(2)
    cluster.find("storage.full", RANK, "gpu-002", rank_from="process", job="4711")
    cluster.step(3)
    assert (cluster.incident().code, cluster.incident().node) == ("storage.full", "gpu-002")


def test_a_second_node_or_the_end_of_the_rank_makes_the_verdict_sure() -> None:
    for confirmed in ("another node", "the end"):
        cluster = Watched()
        cluster.find("nccl.desync_report", 0, rank_from="process", fields={"missing_ranks": "9"}, job="4711")
        cluster.step(3)
        assert (cluster.incident().rank, cluster.incident().confidence) == (RANK, "medium")
        if confirmed == "the end":
            left = [each for each in cluster.fleet.nodes[VICTIM].processes if each.rank != RANK]
            cluster.report(VICTIM, wire.Ranks(t=cluster.t, seq=6, processes=left))
        else:
            idle(cluster, "gpu-003")
            mates = structs.replace(cluster.fleet.nodes[VICTIM].processes[0], rank=16, pid=300)
            cluster.report("gpu-003", wire.Ranks(t=cluster.t, seq=6, processes=[mates]))
            cluster.find("nccl.desync_report", 16, "gpu-003", rank_from="process",
                         fields={"missing_ranks": "9"}, job="4711")  # fmt: skip
        cluster.step(6)
        assert (cluster.incident().rank, cluster.incident().confidence) == (RANK, "high"), confirmed
