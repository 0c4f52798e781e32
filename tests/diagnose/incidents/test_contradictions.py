"""Words about a node or rank that stand elsewhere, against what the node itself reports."""

from __future__ import annotations

import pytest
from msgspec import structs

from gpuwatch import wire
from gpuwatch.diagnose.health.node_checks import identity
from gpuwatch.diagnose.model.rank_index import RankIndex
from gpuwatch.fleet.fleet import Fleet
from gpuwatch.fleet.jobs.rank_places import places_of
from gpuwatch.hosts.plan import Thresholds
from gpuwatch.wire import Process, Ranks
from tests.diagnose.incidents.alert_cluster import TIMED_OUT, Watched, idle
from tests.report.fleets import NODE_TIME, feed, hello, plan

XID = {"xid": 79, "pci": "0000:01:00"}
TABLE = ["Root Cause (first observed failure):", "[0]:", "  rank      : 9 (local_rank: 1)",
         "  exitcode  : -9 (pid: {})"]  # fmt: skip


@pytest.fixture
def cluster() -> Watched:
    return Watched()


@pytest.mark.parametrize(
    ("node", "host"), [("gpu-001", None), ("gpu-001", "gpu-002"), ("gpu-002", "gpu-001")]
)
@pytest.mark.parametrize("rule", ["gpu.xid.fell_off", "oom.host.kernel"])
def test_a_kernel_line_of_a_ranks_log_leads_nothing_while_the_kernel_log_is_silent(
    cluster: Watched, rule: str, node: str, host: str | None
) -> None:
    cluster.find(rule, None, node, file="/logs/rank_0.log", host=host, fields=XID)
    cluster.wait()
    alert = cluster.alert(rule)
    assert (alert.severity, alert.role, alert.kernel, alert.refuted) == ("warning", "hint", False, True)
    assert (host or node) in alert.doubt
    assert cluster.book.incidents == []


def test_a_forged_kernel_line_takes_no_incident_over(cluster: Watched) -> None:
    cluster.find("gpu.xid.fell_off", 0, fields=XID)
    cluster.step(1)
    cluster.find("oom.cuda", 3)
    cluster.find("rank.killed", 0)
    cluster.step(3)
    assert cluster.incident().code != "gpu.xid.fell_off"
    assert (cluster.incident().code, cluster.incident().rank) == ("oom.cuda", 3)


@pytest.mark.parametrize("late", [-1, 0, 4])
def test_the_same_line_in_the_kernel_log_confirms_it(cluster: Watched, late: int) -> None:
    if late < 0:
        cluster.find("gpu.xid.fell_off", None, file=wire.KERNEL_LOG, fields=XID)
    cluster.find("gpu.xid.fell_off", 0, fields=XID)
    cluster.step(max(1, late))
    if late >= 0:
        cluster.find("gpu.xid.fell_off", None, file=wire.KERNEL_LOG, fields=XID)
    cluster.step(3)
    alert = cluster.alert("gpu.xid.fell_off")
    assert (alert.severity, alert.kernel, alert.refuted, alert.doubt) == ("critical", True, False, "")
    incident = cluster.incident()
    assert (incident.code, incident.node, incident.gpu, incident.confidence) == (
        "gpu.xid.fell_off", "gpu-001", 1, "high",
    )  # fmt: skip


def test_where_no_kernel_log_is_read_such_a_line_leads_with_less_confidence() -> None:
    cluster = Watched(kernel=False)
    cluster.find("gpu.xid.fell_off", 0, fields=XID)
    cluster.step(3)
    assert (cluster.incident().code, cluster.incident().confidence) == ("gpu.xid.fell_off", "medium")


def test_a_kernel_fact_is_about_the_node_that_sends_it(cluster: Watched) -> None:
    finding = cluster.find(
        "gpu.xid.fell_off", 9, "gpu-001", file=wire.KERNEL_LOG, host="gpu-002", gpu="GPU-1-1", fields=XID
    )
    cluster.step(3)
    assert finding.host == "gpu-002"
    alert = cluster.alert("gpu.xid.fell_off")
    assert (alert.node, alert.rank) == ("gpu-001", None)
    assert cluster.incident().node == "gpu-001"


def test_a_ranks_line_in_another_nodes_log_is_no_sure_cause(cluster: Watched) -> None:
    cluster.find("oom.cuda", 9, "gpu-001", file="/tmp/user.log", rank_from="line")
    cluster.step(3)
    incident = cluster.incident()
    assert incident.confidence == "low"
    assert cluster.alert("oom.cuda").refuted
    cluster.find("storage.full", 2, "gpu-001", rank_from="process")
    cluster.step(3)
    assert cluster.incident().code == "storage.full", "what nothing speaks against goes first"


@pytest.mark.parametrize("source", ["process", "path", "line", "field", "index", None])
@pytest.mark.parametrize("sender", ["gpu-001", "gpu-003"])
@pytest.mark.parametrize("host", [None, "gpu-002"])
def test_no_way_to_know_a_rank_makes_another_nodes_line_name_a_healthy_node(
    sender: str, source: wire.RankSource | None, host: str | None
) -> None:
    cluster = Watched()
    idle(cluster, "gpu-003")
    cluster.find("oom.cuda", 9, sender, file="/tmp/rank9.log", rank_from=source, host=host, job="4711")
    cluster.wait()
    assert (cluster.incident().node, cluster.incident().confidence) == (None, "low")
    assert "gpu-002" not in " ".join(cluster.incident().do)


@pytest.mark.parametrize("job", ["4711", None])
@pytest.mark.parametrize(
    ("rule", "more"),
    [
        ("oom.cuda", {"host": "gpu-002"}),
        ("rank.exit_error", {"fields": {"node": "gpu-002"}}),
        ("nccl.desync_report", {"fields": {"missing_ranks": "9"}}),
        ("peer.connection_lost", {"fields": {"missing_ranks": "9"}}),
        ("nccl.watchdog_timeout", {"fields": {"missing_ranks": "9"}}),
    ],
)
def test_a_node_outside_the_job_names_no_node_of_it(
    cluster: Watched, rule: str, more: dict[str, object], job: str | None
) -> None:
    idle(cluster, "gpu-003")
    cluster.find(rule, None, "gpu-003", file="/tmp/x.log", job=job, **more)
    cluster.wait()
    assert all(each.node != "gpu-002" and each.confidence == "low" for each in cluster.book.incidents)
    cluster.find("storage.full", 2, "gpu-001", rank_from="process")
    cluster.step(3)
    assert any(
        (each.code, each.rank, each.node) == ("storage.full", 2, "gpu-001") for each in cluster.book.incidents
    )


def test_forged_timeouts_of_all_ranks_but_one_name_no_node(cluster: Watched) -> None:
    idle(cluster, "gpu-003")
    for rank in range(16):
        if rank != 9:
            cluster.find("nccl.watchdog_timeout", rank, "gpu-003", rank_from="process", fields=TIMED_OUT)
    cluster.wait()
    assert all((each.node, each.confidence) == (None, "low") for each in cluster.book.incidents)


def test_a_kernel_line_of_a_node_outside_the_job_blames_no_other_node() -> None:
    cluster = Watched(kernel=False)
    idle(cluster, "gpu-003")
    cluster.find("gpu.xid.fell_off", None, "gpu-003", file="/tmp/x.log", host="gpu-002", fields=XID)
    cluster.wait()
    assert all((each.node, each.confidence) == (None, "low") for each in cluster.book.incidents)


@pytest.mark.parametrize(
    ("identity", "mark", "same"), [("nfs:1", "9:1", True), ("nfs:1", "9:2", False), ("nfs:2", "9:1", False)]
)
def test_a_file_that_the_ranks_own_node_reads_as_well_speaks_for_its_rank(
    cluster: Watched, identity: str, mark: str, *, same: bool
) -> None:
    path = "/logs/rank_9.log"
    for name, seen, shown in (("gpu-001", identity, mark), ("gpu-002", "nfs:1", "9:1")):
        files = [wire.LogFile(path, state="following", identity=seen, fingerprint=shown)]
        cluster.report(name, wire.Logs(t=cluster.t, seq=6, files=files, complete=True))
    cluster.find("oom.cuda", 9, "gpu-001", file=path, rank_from="path")
    cluster.wait()
    known = cluster.incident().node, cluster.incident().confidence
    assert (known == ("gpu-002", "high")) == same


@pytest.mark.parametrize("own_log", [True, False])
def test_a_launchers_log_may_hold_other_nodes_ranks(cluster: Watched, *, own_log: bool) -> None:
    """As srun's does: their own logs have the line too, or they write none."""
    if own_log:
        cluster.find("oom.cuda", 9, "gpu-002", rank_from="process")
    else:
        bare = [structs.replace(each, logs=[]) for each in cluster.fleet.nodes["gpu-002"].processes]
        cluster.report("gpu-002", wire.Ranks(t=cluster.t, seq=5, processes=bare))
        cluster.step(3)
    cluster.find("oom.cuda", 9, "gpu-001", file="/logs/slurm.out", rank_from="line")
    cluster.step(3)
    incident = cluster.incident()
    sure = "high" if own_log else "medium"
    assert (incident.code, incident.rank, incident.confidence) == ("oom.cuda", 9, sure)
    left = [each for each in cluster.fleet.nodes["gpu-002"].processes if each.rank != 9]
    cluster.report("gpu-002", wire.Ranks(t=cluster.t, seq=6, processes=left))
    cluster.step(6)
    assert (cluster.incident().rank, cluster.incident().node) == (9, "gpu-002")
    assert cluster.incident().confidence == "high", "the end of its process confirms it"


@pytest.mark.parametrize("node", ["gpu-001", "gpu-002"])
def test_a_table_that_names_a_living_process_is_contradicted(cluster: Watched, node: str) -> None:
    lines = [line.format(101) for line in TABLE]
    cluster.find("rank.killed", None, node, file="/logs/slurm.out", lines=lines, key=3, fields={"pid": 101})
    cluster.wait()
    alert = cluster.alert("rank.killed")
    assert (alert.rank, alert.node, alert.refuted) == (9, "gpu-002", True)
    assert cluster.incident().confidence == "low"


def test_a_process_that_was_started_anew_contradicts_no_table(cluster: Watched) -> None:
    lines = [line.format(101) for line in TABLE]
    cluster.find("rank.killed", None, file="/logs/slurm.out", lines=lines, key=3, fields={"pid": 101})
    cluster.step(3)
    fresh = [
        structs.replace(each, pid=each.pid + 1000, start=cluster.t)
        for each in cluster.fleet.nodes["gpu-002"].processes
    ]
    cluster.report("gpu-002", wire.Ranks(t=cluster.t, seq=5, processes=fresh))
    cluster.wait()
    assert not cluster.alert("rank.killed").refuted
    assert cluster.incident().rank == 9


@pytest.mark.parametrize("rule", ["slurm.node_failure", "ray.node_dead", "launch.ssh_unreachable"])
def test_a_node_that_answers_refutes_that_it_failed(cluster: Watched, rule: str) -> None:
    cluster.find(rule, None, fields={"node": "gpu-002"}, job="4711")
    cluster.wait()
    alert, incident = cluster.alert(rule), cluster.incident()
    assert (alert.node, alert.refuted) == ("gpu-002", True)
    assert (incident.node, incident.confidence) == (None, "low")
    assert "gpu-002" not in " ".join(incident.do)


def test_a_node_whose_ranks_run_on_refutes_that_it_killed_one(cluster: Watched) -> None:
    cluster.find("rank.killed", None, fields={"node": "gpu-002"}, job="4711")
    for _ in range(3):
        cluster.wait()
    alert = cluster.alert("rank.killed")
    assert (alert.node, alert.refuted) == ("gpu-002", True)
    assert (cluster.incident().node, cluster.incident().confidence) == (None, "low")


def test_a_node_without_a_rank_that_answers_lowers_that_it_failed(cluster: Watched) -> None:
    cluster.report("gpu-002", wire.Ranks(t=cluster.t, seq=4))
    cluster.wait()
    cluster.find("slurm.node_failure", None, fields={"node": "gpu-002"}, job="4711")
    cluster.wait()
    assert (cluster.incident().node, cluster.incident().confidence) == ("gpu-002", "medium")


def test_a_node_that_falls_silent_confirms_that_it_failed(cluster: Watched) -> None:
    cluster.find("slurm.node_failure", None, fields={"node": "gpu-002"}, job="4711")
    cluster.step(3)
    assert cluster.alert("slurm.node_failure").refuted
    cluster.step(20, silent="gpu-002")
    assert (cluster.incident().node, cluster.incident().confidence) == ("gpu-002", "high")


def test_a_node_that_was_booted_since_does_not_deny_that_it_failed(cluster: Watched) -> None:
    cluster.find("slurm.node_failure", None, fields={"node": "gpu-002"}, job="4711")
    greeting = cluster.fleet.nodes["gpu-002"].hello
    assert greeting is not None
    again = structs.replace(greeting, boot_id="second", booted_at=cluster.t + 5)
    cluster.report("gpu-002", again, wire.Ranks(t=cluster.t, seq=4))
    cluster.wait()
    assert not cluster.alert("slurm.node_failure").doubt


@pytest.mark.parametrize(("size", "named"), [(16, True), (24, False)])
def test_a_node_that_states_another_world_size_shares_no_job(
    cluster: Watched, *, size: int, named: bool
) -> None:
    claims = [structs.replace(each, world_size=size) for each in cluster.fleet.nodes["gpu-001"].processes]
    cluster.report("gpu-001", wire.Ranks(t=cluster.t, seq=4, processes=claims))
    cluster.step(3)
    cluster.find("nccl.desync_report", 0, rank_from="process", fields={"missing_ranks": "9"})
    cluster.wait()
    assert (cluster.incident().node == "gpu-002") == named
    assert cluster.alert("nccl.desync_report").refuted is not named


def conflicts(fleet: Fleet, name: str) -> list[str]:
    return [each.code for each in identity(fleet.nodes[name], Thresholds(), 0.0)]


@pytest.mark.parametrize("order", [("gpu-001", "gpu-002"), ("gpu-002", "gpu-001")])
def test_a_hello_that_takes_another_nodes_name_changes_nothing_of_that_node(order: tuple[str, str]) -> None:
    fleet = Fleet(plan("gpu-001", "gpu-002"))
    for name in order:
        rank = Process(50, "python", rank=int(name[-1]), job="7", master="gpu-002:29500", world_size=3)
        greeting = hello(2, host="gpu-002", boot_id=name, addresses=["10.0.0.2"])
        feed(fleet, name, greeting, Ranks(t=NODE_TIME, seq=1, processes=[rank]))
    where = RankIndex(places_of(list(fleet.nodes.values())))
    assert (where.named("gpu-002"), where.named("gpu-001")) == ("gpu-002", "gpu-001")
    assert [place.node for rank in (1, 2) if (place := where.of(rank, "7"))] == ["gpu-001", "gpu-002"]
    assert conflicts(fleet, "gpu-001") == ["host_name_taken"]
    assert conflicts(fleet, "gpu-002") == []


def test_a_rank_that_two_nodes_claim_is_on_neither() -> None:
    fleet = Fleet(plan("gpu-001", "gpu-002", "gpu-003"))

    def claim(name: str, *ranks: int) -> None:
        processes = [Process(50 + rank, "python", rank=rank, job="7", world_size=8) for rank in ranks]
        feed(fleet, name, Ranks(t=NODE_TIME, seq=1, processes=processes))

    for name in fleet.nodes:
        feed(fleet, name, hello(2, host=name, boot_id=name))
    claim("gpu-001", 0, 1)
    claim("gpu-002", 2, 3)
    claim("gpu-003", 4, 1)
    where = RankIndex(places_of(list(fleet.nodes.values())))
    assert where.of(1, "7") is None
    found = {rank: place.node for rank in (0, 2, 3, 4) if (place := where.of(rank, "7"))}
    assert found == {0: "gpu-001", 2: "gpu-002", 3: "gpu-002", 4: "gpu-003"}
    assert {name: conflicts(fleet, name) for name in fleet.nodes} == {
        "gpu-001": ["ranks_claimed_twice"], "gpu-002": [], "gpu-003": ["ranks_claimed_twice"],
    }  # fmt: skip
    claim("gpu-003", 4, 5)
    assert not any(conflicts(fleet, name) for name in fleet.nodes)
    where = RankIndex(places_of(list(fleet.nodes.values())))
    assert where.of(1, "7") is not None


@pytest.mark.parametrize("known", ["gpu-001", "gpu-002"])
def test_a_node_without_a_hello_claims_no_rank_of_another(known: str) -> None:
    fleet = Fleet(plan("gpu-001", "gpu-002"))
    for name in fleet.nodes:
        processes = [Process(50, "python", rank=3, job="7", world_size=8)]
        if name == known:
            feed(fleet, name, hello(2, host=name, boot_id=name))
        feed(fleet, name, Ranks(t=NODE_TIME, seq=1, processes=processes))
    place = RankIndex(places_of(list(fleet.nodes.values()))).of(3, "7")
    assert place is not None
    assert place.node == known


def test_one_machine_that_the_plan_names_twice_is_in_no_conflict_with_itself() -> None:
    fleet = Fleet(plan("gpu-001", "gpu-001.cluster"))
    for name in fleet.nodes:
        rank = Process(50, "python", rank=0, job="7", world_size=2)
        feed(fleet, name, hello(2, host="gpu-001", boot_id="b"), Ranks(t=NODE_TIME, seq=1, processes=[rank]))
    assert not any(conflicts(fleet, name) for name in fleet.nodes)
