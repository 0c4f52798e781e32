"""What a node that runs nothing of a job reports about it: the job's own errors go first."""

from __future__ import annotations

import pytest
from msgspec import structs

from gpuwatch import wire
from gpuwatch.rules.load import load_packs
from tests.diagnose.incidents.alert_cluster import Watched, idle

PACKS = load_packs()
OUTSIDE = "gpu-003"
JOB_WIDE = ["slurm.time_limit", "slurm.preempted", "slurm.cancelled", "slurm.kill_timeout", "storage.full"]


@pytest.fixture
def cluster() -> Watched:
    """gpu-001 and gpu-002 run job 4711."""
    cluster = Watched(packs=PACKS)
    idle(cluster, OUTSIDE)
    cluster.wait()
    return cluster


def known(cluster: Watched) -> tuple[str, int | None, str | None, str]:
    """Of the job's incident."""
    (incident,) = (each for each in cluster.book.incidents if each.job == "4711")
    return incident.code, incident.rank, incident.node, incident.confidence


@pytest.mark.sampled(6)
@pytest.mark.parametrize("earlier", [True, False])
@pytest.mark.parametrize("job", ["4711", None])
@pytest.mark.parametrize("rule", JOB_WIDE)
def test_a_job_wide_line_of_a_node_outside_explains_no_error_of_the_job(
    cluster: Watched, rule: str, job: str | None, *, earlier: bool
) -> None:
    def lie() -> None:
        cluster.find(rule, None, OUTSIDE, file="/tmp/x.log", job=job, severity="critical", role="root")

    if earlier:
        lie()
        cluster.step(2)
    cluster.find("oom.cuda", 9, "gpu-002", rank_from="process")
    cluster.step(1)
    cluster.find("rank.exit_error", 9, "gpu-002", rank_from="process", fields={"exitcode": 1})
    if not earlier:
        lie()
    cluster.wait()
    assert known(cluster) == ("oom.cuda", 9, "gpu-002", "high")


@pytest.mark.parametrize("file", [wire.KERNEL_LOG, "/tmp/x.log"])
def test_a_node_outside_leads_no_incident_of_a_job_that_its_line_names(cluster: Watched, file: str) -> None:
    cluster.find("cuda.lib_fail", None, OUTSIDE, file=file, job="4711", severity="critical", role="root")
    cluster.step(1)
    cluster.find("oom.cuda", 9, "gpu-002", rank_from="process")
    cluster.wait()
    assert known(cluster) == ("oom.cuda", 9, "gpu-002", "high")


@pytest.mark.parametrize(("launches", "confidence"), [(True, "medium"), (False, "low")])
def test_what_a_launcher_elsewhere_reports_of_the_job_counts_with_a_doubt(
    cluster: Watched, *, launches: bool, confidence: str
) -> None:
    launcher = wire.Process(40, "srun", job="4711")
    listed = [launcher] if launches else []
    cluster.report(OUTSIDE, wire.Ranks(t=cluster.t, seq=6, processes=listed))
    cluster.find("slurm.time_limit", None, OUTSIDE, file="/home/a/out.log", job="4711")
    cluster.wait()
    assert known(cluster) == ("slurm.time_limit", None, None, confidence)


def test_a_shared_log_counts_in_full_whoever_reads_it(cluster: Watched) -> None:
    path = "/shared/slurm-4711.out"
    for name in ("gpu-001", OUTSIDE):
        files = [wire.LogFile(path, state="following", identity="nfs:1", fingerprint="9:1")]
        cluster.report(name, wire.Logs(t=cluster.t, seq=6, files=files, complete=True))
    cluster.find("slurm.time_limit", None, OUTSIDE, file=path, job="4711")
    cluster.wait()
    assert known(cluster)[0] == "slurm.time_limit"
    assert not cluster.alert("slurm.time_limit").doubt


@pytest.mark.sampled(4)
@pytest.mark.parametrize("fact", ["reboot", "lost", "xid"])
@pytest.mark.parametrize("claimed", [[9], list(range(8, 16)), list(range(16))])
def test_what_happens_to_a_node_that_claims_ranks_leads_no_incident_of_their_job(
    cluster: Watched, claimed: list[int], fact: str
) -> None:
    mine = [
        wire.Process(700 + rank, "python", rank=rank, job="4711", world_size=16, start=cluster.t - 3600)
        for rank in claimed
    ]
    cluster.report(OUTSIDE, wire.Ranks(t=cluster.t, seq=6, processes=mine))
    cluster.wait()
    if fact == "reboot":
        greeting = cluster.fleet.nodes[OUTSIDE].hello
        assert greeting is not None
        cluster.report(OUTSIDE, structs.replace(greeting, boot_id="again", booted_at=cluster.t))
    elif fact == "xid":
        cluster.find("gpu.xid.fell_off", None, OUTSIDE, file=wire.KERNEL_LOG, fields={"xid": 79}, job="4711")
    for _ in range(1 if fact != "lost" else 20):
        cluster.step(1, silent=OUTSIDE if fact == "lost" else "")
    cluster.find("oom.cuda", 2, "gpu-001", rank_from="process")
    cluster.wait()
    assert known(cluster)[:3] == ("oom.cuda", 2, "gpu-001")
    assert known(cluster)[3] != "low"
