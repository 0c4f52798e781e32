"""An ended job has another name once more of its logs are found, and so has what was found in them before."""

from __future__ import annotations

from msgspec import structs

from gpuwatch.fleet.jobs.ended_files import ended_job_names
from gpuwatch.fleet.jobs.job_files import home
from gpuwatch.fleet.jobs.rank_places import places_of
from gpuwatch.wire import LogFile
from tests.fleet.jobs.two_jobs import Several

LAUNCHER = LogFile("/srv/job/launch.log", source="found", last_at=1000.0)
RANK = LogFile("/srv/job/lg/d5_x50kq_1z/attempt_0/0/stderr.log", source="found", last_at=1000.0, local_rank=0)


def jobs_of_findings(fleet: Several) -> set[str | None]:
    return {found.finding.job for found in fleet.fleet.findings.values()}


def test_a_finding_takes_the_later_name_of_its_file() -> None:
    fleet = Several()
    fleet.list_files("n1", LAUNCHER)
    fleet.find("n1", LAUNCHER.path)
    assert jobs_of_findings(fleet) == {"srv/job"}
    fleet.list_files("n1", LAUNCHER, RANK)
    assert jobs_of_findings(fleet) == {"d5"}
    fleet.find("n1", RANK.path)
    assert jobs_of_findings(fleet) == {"d5"}


def test_the_job_that_an_agent_names_stays() -> None:
    fleet = Several()
    fleet.list_files("n1", LAUNCHER)
    fleet.find("n1", LAUNCHER.path, job="77")
    fleet.list_files("n1", LAUNCHER, RANK)
    assert jobs_of_findings(fleet) == {"77"}


def run_log(agent: str, rank: int, last_at: float = 1000.0) -> LogFile:
    path = f"/srv/lg/d5_{agent}/attempt_0/0/stderr.log"
    return LogFile(path, source="found", last_at=last_at, local_rank=0, ranks=[rank])


def names(*files: LogFile) -> set[str]:
    return set(ended_job_names(files, home).values())


def test_agents_that_share_a_log_dir_are_of_one_job() -> None:
    assert names(run_log("aaaaaaaa", 0), run_log("bbbbbbbb", 1, 1040.0)) == {"d5"}


def test_an_older_run_of_the_same_id_is_a_job_of_its_own() -> None:
    assert len(names(run_log("aaaaaaaa", 0), run_log("bbbbbbbb", 1, 9000.0))) == 2
    assert len(names(run_log("aaaaaaaa", 0), run_log("bbbbbbbb", 0, 1040.0))) == 2


def test_a_log_that_several_nodes_see_names_no_node_of_its_rank() -> None:
    shared, own = run_log("aaaaaaaa", 0), run_log("bbbbbbbb", 1)
    fleet = Several(2)
    fleet.list_files("n1", shared, own)
    fleet.list_files("n2", shared)
    assert {each.rank: each.node for each in places_of(fleet.fleet.nodes.values()).ranks} == {0: "", 1: "n1"}


def found(path: str, last_at: float, *ranks: int) -> LogFile:
    return LogFile(
        path, source="found", last_at=last_at, ranks=list(ranks), size=10, searched_to=10, fingerprint=path
    )


def test_a_launcher_above_the_logs_of_its_ranks_is_of_their_job_on_each_node() -> None:
    """The ranks fell silent in a hang; their launchers were ended 25 minutes later."""
    fleet = Several(2)
    for rank in (0, 1):
        files = (
            found(f"/srv/jobs/hl/logs/rank{rank}.log", 1000.0, rank),
            found("/srv/jobs/hl/launcher.log", 2500.0),
        )
        fleet.list_files(f"n{rank + 1}", *(structs.replace(each, fingerprint=f"{rank}") for each in files))
    assert {job for node in ("n1", "n2") for job in fleet.files(node).values()} == {"hl/logs"}


def test_logs_of_ranks_beside_those_of_torchrun_are_of_one_job() -> None:
    own = found("/srv/jobs/la/logs/rank0.log", 990.0, 0)
    torchrun = LogFile(
        "/srv/jobs/la/tr/la_aaaaaaaa/attempt_0/0/stderr.log", source="found", last_at=1000.0, local_rank=0
    )
    assert names(own, torchrun) == {"la"}
    assert len(names(structs.replace(own, last_at=10.0), torchrun)) == 2


def test_a_launchers_log_of_another_day_is_of_another_job() -> None:
    ranks, launcher = found("/srv/jobs/a/logs/rank0.log", 1000.0, 0), found("/srv/jobs/a/run.log", 90_000.0)
    assert len(names(ranks, launcher)) == 2


def test_the_error_file_of_a_rank_is_of_the_job_that_ended_then() -> None:
    """Torchrun's error files lie in a temporary folder, under the run id and the local rank."""
    temporary = "/tmp/torchelastic_5jp2sz03/ef_fhqnlx12/attempt_0/1/error.json"
    error = LogFile(temporary, source="found", last_at=1000.0, local_rank=1)
    logs = [
        LogFile(f"/srv/{job}/logs/rank{number}.log", source="found", last_at=999.0, ranks=[number])
        for job in ("ef", "other")
        for number in range(2)
    ]
    assert len(names(error, *logs)) == 2
    fleet = Several()
    fleet.list_files("n1", error, *logs)
    places = places_of(list(fleet.fleet.nodes.values()))
    (rank,) = {place.rank for place in places.ranks if temporary in place.logs}
    assert rank == 1


def test_what_is_saved_beside_a_log_is_of_its_job() -> None:
    files = [found(f"/srv/jobs/lb/{name}", 1000.0) for name in ("train.log", "describe.txt", "sacct.out")]
    assert names(*files) == {"lb"}
    assert len(names(*files, found("/srv/jobs/lb/other.log", 1000.0))) > 1


def test_the_files_of_one_job_of_an_earlier_session_are_one_job() -> None:
    """The tasks of job 77; `slurm-78_0.out` is one of an array that nobody watched."""
    fleet = Several()
    tasks = [LogFile(f"/srv/q/slurm-77_{task}.out", source="found", last_at=9.0) for task in range(2)]
    array = [LogFile(f"/srv/q/slurm-78_{task}.out", source="found", last_at=9.0) for task in range(2)]
    fleet.fleet.jobs.take_earlier({file.path: "77" for file in tasks})
    fleet.list_files("n1", *tasks, *array)
    assert [file.job for file in fleet.fleet.nodes["n1"].logs] == ["77", "77", "78_0", "78_1"]
