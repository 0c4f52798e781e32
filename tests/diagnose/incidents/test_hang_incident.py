"""A hang over a whole book: alert, incident and its sentence."""

from __future__ import annotations

from msgspec import structs

from gpuwatch import wire
from tests.diagnose.incidents.alert_cluster import Cluster
from tests.diagnose.story import FINE
from tests.sentences import Sentences

WORKS = structs.replace(FINE, utilization_pct=99.0, power_w=610.0, tensor_activity_pct=40.0, throttle=[])
SPINS = structs.replace(WORKS, utilization_pct=100.0, power_w=190.0, tensor_activity_pct=0.0)
IDLE = structs.replace(WORKS, utilization_pct=0.0, power_w=120.0, tensor_activity_pct=0.0)


class Training(Cluster):
    """A job that tells a step every two seconds while it trains."""

    step_number = 0

    def train(self, seconds: int) -> None:
        for _ in range(seconds // 2):
            self.step_number += 1
            self.step(2, odd=dict.fromkeys(self.uuids, WORKS))
            self.wrote()

    @property
    def uuids(self) -> list[str]:
        return [f"GPU-{node}-{gpu}" for node in range(len(self.names)) for gpu in range(8)]

    def wrote(self) -> None:
        self.grown = self.t
        self.tell_logs()
        reported = wire.Progress(
            t=self.t, seq=9, file="/logs/rank_0.log", offset=self.step_number * 80, at=self.t, timed=True,
            dialect="progress.common", fields={"step": self.step_number, "loss": 2.0}, rank=0, job="4711",
        )  # fmt: skip
        self.report(self.names[0], reported)

    def tell_logs(self) -> None:
        files = [
            wire.LogFile(path="/logs/rank_0.log", ranks=[0], job="4711", pids=[100], grown_at=self.grown)
        ]
        self.report(self.names[0], wire.Logs(t=self.t, seq=8, files=files))


def test_the_incident_names_the_rank_that_the_others_wait_for(sentences: Sentences) -> None:
    cluster = Training(nodes=4)
    cluster.train(120)
    odd = {**dict.fromkeys(cluster.uuids, SPINS), "GPU-2-1": IDLE}
    for _ in range(40):
        cluster.tell_logs()
        cluster.step(2, odd=odd)
    (alert,) = (a for a in cluster.book.alerts.values() if a.code == "job.hang")
    assert (alert.state, alert.rank, alert.node, alert.gpu) == ("firing", 17, "gpu-003", 1)
    (incident,) = cluster.book.incidents
    assert (incident.code, incident.rank, incident.node) == ("job.hang", 17, "gpu-003")
    assert incident.confidence == "high"
    sentences(incident.headline)
    assert incident.headline.count("rank 17") == 1
    assert incident.do
    assert any("py-spy dump --pid 101 on gpu-003" in step for step in incident.settle)
    cluster.find("data.loader_timeout", 3, role="hint", severity="warning")
    cluster.train(10)
    assert [a.state for a in cluster.book.alerts.values() if a.code == "job.hang"] == ["resolved"]
    (incident,) = cluster.book.incidents
    assert {alert.state for alert in incident.alerts} == {"firing", "resolved"}
    assert incident.over


def test_where_nobody_stood_out_from_outside_the_timeouts_name_the_rank_that_says_nothing(
    sentences: Sentences,
) -> None:
    cluster = Training(nodes=4)
    cluster.train(120)
    odd = dict.fromkeys(cluster.uuids, SPINS)
    began = cluster.t
    for _ in range(40):
        cluster.tell_logs()
        cluster.step(2, odd=odd)
    (incident,) = cluster.book.incidents
    sentences(incident.headline)
    for rank in range(32):
        if rank != 17:
            fields = {"op": "ALLREDUCE", "seq": 61, "ran_ms": 80_000}
            cluster.find(
                "nccl.watchdog_timeout", rank, f"gpu-{rank // 8 + 1:03d}", at=began + 80, fields=fields
            )
    cluster.step(2, odd=odd)
    (incident,) = cluster.book.incidents
    assert (incident.rank, incident.node, incident.gpu) == (17, "gpu-003", 1)
    sentences(incident.headline)
