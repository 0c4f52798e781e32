"""A job that was started again by hand under its own name, each time with torchrun's folder of its own."""

from __future__ import annotations

from msgspec import structs

from gpuwatch import wire
from gpuwatch.diagnose.alerts.stable_ids import LastingIds
from gpuwatch.diagnose.model.alert import Alert, Proof
from gpuwatch.diagnose.model.incident import Incident
from gpuwatch.wire.progress import PastStep
from tests.diagnose.incidents.alert_cluster import Cluster

AGAIN_S = 60.0
FAILS_S = 240.0


def test_lines_in_its_new_folder_and_the_ends_of_its_ranks_are_one_incident() -> None:
    """Both folders are named attempt_0; the ends are seen at the processes, which have no folder."""
    cluster = Cluster(1)
    t = cluster.t
    cluster.find("rank.exit_error", 3, at=t, file="process")
    cluster.step(20)
    ranks = [
        structs.replace(each, pid=each.pid + 50, start=t + AGAIN_S)
        for each in cluster.fleet.nodes["gpu-001"].processes
    ]
    cluster.step(AGAIN_S)
    cluster.report("gpu-001", wire.Ranks(t=cluster.t, seq=2, processes=ranks))
    reported = wire.Progress(
        t=cluster.t, seq=4, file="/runs/b/attempt_0/3/stdout.log", rank=3, job="4711", offset=90,
        at=t + AGAIN_S + 8, dialect="x", backlog=False, timed=True, fields={"step": 2.0},
    )  # fmt: skip
    past = [PastStep(1.0, t + AGAIN_S + 5), PastStep(2.0, t + AGAIN_S + 8)]
    cluster.report("gpu-001", structs.replace(reported, fields={}, past=past), reported)
    cluster.step(FAILS_S - AGAIN_S - 20)
    cluster.find("python.exception", 3, file="/runs/b/attempt_0/3/stderr.log", offset=900)
    cluster.step(8)
    cluster.find("rank.exit_error", 3, file="process", offset=0)
    cluster.step(8)
    opened = [each for each in cluster.book.incidents if not each.over]
    assert [each.rank for each in opened] == [3]


def test_the_ranks_of_a_slower_launcher_end_in_the_attempt_in_which_they_lost_their_peer() -> None:
    """The next attempt has begun on another node, and failed, before rank 9's launcher tells of its end."""
    cluster = Cluster(2)
    for code, rank, node, attempt, later_s in (
        ("oom.cuda", 1, "gpu-001", 0, 2),
        ("peer.connection_lost", 9, "gpu-002", 0, 12),
        ("rank.exit_error", 9, "gpu-002", None, 14),
        ("rdma.transport_retry", 8, "gpu-002", 1, 5),
    ):
        file = "/runs/launcher.out" if attempt is None else f"/runs/a/attempt_{attempt}/{rank}/stderr.log"
        cluster.find(code, rank, node=node, file=file)
        cluster.step(later_s)
    first, *_ = sorted(cluster.book.incidents, key=lambda each: each.first)
    assert first.rank == 1
    assert 9 not in {each.rank for each in cluster.book.incidents}


def test_an_incident_that_splits_leaves_its_id_to_one_part() -> None:
    """A closing is of an id: the failure of the last attempt was closed with that of the first one."""
    ids = LastingIds()
    failed, killed = (
        Alert(code, code, "critical", "", "", (Proof("line", "", 1.0, file=code),)) for code in ("b", "a")
    )

    def named(*groups: tuple[Alert, ...]) -> list[str]:
        incidents = [
            Incident("4711-1", 0, "", one[0].code, "critical", 1.0, 1.0, alerts=one) for one in groups
        ]
        return [each.id for each in ids.name_incidents(incidents)]

    assert named((failed,)) == ["4711-1"]
    assert named((killed, failed)) == ["4711-1"]
    first, second = named((killed,), (failed,))
    assert first != second
    assert "4711-1" in (first, second)
