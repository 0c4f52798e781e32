"""The table of a launcher that failed is about its own host, and not about a job that runs on others."""

from __future__ import annotations

import pytest

from gpuwatch import wire
from tests.diagnose.watched_jobs import Watched
from tests.fleet.jobs.two_jobs import WALL, rank

LOG = "/srv/jobs/im/train.log"
TABLE = ["Root Cause (first observed failure):", "  host      : n1", "  rank      : 1 (local_rank: 1)"]


@pytest.mark.parametrize("host", ["n1", "localhost", "3c1f8a"])
def test_no_rank_of_a_running_job_is_blamed_for_a_job_that_nobody_saw(host: str) -> None:
    """Torchrun on n1 failed within seconds, before its ranks were listed; another job trains on n2 and n3."""
    reported = Watched(3)
    for number in range(4):
        node = f"n{2 + number // 2}"
        each = [rank(each, 900 + each, 4, master="n2:29500", start=WALL - 90) for each in (0, 1, 2, 3)]
        reported.run(node, *(each[:2] if node == "n2" else each[2:]))
    reported.list_files("n1", wire.LogFile(LOG, source="glob"))
    reported.look(2.0)
    lines = [TABLE[0], TABLE[1].replace("n1", host), TABLE[2], "  exitcode  : 1 (pid: 3899)"]
    reported.find("n1", LOG, "oom.cuda", 99.0)
    reported.find(
        "n1", LOG, "rank.exit_error", 100.0, lines=lines, key=3, fields={"exitcode": 1, "pid": 3899}
    )
    for second in range(4):
        reported.look(102.0 + second)
    (incident,) = reported.book.incidents
    assert (incident.job, incident.node) == (None, "n1")
    assert incident.rank in (None, 1)
    ends = [alert for alert in incident.alerts if alert.code == "rank.exit_error"]
    assert [(alert.node, alert.job, alert.doubt) for alert in ends] == [("n1", None, "")]


@pytest.mark.parametrize(
    ("path", "shared", "named"),
    [
        ("launcher-b.log", False, None),
        ("launcher-b.log", True, None),
        ("launcher-a.log", False, 0),
    ],
)
def test_local_ranks_in_a_launcher_s_log_are_those_of_its_own_node(
    path: str, shared: bool, named: int | None
) -> None:
    """Ranks 0 and 1 run on n1; the launcher of n2 has ended, and its log is seen on n1, too."""
    reported = Watched(2)
    running = [rank(each, 900 + each, 4, start=WALL - 90, launcher=899, logs=[]) for each in (0, 1)]
    reported.run("n1", *running)
    files = [
        wire.LogFile("/srv/jobs/im/launcher-a.log", pids=[899]),
        wire.LogFile(
            "/srv/jobs/im/launcher-b.log", source="found", identity="7:1" if shared else None, grown_at=WALL
        ),
    ]
    reported.list_files("n1", *files)
    reported.look(2.0)
    reported.find("n1", f"/srv/jobs/im/{path}", "oom.cuda", 100.0, local_rank=0)
    for second in range(4):
        reported.look(102.0 + second)
    assert {alert.rank for alert in reported.book.alerts.values() if alert.code == "oom.cuda"} == {named}


@pytest.mark.parametrize(("collected", "node"), [(True, None), (False, "n1")])
def test_a_line_in_the_log_of_all_nodes_is_of_no_node(*, collected: bool, node: str | None) -> None:
    """`mpirun` on n1 writes what its ranks on n1 and n2 print; torchrun on n2 has a log of its own."""
    reported = Watched(2)
    out = "/srv/jobs/im/mpi.out"
    for name, first in (("n1", 0), ("n2", 2)):
        ranks = [
            rank(each, 900 + each, 4, job="7", start=WALL - 90, launcher=899, logs=[], piped=True)
            for each in (first, first + 1)
        ]
        reported.run(name, *ranks)
    reported.list_files("n1", wire.LogFile(out, pids=[899], ranks=[0, 1], job="7"))
    if not collected:
        reported.list_files("n2", wire.LogFile("/srv/jobs/im/n2.out", pids=[899], job="7"))
    reported.look(2.0)
    reported.find("n1", out, "oom.cuda", 100.0)
    reported.look(102.0)
    assert {alert.node for alert in reported.book.alerts.values() if alert.code == "oom.cuda"} == {node}


def test_an_incident_without_a_job_takes_no_gpu_from_the_rank_of_another_job() -> None:
    """Torchrun on n1 failed within seconds; then a job that holds the GPUs of n1 is started there."""
    reported = Watched()
    reported.list_files("n1", wire.LogFile(LOG, source="glob"))
    reported.look(2.0)
    reported.find("n1", LOG, "oom.cuda", 99.0)
    lines = [*TABLE, "  exitcode  : 1 (pid: 3899)"]
    fields = {"exitcode": 1, "pid": 3899}
    reported.find("n1", LOG, "rank.exit_error", 100.0, lines=lines, key=3, fields=fields)
    reported.look(110.0)
    (before,) = reported.book.incidents
    gpus = [wire.ProcessGpu(f"GPU-{number}") for number in range(2)]
    later = [rank(n, 800 + n, 2, start=WALL + 250, gpus=[gpus[n]]) for n in range(2)]
    known = [wire.GpuInfo(each.uuid, number, "H100") for number, each in enumerate(gpus)]
    hello = wire.Hello(t=WALL, seq=0, host="n1", agent="1", python="3", pid=1, interval_s=1.0, gpus=known)
    reported.report("n1", hello, at=249.0)
    reported.run("n1", *later, at=251.0)
    for second in range(4):
        reported.look(252.0 + 5 * second)
    (after,) = reported.book.incidents
    assert after.gpu is None
    assert (after.rank, after.confidence) == (before.rank, before.confidence)


def test_a_rank_that_lost_a_peer_does_not_hide_the_one_that_ended_first() -> None:
    """A cause without a rank in the launcher's log; both ranks ended with exit code 1, rank 0 followed."""
    reported = Watched()
    ranks = [rank(number, 900 + number, 2, start=WALL - 90) for number in range(2)]
    reported.run("n1", *ranks)
    launcher = wire.LogFile("/runs/9/launcher.log", pids=[900])
    reported.list_files("n1", launcher, *(wire.LogFile(each.logs[0], pids=[each.pid]) for each in ranks))
    reported.look(2.0)
    reported.find("n1", launcher.path, "storage.full", 100.0, lines=["OSError: [Errno 28] No space left"])
    reported.find("n1", launcher.path, "rank.exit_error", 100.5, rank=1, rank_from="field")
    reported.find("n1", ranks[0].logs[0], "peer.connection_lost", 100.6, rank=0, rank_from="process")
    reported.find("n1", launcher.path, "rank.exit_error", 101.0, rank=0, rank_from="field")
    for second in range(4):
        reported.look(102.0 + 5 * second)
    (incident,) = reported.book.incidents
    assert (incident.code, incident.rank) == ("storage.full", 1)
    assert incident.confidence != "high"


def test_a_line_of_healthy_starts_makes_no_alert() -> None:
    reported = Watched()
    reported.run("n1", rank(0, 900, 1, start=WALL - 90))
    reported.find("n1", "/runs/9/rank_0.log", "c10d.client_hostname", 1.0, severity="info", role="hint")
    for second in range(3):
        reported.look(2.0 + 5 * second)
    assert not reported.book.alerts


def test_an_xid_that_came_before_the_gpus_takes_its_gpu_when_they_are_known() -> None:
    reported = Watched()
    event = wire.Event(
        t=WALL + 5.0, seq=9, event="xid", severity="critical", title="Xid 79", code=79, gpu="GPU-7",
        source="driver",
    )  # fmt: skip
    reported.run("n1")
    reported.report("n1", event, at=5.0)
    reported.look(6.0)
    assert [alert.gpu for alert in reported.book.alerts.values() if alert.code.startswith("gpu.xid")] == [
        None
    ]
    known = [wire.GpuInfo("GPU-7", 1, "H100")]
    hello = wire.Hello(t=WALL, seq=0, host="n1", agent="1", python="3", pid=1, interval_s=1.0, gpus=known)
    reported.report("n1", hello, at=7.0)
    for second in range(4):
        reported.look(10.0 + 5 * second)
    assert [alert.gpu for alert in reported.book.alerts.values() if alert.code.startswith("gpu.xid")] == [1]


def test_a_launchers_word_is_not_of_the_only_rank_that_logged_steps() -> None:
    """Mpirun's log, found after the end: rank 0 alone logs steps, rank 1 lost its peer, a rank was killed."""
    reported = Watched()
    reported.list_files("n1", wire.LogFile(LOG, source="found", last_at=WALL + 90.0))
    reported.step("n1", LOG, 79)
    reported.look(2.0)
    lost = {"rank": 1, "rank_from": "line", "lines": ["[1,1]<stderr>:Connection closed by peer"]}
    reported.find("n1", LOG, "peer.connection_lost", 89.0, **lost)
    reported.find("n1", LOG, "rank.killed", 90.0, lines=["signal 9 (Killed)."])
    for second in range(4):
        reported.look(102.0 + 3 * second)
    assert [alert.rank for alert in reported.book.alerts.values() if alert.code == "rank.killed"] == [None]


def test_ranks_that_were_listed_only_between_two_placements_have_a_place() -> None:
    """They end within PLACES_S; else the first end on another node would be taken for the cause."""
    job = Watched(2)
    job.run("n1", rank(0, 900, 4), at=1.0)
    job.look(1.0)
    job.run("n2", rank(2, 700, 4, launcher=900), at=1.5)
    job.run("n2", at=2.0)
    for at in (2.5, 4.0):
        job.run("n1", rank(0, 900, 4), at=at)
        job.look(at)
    found = {(each.rank, each.node, each.until is None) for each in job.book.places.ranks}
    assert found == {(0, "n1", True), (2, "n2", False)}


@pytest.mark.parametrize(("number", "node"), [(3, None), (1, "n1")])
def test_a_rank_of_another_node_is_not_of_the_node_whose_ranks_write_the_same_log(
    number: int, node: str | None
) -> None:
    """Ranks 0 and 1 run on n1, two of them there; rank 3 had ended before the session began."""
    job, log = Watched(2), "/srv/jobs/im/train.log"
    size = {"LOCAL_WORLD_SIZE": "2"}
    job.run(
        "n1", *(rank(each, 900 + each, 4, start=WALL - 90, logs=[log], variables=size) for each in (0, 1))
    )
    job.list_files("n1", wire.LogFile(log, pids=[900, 901], ranks=[0, 1]))
    job.look(2.0)
    job.find("n1", log, "oom.cuda", 100.0, rank=number, rank_from="line")
    for second in range(4):
        job.look(102.0 + second)
    (incident,) = job.book.incidents
    assert (incident.rank, incident.node) == (number, node)
