"""An ended job has another name once more of its logs are found, and so has what was found in them before."""

from __future__ import annotations

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
