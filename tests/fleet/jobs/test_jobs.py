"""Whose a process, a log file and a line are, where several jobs run at once."""

from __future__ import annotations

from typing import Any

import pytest

from gpuwatch import wire
from tests.fleet.jobs.two_jobs import WALL, Several, rank

LOCAL = "127.0.0.1:29500"
RESTARTS = {"TORCHELASTIC_RESTART_COUNT": "0"}


def test_a_job_is_known_by_its_id_else_its_rendezvous_else_its_size() -> None:
    reported = Several(2)
    reported.run(
        "n1", rank(0, 100, job="4711", master="n1:1"), rank(0, 200, master="n1:29501"), rank(0, 300, 8)
    )
    reported.run(
        "n2", rank(1, 101, job="4711", master="n1:1"), rank(1, 201, master="n1:29501"), rank(1, 301, 8)
    )
    assert reported.jobs("n1") == {100: "4711", 200: "n1:29501", 300: "unnamed-8"}
    assert reported.jobs("n2") == {101: "4711", 201: "n1:29501", 301: "unnamed-8"}


def test_ranks_without_the_id_are_of_the_job_whose_ranks_they_met() -> None:
    """`mpirun` gives the ranks that it starts over ssh no variables of Slurm."""
    reported = Several(3)
    reported.run("n2", rank(2, 102, master="n1:1"), rank(3, 103, master="n1:1"))
    reported.run("n1", rank(0, 100, job="704", master="n1:1"), rank(1, 101, job="704", master="n1:1"))
    reported.run("n2", rank(2, 102, master="n1:1"), rank(3, 103, master="n1:1"), at=6.0)
    assert set(reported.jobs("n2").values()) == {"704"}
    reported.run("n3", rank(1, 201, master="n1:1"), rank(2, 202, 8, master="n1:1"))
    assert reported.jobs("n3") == {201: "n1:1", 202: "n1:1"}
    reported.run("n1")
    reported.run("n2", rank(2, 102, master="n1:1"), rank(3, 303, master="n1:1"), at=12.0)
    assert reported.jobs("n2") == {102: "704", 303: "n1:1"}


def test_a_rendezvous_on_the_loopback_is_that_of_one_machine() -> None:
    reported = Several(2)
    reported.run("n1", rank(0, 100, master=LOCAL), rank(1, 101, master="localhost:29500"))
    reported.run("n2", rank(0, 200, master=LOCAL), rank(1, 201, master="[::1]:29500"))
    assert set(reported.jobs("n1").values()) == {"n1:29500"}
    assert set(reported.jobs("n2").values()) == {"n2:29500"}


@pytest.mark.parametrize("address", ["127.0.0.1", "localhost", "[::1]"])
def test_a_loopback_address_without_a_port_is_that_of_one_machine(address: str) -> None:
    reported = Several(2)
    for node, first in (("n1", 100), ("n2", 200)):
        reported.run(node, *(rank(number, first + number, master=address) for number in range(4)))
    assert set(reported.jobs("n1").values()) == {"unnamed-4@n1"}
    assert set(reported.jobs("n2").values()) == {"unnamed-4@n2"}
    assert not reported.fleet.nodes["n1"].rivals
    assert not reported.fleet.nodes["n2"].rivals


@pytest.mark.parametrize("source", ["order", "path", "command"])
def test_ranks_that_their_program_numbers_are_of_one_machine(source: str) -> None:
    reported = Several(2)
    for node, first in (("n1", 100), ("n2", 200)):
        reported.run(node, *(rank(n, first + n, 2, rank_source=source) for n in range(2)))
        assert set(reported.jobs(node).values()) == {f"unnamed-2@{node}"}
    assert not reported.fleet.nodes["n1"].rivals
    assert not reported.fleet.nodes["n2"].rivals


def test_an_address_without_a_port_names_no_job() -> None:
    reported = Several()
    reported.run("n1", rank(0, 100, master="n1"))
    assert reported.jobs("n1") == {100: "unnamed-4"}


@pytest.mark.parametrize("seen_by_all", [True, False])
def test_a_restarted_job_keeps_its_name_though_its_port_changes(*, seen_by_all: bool) -> None:
    reported = Several(2)
    if seen_by_all:
        reported.run("n2", rank(1, 200, master="n1:40001", variables=RESTARTS))
    reported.run("n1", rank(0, 100, master="n1:40001", variables=RESTARTS))
    reported.run("n1", rank(0, 101, master="n1:40002", variables=RESTARTS))
    reported.run("n2", rank(1, 201, master="n1:40002", variables=RESTARTS))
    assert (reported.jobs("n1"), reported.jobs("n2")) == ({101: "n1:40001"}, {201: "n1:40001"})


def test_who_claims_a_rank_of_a_running_job_is_of_another_one_to_its_end() -> None:
    reported = Several()
    one, other = rank(0, 100, master=LOCAL), rank(0, 200, master=LOCAL)
    reported.run("n1", other, one)
    assert reported.jobs("n1") == {200: "n1:29500@n1:200", 100: "n1:29500"}
    reported.run("n1", other)
    assert reported.jobs("n1") == {200: "n1:29500@n1:200"}
    reported.run("n1")
    reported.run("n1", rank(0, 300, master=LOCAL))
    assert reported.jobs("n1") == {300: "n1:29500"}


def test_two_runs_under_one_allocation_are_distinguished_on_all_nodes() -> None:
    reported = Several(2)
    reported.run("n2", rank(4, 104, 8, job="7", master="n1:1"), rank(5, 205, 8, job="7", master="n1:2"))
    assert set(reported.jobs("n2").values()) == {"7"}
    reported.run("n1", rank(0, 100, 8, job="7", master="n1:1"), rank(0, 200, 8, job="7", master="n1:2"))
    assert reported.jobs("n1") == {100: "7", 200: "7@n1:2"}
    assert reported.jobs("n2") == {104: "7", 205: "7@n1:2"}


def test_one_run_id_for_two_jobs_on_different_nodes_is_noticed_when_both_are_seen_to_run() -> None:
    reported = Several(2)
    for _ in range(2):
        reported.run("n1", rank(0, 100, job="my-run", master="n1:1"))
        reported.run("n2", rank(0, 200, job="my-run", master="n2:1"))
    assert (reported.jobs("n1"), reported.jobs("n2")) == ({100: "my-run"}, {200: "my-run@n2:1"})


def test_ranks_that_an_elastic_job_gives_to_other_nodes_stay_in_it() -> None:
    reported = Several(2)
    elastic: dict[str, Any] = {"job": "my-run", "variables": RESTARTS}
    reported.run("n1", rank(0, 100, master="n1:40001", **elastic))
    reported.run("n2", rank(1, 200, master="n1:40001", **elastic))
    reported.run("n2", rank(0, 201, master="n2:40002", **elastic))  # n1 is listed later
    reported.run("n1", rank(1, 101, master="n2:40002", **elastic))
    assert (reported.jobs("n1"), reported.jobs("n2")) == ({101: "my-run"}, {201: "my-run"})


def test_a_process_that_a_rank_started_on_its_gpu_is_of_its_job() -> None:
    reported = Several()
    reported.run("n1", rank(0, 100, job="7"), rank(0, 150, job="7", launcher=100, start=WALL + 150))
    assert set(reported.jobs("n1").values()) == {"7"}
    for logs in ([], ["/runs/1/rank_0.log"]):
        reported.run("n1", rank(0, 100), rank(0, 150, logs=logs, launcher=100, start=WALL + 150))
        assert set(reported.jobs("n1").values()) == {"unnamed-4"}


def test_what_carries_nothing_but_ranks_is_one_job_until_a_rank_is_there_twice() -> None:
    reported = Several(2)
    reported.run("n1", rank(0, 100), rank(1, 101))
    reported.run("n2", rank(2, 302), rank(3, 303))
    assert set(reported.jobs("n1").values()) | set(reported.jobs("n2").values()) == {"unnamed-4"}
    reported.run("n1", rank(0, 100), rank(1, 101), rank(1, 201))
    assert reported.jobs("n1") == {100: "unnamed-4@n1:100", 101: "unnamed-4@n1:100", 201: "unnamed-4@n1:200"}
    assert set(reported.jobs("n2").values()) == {"unnamed-4@n2:300"}  # whose these are is not known


def test_an_unnamed_job_on_other_nodes_is_another_one_where_both_are_seen_to_run() -> None:
    reported = Several(2)
    reported.run("n1", rank(0, 100, 2), rank(1, 101, 2))
    reported.run("n2", rank(0, 200, 2), rank(1, 201, 2))  # the first one may have ended meanwhile
    assert set(reported.jobs("n1").values()) | set(reported.jobs("n2").values()) == {"unnamed-2"}
    reported.run("n1", rank(0, 100, 2), rank(1, 101, 2))
    assert set(reported.jobs("n1").values()) == {"unnamed-2@n1:100"}
    assert set(reported.jobs("n2").values()) == {"unnamed-2@n2:200"}


def test_an_unnamed_job_that_starts_again_on_another_node_keeps_its_name() -> None:
    reported = Several(2)
    reported.run("n1", rank(0, 100, 2), rank(1, 101, 2))
    reported.run("n2", rank(0, 200, 2), rank(1, 201, 2))
    reported.run("n1")
    reported.run("n2", rank(0, 200, 2), rank(1, 201, 2))
    assert set(reported.jobs("n2").values()) == {"unnamed-2"}


def test_of_one_launcher_the_folders_tell_them_apart() -> None:
    reported = Several()
    of_a = (
        rank(0, 100, logs=["/a/rank_0/out.log"], launcher=9),
        rank(1, 101, logs=["/a/rank_1/out.log"], launcher=9),
    )
    reported.run("n1", *of_a, rank(0, 200, logs=["/b/rank_0/out.log"], launcher=9))
    assert reported.jobs("n1") == {100: "unnamed-4@/a", 101: "unnamed-4@/a", 200: "unnamed-4@/b"}


# --------------------------------------------------------------------------- log files


def test_a_file_is_of_the_job_whose_ranks_write_it_also_after_their_end() -> None:
    reported = Several()
    reported.run("n1", rank(1, 101, master=LOCAL), rank(1, 201))
    reported.run("n1")
    reported.list_files("n1", wire.LogFile("/runs/1/rank_1.log"), wire.LogFile("/runs/2/rank_1.log"))
    assert reported.files("n1") == {"/runs/1/rank_1.log": "n1:29500", "/runs/2/rank_1.log": "unnamed-4"}


def test_a_launchers_file_is_of_the_ranks_that_it_started() -> None:
    reported = Several()
    reported.run("n1", rank(1, 101, master=LOCAL), rank(1, 201))
    reported.list_files(
        "n1", wire.LogFile("/tmp/one.out", pids=[100]), wire.LogFile("/tmp/two.out", pids=[200])
    )
    assert reported.files("n1") == {"/tmp/one.out": "n1:29500", "/tmp/two.out": "unnamed-4"}


def test_a_file_that_ranks_of_two_jobs_write_is_of_none() -> None:
    reported = Several()
    both: list[str] = ["/tmp/nohup.out"]
    reported.run("n1", rank(1, 101, master=LOCAL, logs=both), rank(1, 201, logs=both))
    reported.list_files("n1", wire.LogFile("/tmp/nohup.out", pids=[101, 201]))
    reported.run("n1")
    reported.list_files("n1", wire.LogFile("/tmp/nohup.out"))
    assert reported.files("n1") == {"/tmp/nohup.out": None}


def test_without_a_writer_the_folder_tells_where_it_is_one_jobs() -> None:
    reported = Several()
    torchrun = "/runs/1/none_x/attempt_0/{}/stderr.log"
    reported.run("n1", rank(1, 101, master=LOCAL, logs=[torchrun.format(1)]), rank(1, 201))
    files = [
        torchrun.format(0),
        "/runs/1/launcher.log",
        "/runs/2/launcher.log",
        "/runs/launcher.log",
        "/else/x.log",
    ]
    writes = [wire.LogFile(torchrun.format(1), pids=[101]), wire.LogFile("/runs/2/rank_1.log", pids=[201])]
    reported.list_files("n1", *writes, *(wire.LogFile(path, source="glob") for path in files))
    assert [reported.files("n1")[path] for path in files] == ["n1:29500", "n1:29500", "unnamed-4", None, None]


def test_the_folder_tells_nothing_while_a_job_may_write_anywhere() -> None:
    reported = Several()
    reported.run("n1", rank(1, 101, master=LOCAL), rank(1, 201, logs=[]))
    reported.list_files(
        "n1",
        wire.LogFile("/runs/1/rank_1.log", pids=[101]),
        wire.LogFile("/runs/1/launcher.log", source="glob"),
    )
    assert reported.files("n1")["/runs/1/launcher.log"] is None


def test_a_shared_file_is_of_the_job_that_writes_it_on_another_node() -> None:
    reported = Several(2)
    reported.run("n2", rank(1, 101, master="n2:5"))
    reported.list_files(
        "n2", wire.LogFile("/runs/1/rank_1.log", pids=[101], identity="fs:1", fingerprint="7:9")
    )
    reported.list_files(
        "n1", wire.LogFile("/runs/1/rank_1.log", source="glob", identity="fs:1", fingerprint="7:9")
    )
    assert reported.files("n1") == {"/runs/1/rank_1.log": "n2:5"}


# --------------------------------------------------------------------------- lines and steps


def test_a_line_gets_its_job_when_that_is_known_and_its_finer_name_when_jobs_are_distinguished() -> None:
    reported = Several()
    reported.find("n1", "/runs/1/rank_0.log")
    assert reported.found() == [None]
    reported.run("n1", rank(0, 100, job="7", master="n1:1"))
    assert reported.found() == ["7"]
    reported.run("n1", rank(0, 100, job="7", master="n1:1"), rank(0, 200, job="7", master="n1:2"))
    reported.find("n1", "/runs/2/rank_0.log", job="7")
    assert reported.found() == ["7", "7@n1:2"]


def test_steps_are_of_the_job_whose_rank_tells_them() -> None:
    reported = Several()
    reported.run("n1", rank(0, 100, master=LOCAL), rank(0, 200))
    for path, step in (("/runs/1/rank_0.log", 10), ("/runs/2/rank_0.log", 90)):
        reported.step("n1", path, step)
    steps = {writer.job: writer.value("step") for writer in reported.fleet.progress.writers.values()}
    assert steps == {"n1:29500": 10, "unnamed-4": 90}


@pytest.mark.parametrize("claimed", [[2], [1, 2], [40]])
@pytest.mark.parametrize("start", [1.0, WALL + 900])
def test_a_process_of_another_user_on_the_node_is_not_of_a_job(claimed: list[int], start: float) -> None:
    reported = Several(2)
    job: dict[str, Any] = {"job": "4711", "user": "ann", "launcher": 90}
    strange = [
        rank(each, 300 + each, 4, job="4711", user="bob", launcher=90, start=start) for each in claimed
    ]
    for _ in range(2):
        reported.run("n1", *strange, rank(0, 100, **job), rank(1, 101, **job))
        reported.run("n2", rank(2, 200, **job), rank(3, 201, **job), rank(3, 290, **{**job, "user": "root"}))
    assert reported.jobs("n1") == {100: "4711", 101: "4711", **{300 + each: "4711@bob" for each in claimed}}
    assert set(reported.jobs("n2").values()) == {"4711"}
    reported.run("n1", rank(0, 100, **job), rank(1, 101, **job))
    assert set(reported.jobs("n1").values()) == {"4711"}


def test_nodes_that_name_one_user_differently_run_one_job() -> None:
    reported = Several(2)
    reported.run("n1", rank(0, 100, job="4711", user="ann"), rank(1, 101, job="4711", user="ann"))
    reported.run("n2", rank(2, 200, job="4711", user="1000"), rank(3, 201, job="4711", user="1000"))
    assert set(reported.jobs("n1").values()) | set(reported.jobs("n2").values()) == {"4711"}


def test_two_jobs_of_one_name_with_different_masters_claim_no_rank_twice_in_their_first_lists() -> None:
    """A one-shot report sees each node's list once."""
    reported = Several(2)
    for node in ("n1", "n2"):
        reported.run(node, *(rank(n, 900 + n, 2, job="train", master=f"{node}:29801") for n in range(2)))
    assert not reported.fleet.nodes["n1"].rivals
    assert not reported.fleet.nodes["n2"].rivals


def test_a_file_that_two_jobs_wrote_is_not_of_the_one_that_is_left() -> None:
    """What the other one wrote last may be read after its end."""
    reported = Several()
    shared = "/runs/both/train.log"
    first = rank(0, 901, 1, job="a", logs=[shared])
    second = [rank(number, 801 + number, 2, job="b", logs=[shared]) for number in range(2)]
    reported.run("n1", first, *second)
    for size in range(3):
        reported.list_files("n1", wire.LogFile(shared, pids=[801, 802, 901], size=size))
    reported.run("n1", first)
    reported.list_files("n1", wire.LogFile(shared, pids=[901], job="a", size=9))
    reported.find("n1", shared, job=None)
    assert reported.files("n1") == {shared: None}
    assert reported.found() == [None]
    reported.run("n1", rank(0, 701, 1, job="c", logs=[shared]))
    reported.list_files("n1", wire.LogFile(shared, pids=[701], size=10))
    assert reported.files("n1") == {shared: "c"}
