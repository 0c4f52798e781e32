"""One incident for a cascade, with the right rank, class and sentence."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from gpuwatch.fleet.jobs.places import Places
from tests.diagnose.finding import T0, Reporter, places
from tests.sentences import Sentences


def others(count: int, *but: int) -> list[int]:
    return [rank for rank in range(count) if rank not in but]


def test_the_sentence_of_the_design(sentences: Sentences) -> None:
    report = Reporter(places(64))
    report.kernel("gpu.xid.fell_off", 0, "gpu-003", xid=79, pci="0000:01:00")
    report.timeouts(others(64, 17), 0.5)
    (incident,) = report.judged()
    sentences(incident.headline)
    assert (incident.rank, incident.node, incident.gpu, incident.code) == (
        17,
        "gpu-003",
        1,
        "gpu.xid.fell_off",
    )
    assert (incident.followers, incident.confidence, incident.first) == (63, "high", T0)
    assert incident.do == ("ssh gpu-003 nvidia-smi -i 1",)
    assert incident.explain == "gpu.xid.fell_off on gpu-003"
    timeouts = [moment for moment in incident.timeline if moment.code == "nccl.watchdog_timeout"]
    assert [(moment.count, len(moment.ranks)) for moment in timeouts] == [(63, 63)]
    assert [moment.code for moment in incident.timeline] == [
        "gpu.xid.fell_off",
        "hang",
        "nccl.watchdog_timeout",
    ]


def test_where_only_victims_speak_the_class_is_the_timeout_and_the_silent_rank_is_named(
    sentences: Sentences,
) -> None:
    report = Reporter(places(128))
    report.timeouts(others(128, 42), 0)
    (incident,) = report.judged()
    assert incident.code == "nccl.watchdog_timeout"
    assert incident.cause is None
    assert (incident.rank, incident.node, incident.gpu) == (42, "gpu-006", 2)
    sentences(incident.headline)
    assert incident.silent == (42,)
    assert incident.confidence == "medium"
    assert "ssh gpu-006 py-spy dump --pid 1042" in incident.settle


def test_when_all_ranks_wait_in_the_same_collective_no_rank_is_named() -> None:
    report = Reporter(places(16))
    report.timeouts(range(16), 0)
    (incident,) = report.judged()
    assert (incident.code, incident.rank, incident.confidence) == ("nccl.watchdog_timeout", None, "low")
    assert "fabric" in incident.headline


def test_the_rank_in_another_operation_is_the_suspect() -> None:
    report = Reporter(places(16))
    report.timeouts(others(16, 5), 0, seq=900)
    report.timeouts([5], 0, seq=899)
    (incident,) = report.judged()
    assert (incident.code, incident.rank) == ("nccl.watchdog_timeout", 5)
    assert "ALLREDUCE seq 899" in incident.headline


def test_counters_of_another_process_group_prove_nothing() -> None:
    report = Reporter(places(8))
    report.timeouts(range(8), 0, seq=50, pg_id="0")
    report.timeouts([3], 10, seq=7, pg_id="5")
    (incident,) = report.judged()
    assert incident.rank is None


def test_an_out_of_memory_rank_explains_the_timeouts_although_others_entered_earlier(
    sentences: Sentences,
) -> None:
    report = Reporter(places(16))
    report.emit("oom.cuda", 4.0, 3, tried="2.50 GiB")
    report.emit("rank.exit_error", 6.0, 3, exitcode=1)
    report.timeouts(others(16, 3), 0)
    (incident,) = report.judged()
    assert (incident.code, incident.rank, incident.followers) == ("oom.cuda", 3, 15)
    sentences(incident.headline)


def test_the_kernel_explains_a_kill_and_the_launcher_tells_it_late() -> None:
    report = Reporter(places(16))
    for rank in others(16, 6):
        report.emit("rdma.transport_retry", 3.0, rank, peer="10.0.0.1<4711>")
    report.kernel("oom.host.kernel", 0.0, "gpu-001", pid=1006)
    report.emit("rank.killed", 9.0, 6, exitcode=-9)
    (incident,) = report.judged()
    assert (incident.code, incident.rank, incident.confidence) == ("oom.host.kernel", 6, "high")


def test_a_kill_that_nothing_explains_says_how_to_find_out() -> None:
    report = Reporter(places(8))
    report.emit("rank.killed", 0.0, 6, exitcode=-9)
    for rank in others(8, 6):
        report.emit("peer.connection_lost", 0.2, rank)
        report.emit("rank.abort", 5.0, rank, exitcode=-6)
    (incident,) = report.judged()
    assert (incident.code, incident.rank, incident.confidence) == ("rank.killed", 6, "medium")
    assert any("dmesg" in step for step in incident.settle)


def test_silent_rank_is_culprit_where_all_others_fell_over_its_connection() -> None:
    """It was killed, and no launcher tells it: started by hand, or a launcher that has not noticed."""
    raised = ["[rank1]: RuntimeError: [pair.cc:53] Connection closed by peer [10.1.2.3]:4711"]
    ended = ["[W1] recvValue failed: Connection closed by peer"]
    for lines, count in ((raised, 1), (ended, 0)):
        report = Reporter(places(4))
        for rank in others(4, 2):
            report.emit("peer.connection_lost", 0.2, rank, lines=lines)
        found = report.judged()
        assert len(found) == count, "a clean end closes connections, too"
        assert [incident.rank for incident in found] == [2] * count
        assert all("no error" in incident.because for incident in found)
        assert all("dmesg" in incident.settle[0] for incident in found), "it was killed: by whom"


def test_addresses_in_the_lines_blame_the_node_behind_them(sentences: Sentences) -> None:
    report = Reporter(places(32))
    for rank in range(24):
        report.emit("rdma.transport_retry", 0.1 * rank, rank, peer="10.0.0.4")
    (incident,) = report.judged()
    assert (incident.node, incident.code, incident.confidence) == (
        "gpu-004",
        "rdma.transport_retry",
        "medium",
    )
    sentences(incident.headline)


def test_a_desync_report_wins_over_the_clock() -> None:
    report = Reporter(places(16))
    report.timeouts(others(16, 9), 0)
    report.emit("nccl.desync_report", 600.2, 0, culprit_ranks="[9]")
    (incident,) = report.judged()
    assert (incident.code, incident.rank, incident.node) == ("nccl.desync_report", 9, "gpu-002")


def test_an_error_that_its_rank_survived_is_not_the_cause() -> None:
    report = Reporter(places(16))
    report.emit("hub.network", -50, 2)
    report.timeouts(others(16, 11), 0)
    (incident,) = report.judged()
    assert (incident.code, incident.rank) == ("nccl.watchdog_timeout", 11)


def test_skewed_clocks_are_corrected_before_anything_is_put_in_order() -> None:
    report = Reporter(places(16), skew={"gpu-001": 45.0, "gpu-002": -30.0})
    report.emit("oom.cuda", 0.0, 3)
    report.emit("storage.full", 20.0, 12)
    report.emit("rank.exit_error", 1.0, 3)
    (incident,) = report.judged()
    assert (incident.code, incident.rank, incident.first) == ("oom.cuda", 3, T0)


def test_lines_without_a_time_do_not_decide_an_order() -> None:
    report = Reporter(places(16))
    report.emit("oom.cuda", 0.0, 3)
    report.emit("storage.full", 700.0, 12, timed=False, backlog=True)
    report.timeouts(others(16, 3), 0.5)
    (incident,) = report.judged()
    assert (incident.code, incident.rank) == ("oom.cuda", 3)
    assert incident.confidence == "medium"
    assert "no time" in incident.because


def test_a_line_without_a_time_is_no_cause_of_what_was_dated_before_the_lines_above_it() -> None:
    """A plain exception at 0 s; an undated one that tells more, below a line of 50 s in its file."""
    report = Reporter(places(16))
    report.emit("python.exception", 0.0, 3)
    report.emit("rank.exit_error", 1.0, 3)
    report.emit("peer.connection_lost", 50.0, 12)
    report.emit("storage.full", 700.0, 12, timed=False, backlog=True)
    (incident,) = report.judged()
    assert (incident.rank, incident.node) == (3, "gpu-001")


def test_a_spawned_process_that_failed_is_the_rank_of_its_index_with_the_exception_below() -> None:
    """torch.multiprocessing: '-- Process 3 terminated with the following error:' and a traceback."""
    report = Reporter(places(8))
    report.emit("rank.exit_error", 0.0, None, "gpu-001", proc_index=3, file="/logs/out.log", timed=False)
    error = {"exception": "KeyError", "what": "'mask'"}
    report.emit("python.exception", 0.0, None, "gpu-001", fields=error, file="/logs/out.log", timed=False)
    (incident,) = report.judged()
    assert (incident.code, incident.rank, incident.node) == ("rank.exit_error", 3, "gpu-001")
    assert "KeyError: 'mask'" in incident.headline


def test_a_new_attempt_is_a_new_incident() -> None:
    report = Reporter(places(8))
    report.emit("oom.cuda", 0.0, 3)
    report.emit("elastic.worker_restart", 8.0, None, "gpu-001", job="4711")
    report.emit("storage.full", 40.0, 5)
    first, second = report.judged()
    assert [(each.code, each.rank) for each in (first, second)] == [("oom.cuda", 3), ("storage.full", 5)]


def test_two_jobs_that_fail_at_once_are_two_incidents() -> None:
    one, other = places(8, job="a"), places(8, job="b", first=5)
    report = Reporter(Places((*one.ranks, *other.ranks)))
    report.emit("oom.cuda", 0.0, 3, "gpu-001", job="a")
    report.timeouts([0, 1, 2], 0.1, job="a")
    report.kernel("gpu.xid.fell_off", 0.2, "gpu-005", xid=79, pci="0000:02:00")
    report.timeouts([0, 1, 3], 0.3, job="b")
    found = report.judged()
    assert [(each.job, each.code, each.rank, each.node) for each in found] == [
        ("a", "oom.cuda", 3, "gpu-001"),
        ("b", "gpu.xid.fell_off", 2, "gpu-005"),
    ]


def test_the_scheduler_ends_a_job_without_a_guilty_rank(sentences: Sentences) -> None:
    report = Reporter(places(8))
    report.emit("slurm.time_limit", 0.0, None, "gpu-001", job="4711")
    for rank in range(8):
        report.emit("rank.killed", 2.0 + rank / 10, rank, exitcode=-9)
    (incident,) = report.judged()
    assert (incident.code, incident.rank) == ("slurm.time_limit", None)
    sentences(incident.headline)


def test_warnings_alone_are_no_incident() -> None:
    report = Reporter(places(8))
    report.kernel("gpu.xid.remap", 0, "gpu-001", xid=63, pci="0000:01:00")
    assert report.alerts()
    assert report.judged() == []


def test_the_pid_that_the_launcher_did_not_end_had_ended_by_itself() -> None:
    report = Reporter(places(8))
    report.timeouts([0, 1], 0)
    for rank in others(8, 5):
        report.emit("launch.siblings_killed", 600.5, None, "gpu-001", fields={"pid": 1000 + rank}, job="4711")
    (incident,) = report.judged()
    assert (incident.code, incident.rank) == ("nccl.watchdog_timeout", 5)


def test_a_launcher_that_names_no_rank_ended_of_the_only_rank_that_logged_an_error() -> None:
    report = Reporter(places(8))
    report.emit("rank.exit_error", 0.0, None, "gpu-000", exitcode=1, job="4711")
    report.emit("cuda.launch_failure", 1.0, 5)
    (incident,) = report.judged()
    assert (incident.code, incident.rank) == ("cuda.launch_failure", 5)


def test_a_memory_limit_is_why_the_launcher_got_its_signal() -> None:
    report = Reporter(places(8))
    report.emit("launch.agent_signalled", 0.0, None, "gpu-000", job="4711")
    report.emit("oom.host.cgroup", 0.5, None, "gpu-000", job="4711")
    (incident,) = report.judged()
    assert incident.code == "oom.host.cgroup"


def test_512_ranks_are_one_incident_with_counts() -> None:
    report = Reporter(places(512))
    report.emit("data.loader_timeout", 0, 300)
    report.timeouts(others(512, 300), -60)
    for rank in others(512, 300):
        report.emit("rank.abort", 545.0, rank, exitcode=-6)
    (incident,) = report.judged()
    assert (incident.rank, incident.followers, incident.code) == (300, 511, "data.loader_timeout")
    assert len(incident.timeline) <= 5
    assert len(incident.alerts) == 1 + 2 * 511


def test_the_end_of_a_rank_is_reported_with_the_exception_that_it_printed(sentences: Sentences) -> None:
    report = Reporter(places(8))
    report.emit("python.exception", 0.0, 3, exception="KeyError", what="'labels'")
    report.emit("rank.exit_error", 1.0, 3, exitcode=1)
    report.timeouts(others(8, 3), -1)
    (incident,) = report.judged()
    assert (incident.code, incident.rank) == ("rank.exit_error", 3)
    sentences(incident.headline)


def test_a_warning_repeated_for_an_hour_is_not_the_cause_of_what_comes_then() -> None:
    report = Reporter(places(16))
    for minute in range(60):
        report.emit("hub.network", -3600 + 60 * minute, 2)
    report.kernel("gpu.xid.fell_off", 0, "gpu-002", xid=79, pci="0000:01:00")
    report.timeouts(others(16, 9), 0.5)
    found = report.judged()
    assert [(each.code, each.rank) for each in found][-1] == ("gpu.xid.fell_off", 9)


def test_clocks_that_cannot_be_compared_lower_the_confidence() -> None:
    report = Reporter(places(16))
    report.emit("oom.cuda", 0.0, 3)
    report.timeouts(others(16, 3), 0.5)
    sure = report.judged()[0].confidence
    report.found = [replace(each, error_s=2.5) for each in report.found]
    (incident,) = report.judged()
    assert (sure, incident.confidence) == ("high", "medium")
    assert "clocks" in incident.because


def test_slurm_tasks_are_ranks_only_where_they_run_on_the_very_node() -> None:
    report = Reporter(places(16))
    report.emit("rank.killed", 0.0, None, "gpu-001", fields={"node": "gpu-002", "tasks": 12})
    report.emit("rank.abort", 1.0, None, "gpu-001", fields={"node": "gpu-002", "tasks": 1})
    found = {alert.code: (alert.node, alert.rank) for alert in report.alerts()}
    assert found == {"rank.killed": ("gpu-002", 12), "rank.abort": ("gpu-002", None)}


def test_one_line_in_two_files_is_one_alert_with_two_proofs() -> None:
    report = Reporter(places(8))
    report.emit("oom.cuda", 0.0, 3, lines=["CUDA out of memory"])
    report.emit("oom.cuda", 0.3, 3, lines=["3: CUDA out of memory"], file="/logs/slurm.out")
    (alert,) = report.alerts()
    assert {proof.file for proof in alert.proof} == {"/logs/rank_3.log", "/logs/slurm.out"}


def test_one_line_in_two_files_has_the_time_that_one_of_them_bounds() -> None:
    """torchrun writes a rank's own stderr.log and, with --tee, the lines between those of others."""
    report = Reporter(places(8))
    lines: dict[str, Any] = {"lines": ["CUDA out of memory"], "timed": False, "backlog": True}
    report.emit("oom.cuda", 0.0, 3, bound="undated", file="/logs/attempt_0/3/stderr.log", **lines)
    report.emit("oom.cuda", 0.3, 3, bound="before", file="/logs/train.log", **lines)
    (alert,) = report.alerts()
    assert (alert.bound, alert.timed) == ("before", False)


def test_the_lines_of_one_failure_are_one_alert_and_what_differs_is_not(sentences: Sentences) -> None:
    job = Reporter(places(16))
    for rank in range(1, 16):
        reported: tuple[dict[str, object], ...] = (
            {"seq": 7, "last_enqueued": 9},
            {"op": "ALLREDUCE", "seq": 7, "ran_ms": 30_000},
            {"ran_ms": 30_001},
        )
        for wording, fields in zip("abc", reported, strict=True):
            job.emit("nccl.watchdog_timeout", 630.0, rank, fields=fields, lines=[f"wording {wording}"])
    job.emit("nccl.watchdog_timeout", 631.0, 3, fields={"op": "BROADCAST", "seq": 2, "pg_id": 4})
    alerts = job.alerts()
    assert len(alerts) == 16
    timeout = next(alert for alert in alerts if alert.rank == 1)
    assert timeout.count == 1
    sentences(timeout.text)
    assert timeout.fields["last_enqueued"] == 9
    assert len(timeout.proof) == 3
    (incident,) = job.judged()
    (moment,) = [each for each in incident.timeline if each.what == timeout.text]
    assert (moment.count, len(moment.ranks)) == (15, 15)


def test_another_attempt_is_another_thing() -> None:
    job = Reporter(places(8))
    job.emit("oom.cuda", 10.0, 3, file="/runs/x/attempt_0/3/stderr.log")
    job.emit("oom.cuda", 30.0, 3, file="/runs/x/attempt_1/3/stderr.log")
    assert len(job.alerts()) == 2
    assert len(job.judged()) == 2


@pytest.mark.parametrize("code", ["cuda.launch_failure", "python.exception"])
def test_an_exception_above_the_launchers_table_is_of_the_rank_that_ended_first(code: str) -> None:
    report = Reporter(places(8))
    shared = {"file": "/logs/run.log", "backlog": True}
    report.emit(code, 1.2, None, "gpu-001", offset=42_000, timed=False, **shared)
    report.emit("rank.exit_error", 1.0, 5, "gpu-001", offset=44_000, **shared)
    for rank in others(8, 5):
        report.emit("rank.exit_error", 2.0, rank, "gpu-001", offset=46_000 + rank, **shared)
    (incident,) = report.judged()
    assert (incident.code, incident.rank) == (code, 5)
