"""The book of alerts: states over time, silences, acknowledgements, and incidents that keep their numbers."""

from __future__ import annotations

import re

import pytest
from msgspec import structs

from gpuwatch import wire
from gpuwatch.diagnose.model.incident import acknowledged_with
from gpuwatch.link.stream.inbox import LinkStatus
from tests.diagnose.incidents.alert_cluster import TIMED_OUT, Cluster
from tests.diagnose.story import EPOCH, NOW
from tests.sentences import Sentences
from tests.tui.scripted_alerts import demo_incident


def test_a_value_fires_after_it_held_and_ends_after_it_was_fine_for_a_while() -> None:
    cluster = Cluster()
    hot = {"GPU-0-3": 85.0}
    cluster.step(9, hot)
    assert cluster.states("temperature") == []
    cluster.step(4, hot)
    assert cluster.states("temperature") == ["firing"]
    (alert,) = (a for a in cluster.book.alerts.values() if a.code == "temperature")
    assert (alert.node, alert.gpu, alert.rank, alert.job) == ("gpu-001", 3, 3, "4711")
    cluster.step(25, {"GPU-0-3": 81.0})  # under the limit of 82, but not by the margin
    assert cluster.states("temperature") == ["firing"]
    cluster.step(15)
    assert cluster.states("temperature") == ["firing"]
    cluster.step(10)
    assert cluster.states("temperature") == ["resolved"]
    assert cluster.book.incidents == []


def test_a_short_peak_is_no_alert() -> None:
    cluster = Cluster()
    for _ in range(5):
        cluster.step(3, {"GPU-0-3": 90.0})
        cluster.step(25)
    assert cluster.states("temperature") == []


def test_an_outlier_among_its_neighbours_fires_under_every_limit() -> None:
    cluster = Cluster()
    cluster.step(15, {"GPU-1-2": 78.0})
    (alert,) = cluster.book.alerts.values()
    assert (alert.code, alert.node, alert.gpu) == ("hotter_than_peers", "gpu-002", 2)
    assert [int(n) for n in re.findall(r"\d+", alert.text)] == [78, 60]


def test_a_lost_gpu_and_its_xid_are_one_alert_and_one_incident(sentences: Sentences) -> None:
    cluster = Cluster(skew=30.0)
    xid = wire.Event(
        t=cluster.t, seq=4, event="xid", code=79, gpu="GPU-1-1", title="GPU has fallen off the bus",
        severity="critical", source="kernel",
    )  # fmt: skip
    cluster.report("gpu-002", xid)
    cluster.find(
        "gpu.xid.fell_off", None, "gpu-002", file=wire.KERNEL_LOG, fields={"xid": 79, "pci": "0000:01:00"}
    )
    at = cluster.now
    cluster.step(1)
    cluster.lost.add("GPU-1-1")
    lost = wire.GpuSample("GPU-1-1", state="lost", reason="GPU is lost")
    cluster.report("gpu-002", wire.Sample(t=cluster.t, seq=5, gpus=[lost]))
    cluster.step(2)
    xids = [alert for alert in cluster.book.alerts.values() if alert.code in ("gpu.xid.fell_off", "gpu_lost")]
    assert len(xids) == 1
    assert xids[0].first == EPOCH + at - NOW
    assert {proof.kind for proof in xids[0].proof} == {"line", "event", "value"}
    (incident,) = cluster.book.incidents
    sentences(incident.headline)


@pytest.mark.parametrize(("ago_s", "gpu", "count"), [(1500, 1, 1), (1500, 2, 2), (4000, 1, 2)])
def test_a_gpu_that_was_lost_before_the_session_is_one_incident(ago_s: float, gpu: int, count: int) -> None:
    cluster = Cluster()
    cluster.report(
        "gpu-002",
        wire.Event(
            t=cluster.t - ago_s, seq=4, event="xid", code=79, gpu="GPU-1-1", title="GPU has fallen off",
            severity="critical", source="kernel",
        ),
    )  # fmt: skip
    cluster.lost.add(f"GPU-1-{gpu}")
    lost = wire.GpuSample(f"GPU-1-{gpu}", state="lost", reason="GPU is lost")
    cluster.report("gpu-002", wire.Sample(t=cluster.t, seq=5, gpus=[lost]))
    cluster.step(2)
    assert len(cluster.book.incidents) == count


def test_a_recovery_line_ends_an_alert() -> None:
    cluster = Cluster()
    finding = cluster.find("data.loader_timeout", 3)
    cluster.step()
    assert cluster.states("data.loader_timeout") == ["firing"]
    assert not cluster.book.incidents[0].over
    cluster.report("gpu-001", structs.replace(finding, closed=True))
    cluster.step()
    assert cluster.states("data.loader_timeout") == ["resolved"]
    assert cluster.book.incidents[0].over


def test_what_an_agent_tells_again_after_a_reconnect_is_the_same_alert() -> None:
    cluster = Cluster()
    finding = cluster.find("oom.cuda", 3)
    cluster.step(30)
    cluster.report("gpu-001", LinkStatus("lost", "gone"), LinkStatus("live"))
    again = structs.replace(finding, id=77, backlog=True, timed=False, at=cluster.t)
    cluster.report("gpu-001", again)
    cluster.step(5)
    (alert,) = cluster.book.alerts.values()
    assert (alert.first, alert.timed, alert.count) == (finding.at, True, 1)
    assert cluster.book.incidents[0].number == 1


def test_acknowledged_and_silenced_alerts_are_not_counted() -> None:
    cluster = Cluster()
    cluster.find("oom.cuda", 3)
    cluster.find("storage.full", 12, "gpu-002")
    cluster.step()
    assert cluster.book.counts["error"] == 2
    (incident,) = cluster.book.incidents
    cluster.book.silence("storage.*", node="gpu-002", until=EPOCH + 600)
    cluster.step()
    assert cluster.book.counts["error"] == 1
    cluster.book.acknowledge(incident.id)
    cluster.step()
    assert cluster.book.counts["error"] == 0
    assert (cluster.book.incidents[0].acknowledged, cluster.book.incidents[0].over) == (True, False)
    cluster.step(1)
    cluster.now += 600
    cluster.step(11)
    assert cluster.book.counts["error"] == 1
    cluster.book.silence("storage.full")
    cluster.step()
    assert cluster.book.counts["error"] == 0
    cluster.book.unsilence("storage.full")
    cluster.step()
    assert cluster.book.counts["error"] == 1


def test_an_incident_is_acknowledged_without_what_was_noted_about_other_gpus() -> None:
    cause = demo_incident().alerts[0]
    places = {
        "own": (cause.node, cause.gpu),
        "node": (cause.node, None),
        "gpu": (cause.node, 7),
        "far": ("n", None),
    }
    notes = [
        structs.replace(cause, id=name, role="hint", node=node, gpu=gpu)
        for name, (node, gpu) in places.items()
    ]
    incident = structs.replace(demo_incident(), cause=cause, alerts=(cause, *notes))
    alerts = {alert.id: alert for alert in incident.alerts}
    meant = [alert.id for alert in acknowledged_with(incident.id, [incident], alerts)]
    assert meant == [cause.id, "own", "node"]
    assert acknowledged_with("far", [incident], alerts) == [alerts["far"]]


def test_silences_are_plain_data_that_a_later_session_takes_back() -> None:
    cluster = Cluster()
    cluster.book.silence("oom.cuda", rank=3)
    other = Cluster()
    other.book.restore(cluster.book.silences)
    other.find("oom.cuda", 3)
    other.find("oom.cuda", 4)
    other.step()
    assert [alert.silenced for alert in other.book.alerts.values()] == [True, False]


def test_an_incident_keeps_its_number_and_id_while_it_grows() -> None:
    cluster = Cluster()
    for rank in range(4):
        cluster.find("peer.connection_lost", rank)
        cluster.find("rank.abort", rank)
    cluster.find("storage.full", 15, "gpu-002", at=cluster.t + 300)
    cluster.step()
    unknown, storage = cluster.book.incidents  # the storage is dated in the future
    cluster.find("oom.cuda", 9, "gpu-002", at=cluster.t - 3)
    cluster.step(5)
    after = {incident.number: incident for incident in cluster.book.incidents}
    assert after[unknown.number].id == unknown.id
    assert (after[unknown.number].code, after[unknown.number].rank) == ("oom.cuda", 9)
    assert after[storage.number].id == storage.id


def test_a_lost_node_explains_its_ranks(sentences: Sentences) -> None:
    cluster = Cluster(4)
    cluster.step(5)
    lost_at = cluster.t
    cluster.report("gpu-003", LinkStatus("lost", "no route to host"))
    cluster.step(10, silent="gpu-003")
    for rank in [*range(16), *range(24, 32)]:
        cluster.find(
            "nccl.watchdog_timeout", rank, f"gpu-{rank // 8 + 1:03d}", at=lost_at + 601, fields=TIMED_OUT
        )
    cluster.step(5, silent="gpu-003")
    (incident,) = cluster.book.incidents
    assert (incident.code, incident.node, incident.followers) == ("node_lost", "gpu-003", 24)
    sentences(incident.headline)


def test_all_nodes_lost_at_once_are_no_incident() -> None:
    cluster = Cluster(4)
    for name in cluster.names:
        cluster.report(name, LinkStatus("lost", "no route to host"))
    for _ in range(20):
        cluster.now += 1
        cluster.book.update(cluster.fleet, cluster.now, EPOCH + cluster.now - NOW)
    assert cluster.states("node_lost") == ["firing"] * 4
    assert cluster.book.incidents == []


def test_ranks_that_have_ended_are_still_placed() -> None:
    cluster = Cluster()
    cluster.report("gpu-001", wire.Ranks(t=cluster.t, seq=9, processes=[]))
    cluster.step(5)
    cluster.find("gpu.xid.fell_off", None, file=wire.KERNEL_LOG, fields={"xid": 79, "pci": "0000:05:00"})
    cluster.step(3)
    assert cluster.book.incidents[0].rank == 5


def test_nothing_moves_while_nothing_happens() -> None:
    cluster = Cluster()
    cluster.find("oom.cuda", 3)
    cluster.step(3)
    version = cluster.book.version
    assert not cluster.step(20)
    assert cluster.book.version == version


def test_an_alert_keeps_its_id_when_a_better_or_an_earlier_line_joins_it(sentences: Sentences) -> None:
    cluster = Cluster()
    cluster.find("nccl.watchdog_timeout", 3, at=cluster.t - 5.0, fields={"seq": 7})
    cluster.step(12)
    (before,) = cluster.book.alerts.values()
    cluster.book.acknowledge(before.id)
    cluster.find("nccl.watchdog_timeout", 3, at=cluster.t - 20.0, fields={**TIMED_OUT, "pg_id": 0})
    cluster.step(12)
    (after,) = cluster.book.alerts.values()
    assert (after.id, after.acknowledged, len(after.parts)) == (before.id, True, 2)
    sentences(after.text)


def test_a_flood_of_findings_comes_to_its_end() -> None:
    cluster = Cluster()
    for number in range(3000):
        cluster.find("peer.connection_lost", number, lines=[f"peer {number} is gone"])
    cluster.step(1)
    assert cluster.book.behind
    cluster.step(30)
    assert not cluster.book.behind
    assert len(cluster.book.alerts) == 3000
