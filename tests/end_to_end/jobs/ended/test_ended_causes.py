"""Jobs that were over when `once` ran: which rank was the first one to fail, by what their launchers left."""

from __future__ import annotations

import json
import shutil
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from gpuwatch.link.start.log_settings import VARIABLE
from tests.cli.running import alone

LOST = (
    "RuntimeError: [../gloo/transport/tcp/pair.cc:537] Read error [10.77.0.1]:21904: Connection reset by peer"
)
RUN_ID = "693bdf0a-7107-4da5-8203-7c3b0b1be2ea"
SPAWNED = "torch.multiprocessing.spawn.ProcessExitedException: process {} terminated with {}\n"
MPIRUN = """--------------------------------------------------------------------------
prterun detected that one or more processes exited with non-zero status, thus causing
the job to be terminated. The first process to do so was:

   Process name: [prterun-n1-1661@1,{}]
   Exit code:    3
--------------------------------------------------------------------------
"""


def steps(prefix: str, last: int = 7) -> str:
    began = datetime.now() - timedelta(seconds=60)
    lines = (
        f"{began + timedelta(seconds=step):%Y-%m-%d %H:%M:%S} {prefix}step {step}/100000 loss 2.5\n"
        for step in range(1, last + 1)
    )
    return "".join(lines)


def raised(prefix: str, error: str) -> str:
    traceback = ("Traceback (most recent call last):", '  File "t.py", line 9, in <module>', error)
    return "".join(f"{prefix}{line}\n" for line in traceback)


def write_torchrun(
    folder: Path, run: str, first: int, ranks: int, killed: int | None, suffix: str = "bc3qlg7e"
) -> None:
    """What `torchrun --log-dir` leaves of the ranks of one node, of which one was killed."""
    for local in range(ranks):
        own = folder / "logs" / f"{run}_{suffix}" / "attempt_0" / str(local)
        own.mkdir(parents=True)
        (own / "stdout.log").write_text(steps("INFO "))
        (own / "stderr.log").write_text("" if local == killed else raised(f"[rank{first + local}]: ", LOST))


def write_shared(folder: Path, ranks: range, end: str) -> None:
    folder.mkdir()
    (folder / "train.log").write_text("".join(steps(f"[rank{rank}] ") for rank in ranks) + end)


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Folder -> what `once --json` states of the job in it."""
    home = tmp_path_factory.mktemp("home")
    write_torchrun(home / "standalone", RUN_ID, first=0, ranks=3, killed=1)
    write_torchrun(home / "second-node", "none", first=4, ranks=4, killed=2)
    write_torchrun(home / "two-nodes", "d5", first=0, ranks=2, killed=1, suffix="gx27d34h")
    write_torchrun(home / "two-nodes", "d5", first=2, ranks=2, killed=None, suffix="oknis080")
    write_torchrun(home / "interrupted", f"{RUN_ID[:-1]}b", first=0, ranks=3, killed=1, suffix="njm11v3d")
    for rank, own in enumerate(sorted((home / "interrupted").rglob("stderr.log"))):
        own.write_text(f"{own.read_text()}{raised(f'[rank{rank}]: ', 'KeyboardInterrupt')}")
    write_torchrun(home / "no-log", f"{RUN_ID[:-1]}c", first=0, ranks=4, killed=2, suffix="uuznu_or")
    shutil.rmtree(home / "no-log" / "logs" / f"{RUN_ID[:-1]}c_uuznu_or" / "attempt_0" / "2")
    write_shared(home / "spawn", range(3), SPAWNED.format(1, "exit code 3"))
    write_shared(home / "spawn-killed", range(4, 8), SPAWNED.format(2, "signal SIGKILL"))
    write_shared(home / "slurm-spawn", range(4, 8), "")
    (home / "slurm-spawn" / "train.log").rename(home / "slurm-spawn" / "slurm-77.out")
    with (home / "slurm-spawn" / "slurm-77.out").open("a") as log:
        log.write(SPAWNED.format(2, "signal SIGKILL"))
    write_shared(home / "mpirun", range(2), MPIRUN.format(1))
    write_shared(home / "short", range(2), "")
    changes = {VARIABLE: "on", "HOME": str(home), "TMPDIR": str(home), "XDG_CONFIG_HOME": f"{home}/.config"}
    done = alone("once", "--local", "--json", "--wait", "60", cwd=home, changes=changes)
    facts = json.loads(done.stdout)
    incidents = {incident["job"]: incident for incident in facts["incidents"]}
    found = {}
    for job in facts["ended_jobs"]:
        file = Path(job["files"][0]["file"])
        if file.is_relative_to(home):
            found[file.relative_to(home).parts[0]] = {**job, "incident": incidents.get(job["job"])}
    warned = str([alert for alert in facts["alerts"] if alert["severity"] == "warning"])
    return {**found, "status": done.returncode, "warned": warned}


@pytest.mark.parametrize(
    ("folder", "rank", "code"),
    [
        ("standalone", 1, "unknown"),
        ("second-node", 6, "unknown"),
        ("two-nodes", 1, "unknown"),
        ("no-log", 2, "unknown"),
        ("spawn", 1, "rank.exit_error"),
        ("spawn-killed", 6, "rank.killed"),
        ("mpirun", 1, "rank.exit_error"),
    ],
)
def test_the_rank_that_failed_first_is_named(
    ended: dict[str, Any], folder: str, rank: int, code: str
) -> None:
    incident = ended[folder]["incident"]
    assert (incident["rank"], incident["class"]) == (rank, code)


def test_the_exit_code_stands_in_the_sentence(ended: dict[str, Any]) -> None:
    assert "exit code 3" in ended["mpirun"]["incident"]["sentence"]


@pytest.mark.parametrize("folder", ["standalone", "second-node", "spawn", "spawn-killed"])
def test_a_rank_that_is_only_inferred_is_named_with_low_confidence(
    ended: dict[str, Any], folder: str
) -> None:
    assert ended[folder]["incident"]["confidence"] == "low"


def test_a_process_of_one_of_several_parents_is_of_no_known_rank(ended: dict[str, Any]) -> None:
    incident = ended["slurm-spawn"]["incident"]
    assert (incident["rank"], incident["class"]) == (None, "rank.killed")


def test_what_ranks_lost_because_they_were_interrupted_is_no_failure(ended: dict[str, Any]) -> None:
    job = ended["interrupted"]
    assert (job["class"], job["rank"]) == (None, None)
    assert "SIGINT" in job["text"]


def test_a_job_that_ended_after_a_few_steps_is_not_healthy(ended: dict[str, Any]) -> None:
    assert (ended["short"]["state"], ended["short"]["step"]) == ("stopped", 7)
    assert "/short/train.log" in ended["warned"]
    assert ended["status"] == 1
