"""Which alerts of a machine are about a run: not those of other jobs on it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gpuwatch.cli.run.monitoring.monitor import watched_plan
from gpuwatch.cli.run.monitoring.samples import NodeSamples, descendants, python_of, rank_of
from gpuwatch.cli.run.monitoring.summary import scale_rates
from gpuwatch.diagnose.model.alert import Alert, Proof
from gpuwatch.link.start.log_settings import poll_s
from tests.waiting import wait_until


def alert(*, file: str | None = None, **facts: object) -> Alert:
    proof = Proof("line" if file else "value", "text", file=file)
    return Alert("i", "c", "error", "t", "x", (proof,), **facts)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("found", "is_ours"),
    [
        (alert(file="/logs/training_1/ranks/console_a.log", rank=3), True),
        (alert(file="/other/rank_3.log", rank=3), False),
        (alert(file="/other/rank_3.log"), False),
        (alert(job="ours", rank=1), True),
        (alert(job="theirs", rank=1), False),
        (alert(rank=1), False),
        (alert(), True),
        (alert(gpu=5), False),
        (alert(file="/dev/kmsg", kernel=True), True),
    ],
)
def test_alerts_of_other_jobs_are_not_of_the_run(found: Alert, is_ours: bool) -> None:
    samples = NodeSamples()
    samples.jobs.add("ours")
    assert samples.is_of_run(found, "/logs/training_1") is is_ours


def test_what_the_library_measured_is_of_the_whole_run() -> None:
    """Document 001, line 297: efficiency with all overhead."""
    part = {"duration_s": 30.0, "samples_per_s": 8.0, "mfu_overall": 0.4}
    summary = {**part, "mfu_step": 0.5}
    scale_rates(summary, {}, part, 60.0)
    assert (summary["samples_per_s"], summary["mfu_overall"], summary["mfu_step"]) == (4.0, 0.2, 0.5)


def test_without_an_output_file_the_machine_is_read_half_as_often(tmp_path: Path) -> None:
    plans = [watched_plan({"folder": str(tmp_path), "output": output}) for output in (None, "o.jsonl")]
    assert [plan.interval_s for plan in plans] == [2.0, 1.0]
    assert [poll_s(plan.interval_s) for plan in plans] == [1.0, 0.25], "the logs, too"


def test_the_processes_of_a_command_are_those_that_it_started_and_theirs() -> None:
    script = "sleep 100 & sh -c 'sleep 100 & echo; wait' & wait"
    with subprocess.Popen(["sh", "-c", script], stdout=subprocess.PIPE, start_new_session=True) as command:
        assert command.stdout is not None
        command.stdout.readline()
        deadline, names = time.monotonic() + 60, list[str]()
        while names != ["sh", "sh", "sleep", "sleep"] and time.monotonic() < deadline:
            found = descendants(command.pid)
            names = sorted(Path(f"/proc/{pid}/comm").read_text().strip() for pid in found)
        os.killpg(command.pid, signal.SIGKILL)
    assert names == ["sh", "sh", "sleep", "sleep"]  # a child is `sh` until it runs `sleep`
    assert descendants(command.pid) == {command.pid}, "it is gone"


@pytest.mark.parametrize("name", ["python", "./bin/python", "{folder}/bin/python"])
def test_the_interpreter_of_a_command_is_found_by_any_name(tmp_path: Path, name: str) -> None:
    """`python train.py` names no folder; a virtual environment's interpreter is a link, which is kept."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").symlink_to(sys.executable)
    command = [name.format(folder=tmp_path), "-c", "print(flush=True); input()"]
    path = f"{tmp_path}/bin:{os.environ['PATH']}"
    with subprocess.Popen(
        ["env", f"PATH={path}", *command],
        cwd=tmp_path,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONHOME": sys.base_prefix},
    ) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        process.stdout.readline()
        found = python_of(process.pid)
        process.stdin.close()
    assert found is not None
    assert Path(found).parent.samefile(tmp_path / "bin")


def test_what_is_no_python_has_no_interpreter() -> None:
    with subprocess.Popen(["sleep", "100"]) as process:
        assert python_of(process.pid) is None
        process.kill()
    assert python_of(process.pid) is None


@pytest.mark.parametrize(
    ("variables", "numbers"),
    [
        ("RANK=2 LOCAL_RANK=0 WORLD_SIZE=4 SLURM_PROCID=1", (2, 0, 4)),
        ("OMPI_COMM_WORLD_RANK=5 OMPI_COMM_WORLD_SIZE=8 SLURM_PROCID=0 SLURM_NTASKS=8", (5, None, 8)),
        ("PMI_RANK=3 PMI_SIZE=4", (3, None, 4)),
        ("SLURM_PROCID=0 SLURM_LOCALID=0 SLURM_NTASKS=1", None),
    ],
)
def test_the_rank_of_a_process_is_the_one_that_the_agent_reads(
    variables: str, numbers: tuple[int | None, ...] | None
) -> None:
    """`mpirun` in a batch script inherits the script's own SLURM_PROCID, 0, which is no rank."""
    env = dict(each.split("=", 1) for each in variables.split())
    with subprocess.Popen(["/bin/sleep", "100"], env=env) as process:
        wait_until(lambda: bool(Path(f"/proc/{process.pid}/environ").read_bytes()))
        found = rank_of(process.pid)
        process.kill()
    assert (None if found is None else (found.rank, found.local_rank, found.world_size)) == numbers
