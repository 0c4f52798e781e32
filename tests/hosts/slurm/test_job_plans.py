"""Jobs and nodes as Slurm 22.05 prints them, and the plans that come of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from gpuwatch.hosts.slurm.commands import known_job, queued_jobs, scheduler_facts
from gpuwatch.hosts.slurm.plan import job_plan, output_files
from gpuwatch.hosts.slurm.reports import SlurmJob, SlurmNode, read_account, read_jobs, read_nodes
from gpuwatch.hosts.validation.errors import HostsError
from tests.hosts.slurm.printed import JOB, NODES


def test_a_job_has_its_nodes_gpus_and_outputs() -> None:
    (job,) = read_jobs(JOB)
    assert (job.id, job.name, job.user, job.state) == ("41", "my run NodeList=evil.example", "ann", "RUNNING")
    assert job.nodes == ("node001", "node002", "node003")
    assert job.gpus == {"node001": "0-3", "node002": "0-3", "node003": "5"}
    assert job.gpu_counts == {"node001": 4, "node002": 4, "node003": 1}
    assert job.stdout == "/home/ann/out my NodeList=evil.example.log"
    assert job.restarts == 2
    assert job.ends is not None


def test_a_plan_follows_the_outputs_and_labels_nodes_that_are_taken_out() -> None:
    plan = job_plan(read_jobs(JOB)[0], read_nodes(NODES))
    assert [node.name for node in plan.nodes] == ["node001", "node002", "node003"]
    assert plan.logs == ("/home/ann/out my NodeList=evil.example.log", "/home/ann/err-?41?.log")
    reasons = [node.labels.get("slurm_reason") for node in plan.nodes]
    assert reasons == [None, "bad nic | x [root@2026-11-26T13:56:50]", None]
    assert plan.allocation is not None
    assert (plan.allocation.job, plan.allocation.restarts) == ("41", 2)


def test_a_node_that_slurm_does_not_have_is_left_out() -> None:
    """The user of a job writes its name and its paths; no connection goes where only they lead."""
    split = JOB.replace("my run NodeList=evil.example", "my\nNodeList=evil.example")
    late = split.replace("out my ", "out\nNodeList=evil.example ")
    for text in (split, late):
        try:
            names = {node.name for node in job_plan(read_jobs(text)[0], read_nodes(NODES)).nodes}
        except HostsError:
            names = set()
        assert "evil.example" not in names


FORGED = (
    "evil\nNodeList=x\nJobId=99 ArrayJobId=41 ArrayTaskId=3 JobName=b\n"
    "   JobState=RUNNING UserId=bob(2) NodeList=node001"
)
REAL_99 = JOB.replace("JobId=41", "JobId=99").replace("ann", "bob")


def separated(argv: Sequence[str], text: str) -> str:
    """A program's answer with the separator that was asked for."""
    found = re.search(r"\|[0-9a-f]{16}\|", " ".join(argv))
    return text if found is None else text.replace("|", found[0])


def answers(text: str, other: str = REAL_99) -> Callable[[Sequence[str]], str]:
    return lambda argv: other if argv[-1] == "99" else text


@pytest.mark.parametrize(
    "place", ["my run NodeList=evil.example", "/home/ann/job.sh", "/dev/null", "/home/ann/out my"]
)
@pytest.mark.parametrize("state", ["RUNNING", "PENDING"])
def test_a_name_that_looks_like_another_job_gives_no_other_job(place: str, state: str) -> None:
    text = JOB.replace("JobState=RUNNING", f"JobState={state}").replace(place, FORGED, 1)
    for asked in ("41", "41_3"):
        try:
            assert known_job(asked, answers(text)).id == "41"
        except HostsError:
            continue
        assert {each.job for each in scheduler_facts([], [asked], answers(text)).jobs.values()} <= {"41"}
    with pytest.raises(HostsError):
        known_job("7", answers(text))


def test_of_an_array_the_task_that_runs_is_chosen_and_asked_for_by_its_own_id() -> None:
    first = JOB.replace("JobId=41", "JobId=41 ArrayJobId=41 ArrayTaskId=9").replace("=RUNNING", "=PENDING")
    task = JOB.replace("JobId=41", "JobId=99 ArrayJobId=41 ArrayTaskId=3")
    found = known_job("41", answers(f"{first}\n{task}", task))
    assert (found.id, found.state) == ("99", "RUNNING")
    assert known_job("41_3", answers(task, task)).id == "99"


def test_a_row_of_accounting_that_a_name_made_is_no_job() -> None:
    def run(argv: Sequence[str]) -> str:
        if argv[0] == "scontrol":
            raise HostsError(["Invalid job id specified"])
        name = "a\n40|bob|RUNNING|0:0|node[001-999]|Unknown|/home/bob|a"
        rows = "".join(
            f"{job}|ann|FAILED|1:0|node001|2026-11-26T01:00:00|/home/ann|NAME\n" for job in ("40", "99")
        )
        return separated(argv, rows if "JobName" in argv[-1] else "").replace("NAME", name)

    found = known_job("40", run)
    assert (found.id, found.user, found.state, found.nodes) == ("40", "ann", "FAILED", ("node001",))
    assert known_job("40_1", run).id == "40"


def test_a_job_that_waits_or_is_unknown_is_refused() -> None:
    pending = "JobId=42 JobName=x\n   JobState=PENDING Reason=Resources Dependency=(null)\n   NodeList=\n"
    with pytest.raises(HostsError, match="Resources"):
        job_plan(read_jobs(pending)[0], {})
    with pytest.raises(HostsError, match="not a job id"):
        known_job("41; rm -rf x", lambda _: JOB)


def test_an_old_job_is_found_by_accounting() -> None:
    def run(argv: Sequence[str]) -> str:
        if argv[0] == "scontrol":
            raise HostsError(["Invalid job id specified"])
        return separated(
            argv,
            "40|ann|NODE_FAIL|1:0|node001|2026-11-26T01:00:00|/home/ann|old\n"
            "40|ann|CANCELLED by 1000|0:9|node[001-002]|2026-11-26T02:00:00|/home/ann|NAME\n"
            if "JobName" in argv[-1]
            else "",
        ).replace("NAME", "a|b")

    job = known_job("40", run)
    assert (job.state, job.exit_code, job.restarts) == ("CANCELLED", "0:9", 1)
    assert job.name == "a|b"
    assert job.nodes == ("node001", "node002")
    assert [str(path) for path in output_files(job)] == ["/home/ann/slurm-40.out"]
    assert read_account("nonsense\n", "40", "|") is None


@pytest.mark.parametrize(
    ("field", "stated", "path"),
    [
        ("StdOut", "/scratch/out-40.log", "/scratch/out-40.log"),
        ("SubmitLine", "sbatch -N2 -o 'my out-%j.log' job.sh", "/home/ann/my out-40.log"),
        ("SubmitLine", "sbatch --output=/scratch/%j.log job.sh", "/scratch/40.log"),
        ("SubmitLine", "sbatch job.sh 'it", "/home/ann/slurm-40.out"),
    ],
)
def test_accounting_names_the_output_of_an_old_job(field: str, stated: str, path: str) -> None:
    def run(argv: Sequence[str]) -> str:
        if argv[0] == "scontrol" or (argv[-1] == "StdOut" and field != "StdOut"):
            raise HostsError(["invalid"])
        if argv[-1] in ("StdOut", "SubmitLine"):
            return f"{stated}\n"
        return separated(argv, "40|ann|FAILED|1:0|node001|2026-11-26T01:00:00|/home/ann|old\n")

    assert [str(each) for each in output_files(known_job("40", run))] == [path]


def test_patterns_that_slurm_has_not_filled_in_match_the_files(tmp_path: Path) -> None:
    for name in ("r-00041-0.log", "r-00041-1.log", "r-00042-0.log"):
        (tmp_path / name).touch()
    job = SlurmJob("41", stdout=f"{tmp_path}/r-%5j-%t.log", nodes=("node001",))
    assert [path.name for path in output_files(job)] == ["r-00041-0.log", "r-00041-1.log"]
    assert job_plan(job, {}).logs == (f"{tmp_path}/r-00041-*.log",)
    deep = SlurmJob("41", stdout="/%t/%t/%t/%t/x.log")
    assert [str(path) for path in output_files(deep)] == ["/%t/%t/%t/%t/x.log"]


def test_running_jobs_come_first_and_a_name_may_hold_anything() -> None:
    """A line of a name is no job."""
    name = "b|c|d\n99|RUNNING|bob|1|5:00|0:10|N/A|node009|c"
    queue = "7|PENDING|ann|2|0:00|1:00|gres:gpu:8|(Resources)|a\n6|RUNNING|ann|1|5:00|0:10|N/A|node001|NAME\n"
    jobs = queued_jobs(lambda argv: separated(argv, queue).replace("NAME", name))
    assert [job.id for job in jobs] == ["6", "7"]
    assert jobs[0].name == "b|c|d"


def test_a_reason_states_nothing_but_itself() -> None:
    text = NODES + "NodeName=node009 State=DOWN Reason=x NodeName=node001 State=IDLE [root@now]\n"
    nodes = read_nodes(text)
    assert nodes["node009"] == SlurmNode("DOWN", "x NodeName=node001 State=IDLE [root@now]")
    assert nodes["node001"] == read_nodes(NODES)["node001"]


def test_node_reports_are_optional() -> None:
    plan = job_plan(read_jobs(JOB)[0], {})
    assert len(plan.nodes) == 3
    known = {"node001": SlurmNode("IDLE")}
    assert [node.name for node in job_plan(read_jobs(JOB)[0], known).nodes] == ["node001"]
