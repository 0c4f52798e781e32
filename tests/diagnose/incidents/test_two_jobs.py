"""Two jobs on the same nodes at the same time: an incident holds what its own job said, and nothing else."""

from __future__ import annotations

from typing import Any

from gpuwatch import wire
from tests.diagnose.watched_jobs import Watched, both, stated
from tests.fleet.jobs.two_jobs import WALL, rank


def test_a_rank_without_a_job_is_not_put_into_the_incident_of_the_one_that_is_named() -> None:
    reported = Watched()
    both(reported, master=None)
    reported.look(2.0)
    reported.find("n1", "/runs/9/rank_0.log", "rank.killed", 100.0, rank=0, rank_from="process")
    reported.find("n1", "/runs/8/rank_1.log", "oom.cuda", 95.0, rank=1, rank_from="process")
    found = reported.incidents()
    assert {job: (each.rank, stated(each)) for job, each in found.items()} == {
        "n1:29500": (0, [("rank.killed", 0)]),
        "unnamed-2": (1, [("oom.cuda", 1)]),
    }


def test_two_plain_torchruns_of_which_one_fails() -> None:
    reported = Watched(2)
    for node in ("n1", "n2"):
        first = 0 if node == "n1" else 2
        ranks = [
            rank(first + number, 100 * job + number, 4, master=f"n1:2950{job}", start=WALL - job)
            for number in range(2)
            for job in (1, 2)
        ]
        reported.run(node, *ranks)
        reported.list_files(
            node,
            *(wire.LogFile(each.logs[0], pids=[each.pid]) for each in ranks),
            *(wire.LogFile(f"/runs/{job}/launcher.log", source="glob", pids=[100 * job]) for job in (1, 2)),
        )
    reported.look(2.0)
    reported.find("n2", "/runs/1/rank_3.log", "oom.cuda", 100.0, rank=3, rank_from="process")
    for number, node in ((0, "n1"), (1, "n1"), (2, "n2")):
        reported.find(
            node, f"/runs/1/rank_{number}.log", "peer.connection_lost", 101.0, rank=number, role="echo"
        )
    reported.find("n2", "/runs/1/launcher.log", "rank.exit_error", 104.0, role="first", fields={"pid": 101})
    reported.find("n1", "/runs/2/rank_1.log", "python.exception", 99.5, rank=1, role="first")
    reported.find(
        "n2", "/runs/2/launcher.log", "elastic.worker_restart", 103.0, role="echo", severity="warning"
    )
    reported.find("n1", "/runs/2/rank_1.log", "hub.network", 98.0, rank=1)
    found = reported.incidents()
    assert set(found) == {"n1:29501", "n1:29502"}
    failed = found["n1:29501"]
    assert (failed.rank, failed.node, failed.code, failed.followers) == (3, "n2", "oom.cuda", 3)
    lost = [("peer.connection_lost", number) for number in range(3)]
    assert stated(failed) == [("oom.cuda", 3), *lost, ("rank.exit_error", 3)]
    assert {alert.code for alert in found["n1:29502"].alerts} == {
        "python.exception", "hub.network", "elastic.worker_restart",
    }  # fmt: skip


def test_a_line_that_may_be_of_either_job_is_put_into_no_jobs_incident() -> None:
    reported = Watched()
    both(reported)
    reported.list_files(
        "n1", *(wire.LogFile(path, source="glob") for path in ("/tmp/a.log", "/tmp/rank_1.log"))
    )
    reported.look(2.0)
    reported.find("n1", "/runs/9/rank_1.log", "oom.cuda", 100.0, rank=1, rank_from="process")
    reported.find("n1", "/tmp/a.log", "rank.exit_error", 101.0, role="first")
    reported.find("n1", "/tmp/rank_1.log", "storage.full", 99.0, rank=1, rank_from="path")
    found = reported.incidents()
    assert stated(found["n1:29500"]) == [("oom.cuda", 1)]
    assert stated(found[None]) == [("rank.exit_error", None), ("storage.full", 1)]


def test_a_rank_that_only_one_of_the_jobs_can_have_is_its() -> None:
    reported = Watched()
    both(reported)
    wide = rank(7, 707, 8, master="n1:29507", start=WALL - 70)
    reported.run("n1", *reported.fleet.nodes["n1"].processes, wide)
    reported.look(2.0)
    reported.find("n1", "/tmp/rank_7.log", "oom.cuda", 100.0, rank=7, rank_from="path")
    assert reported.incidents()["n1:29507"].rank == 7


def test_one_job_gets_everything_that_stands_in_files_with_rank_numbers() -> None:
    reported = Watched(2)
    reported.run("n1", *(rank(number, 100 + number, logs=[]) for number in range(2)))
    reported.run("n2", *(rank(number, 100 + number, logs=[]) for number in range(2, 4)))
    files = [f"/logs/rank_{number}.log" for number in range(4)]
    reported.list_files(
        "n1", *(wire.LogFile(path, source="glob") for path in (*files[:2], "/else/launcher.log"))
    )
    reported.list_files("n2", *(wire.LogFile(path, source="glob") for path in files[2:]))
    reported.look(2.0)
    reported.find("n2", files[3], "oom.cuda", 100.0, rank=3, rank_from="path")
    for number, node in ((0, "n1"), (1, "n1"), (2, "n2")):
        reported.find(
            node, files[number], "peer.connection_lost", 101.0, rank=number, rank_from="path", role="echo"
        )
    reported.find("n1", "/else/launcher.log", "rank.exit_error", 104.0, role="first")
    (incident,) = reported.incidents().values()
    assert (incident.job, incident.rank, incident.node, incident.followers) == ("unnamed-4", 3, "n2", 3)
    assert len(incident.alerts) == 5


def test_a_rank_beyond_the_jobs_size_is_not_of_that_job() -> None:
    reported = Watched()
    reported.run("n1", rank(0, 100, 2, job="7"), rank(1, 101, 2, job="7"))
    reported.look(2.0)
    reported.find("n1", "/runs/1/rank_1.log", "rank.killed", 100.0, rank=1, rank_from="process")
    reported.find("n1", "/else/rank_5.log", "oom.cuda", 99.0, rank=5, rank_from="path")
    assert {job: stated(each) for job, each in reported.incidents().items()} == {
        "7": [("rank.killed", 1)],
        None: [("oom.cuda", 5)],
    }


def test_what_a_process_without_a_rank_writes_is_not_of_the_job_beside_it() -> None:
    reported = Watched()
    notebook = wire.Process(50, "python", gpus=[wire.ProcessGpu("GPU-0")], logs=["/home/me/run.log"])
    reported.run("n1", rank(0, 100, 2, job="7"), rank(1, 101, 2, job="7"), notebook)
    reported.list_files("n1", wire.LogFile("/home/me/run.log", pids=[50]))
    reported.look(2.0)
    reported.find("n1", "/home/me/run.log", "oom.cuda", 99.0)
    reported.find("n1", "/runs/1/rank_1.log", "rank.killed", 100.0, rank=1, rank_from="process")
    assert {job: stated(each) for job, each in reported.incidents().items()} == {
        "7": [("rank.killed", 1)],
        None: [("oom.cuda", None)],
    }


def test_a_job_that_is_started_later_takes_nothing_out_of_an_incident() -> None:
    reported = Watched()
    reported.run("n1", rank(0, 100, 2, job="7", start=WALL - 50), rank(1, 101, 2, job="7", start=WALL - 50))
    reported.look(2.0)
    reported.find("n1", "/runs/1/rank_1.log", "rank.killed", 100.0, rank=1, rank_from="process")
    reported.find("n1", "/else/launcher.log", "rank.exit_error", 101.0, role="first")
    reported.find(
        "n1", "/else/rank_0.log", "peer.connection_lost", 101.0, rank=0, rank_from="path", role="echo"
    )
    before = stated(reported.incidents(110.0)["7"])
    reported.run("n1", rank(0, 200, 2, job="8", start=WALL + 300), at=301.0)
    reported.find("n1", "/runs/2/rank_0.log", "oom.cuda", 400.0, rank=0, rank_from="process")
    found = reported.incidents(410.0)
    assert (len(before), stated(found["7"]), stated(found["8"])) == (3, before, [("oom.cuda", 0)])


def test_a_node_trouble_of_two_jobs_goes_to_the_one_that_failed() -> None:
    reported = Watched()
    both(reported)
    reported.look(2.0)
    reported.find("n1", wire.KERNEL_LOG, "oom.host.kernel", 99.0)
    reported.find("n1", "/runs/8/rank_1.log", "rank.killed", 100.0, rank=1, rank_from="process")
    (incident,) = reported.incidents().values()
    assert (incident.job, incident.code, incident.rank) == ("n1:29501", "oom.host.kernel", 1)


def test_an_incident_dated_in_the_future_does_not_precede_the_current_one() -> None:
    reported = Watched()
    both(reported)
    reported.look(2.0)
    reported.find("n1", "/runs/9/rank_0.log", "oom.cuda", 100.0, rank=0, rank_from="process")
    facts: dict[str, Any] = {
        "role": "root",
        "rank": 1,
        "rank_from": "process",
        "lines": ["RuntimeError: oom"],
        "timed": True,
    }
    ahead = wire.Finding(
        t=WALL, seq=3, id=77, rule="oom.cuda", severity="error", file="/runs/8/rank_1.log", offset=1,
        at=WALL + 9 * 86_400, **facts,
    )  # fmt: skip
    reported.report("n1", ahead, at=101.0)
    assert [each.job for each in reported.incidents(110.0).values()] == ["n1:29500", "n1:29501"]
