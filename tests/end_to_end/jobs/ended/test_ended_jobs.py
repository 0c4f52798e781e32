"""A job that is over when gpuwatch connects: no process leads to its logs, and it is found all the same."""

from __future__ import annotations

import fcntl
import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from subprocess import PIPE
from time import monotonic, sleep, time
from typing import Any

import pytest
from msgspec.structs import replace

from gpuwatch.agent.ranks.path_ranks import ranks_of_path
from gpuwatch.fleet.fleet import Fleet
from gpuwatch.fleet.jobs.ended_files import ended_job_names
from gpuwatch.fleet.jobs.job_files import home
from gpuwatch.hosts.plan import NodeSpec, Plan
from gpuwatch.link.agent import agent_link
from gpuwatch.link.agent.start_method import StartMethod, agent_start
from gpuwatch.link.start.log_settings import VARIABLE
from gpuwatch.own_folders import config_folder, state_folder
from gpuwatch.report.once.problems.active import standing
from gpuwatch.session import Session
from gpuwatch.session.settings.followed_folders import FollowedFolders
from gpuwatch.wire import LogFile
from tests.cli.running import alone as as_if_alone
from tests.end_to_end import cluster
from tests.fleet.jobs.two_jobs import Several

pytestmark = pytest.mark.timeout(600)
FIRST_SEARCH_S = 90.0
"""Seconds within which the first search of a node, with its judgement, is over."""

RANK = """
import sys
from datetime import datetime
rank, last, total, fails = int(sys.argv[1]), *map(int, sys.argv[2:4]), sys.argv[4]
for step in range(1, last + 1):
    print(f"{datetime.now():%Y-%m-%d %H:%M:%S} [rank{rank}] step {step}/{total} loss {3 - step / total:.4f}")
if fails == str(rank):
    raise RuntimeError("CUDA error: an illegal memory access was encountered")
"""


def run_job(folder: Path, last: int, total: int, fails: str = "-", ranks: int = 2) -> None:
    """Real processes that write rank0.log, rank1.log and end."""
    folder.mkdir(parents=True)
    for rank in range(ranks):
        with (folder / f"rank{rank}.log").open("wb") as log:
            command = [sys.executable, "-c", RANK, *map(str, (rank, last, total)), fails]
            subprocess.run(command, stdout=log, stderr=log, check=False)


@pytest.fixture
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without other people's shells and jobs; its home, which is where jobs are started."""
    proc, home = tmp_path / "proc", tmp_path / "home"
    (proc / "self").mkdir(parents=True)
    home.mkdir()
    for name in ("stat", "meminfo", "loadavg", "uptime", "sys", "mounts", "self/mountinfo"):
        (proc / name).symlink_to(f"/proc/{name}")

    def way(python: str | None, settings: Mapping[str, Any], *rest: Any) -> StartMethod:
        return agent_start(python, {**settings, "kmsg": str(tmp_path / "kmsg"), "proc": str(proc)}, *rest)

    monkeypatch.setattr(agent_link, "agent_start", way)
    monkeypatch.setenv(VARIABLE, "on")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "settings"))
    monkeypatch.chdir(home)
    return home


RAY_WORKERS = (
    ("ab12cd34ef", "01000000", 4711),
    ("ab13cd34ef", "01000000", 4712),
    ("ab14cd34ef", "02000000", 4713),
)
LOST_PEER = (
    "[rank0]: Traceback (most recent call last):\n"
    '[rank0]:   File "/opt/train.py", line 74, in <module>\n'
    "[rank0]: RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by peer"
    " [10.77.0.18]:36911\n"
)
PLAN = Plan((NodeSpec("a", link="local"),), interval_s=0.5, source="test")


def write_followed(config: Path, node: str, folder: Path) -> None:
    """Record the folder, where gpuwatch 0.1 did, as one that an earlier session followed on the node."""
    (state_folder() / "followed.json").unlink(missing_ok=True)
    kept = config / "gpuwatch" / "followed.json"
    kept.parent.mkdir(parents=True, exist_ok=True)
    kept.write_text(json.dumps({node: [str(folder)]}))


def fill(folder: Path, count: int) -> Path:
    """Make that many files in subfolders of a folder, more than one search reads."""
    for number in range(count):
        place = folder / str(number % 60)
        place.mkdir(parents=True, exist_ok=True)
        os.close(os.open(place / f"{number}.bin", os.O_CREAT))
    return folder


def searched(session: Session) -> bool:
    node = session.fleet.nodes["a"]
    found = [file for file in node.logs if file.source == "found"]
    return (
        node.logs_complete and all(file.searched_to is not None for file in found) and not session.book.behind
    )


def test_once_names_the_job_and_the_rank_and_ends_with_1(tmp_path: Path) -> None:
    run_job(tmp_path / "night-run", 40, 1000, fails="1")
    config = tmp_path / "config"
    write_followed(config, socket.gethostname(), fill(tmp_path / "data", 6000))
    changes = {VARIABLE: "on", "HOME": str(tmp_path), "TMPDIR": str(tmp_path), "XDG_CONFIG_HOME": str(config)}
    done = as_if_alone("once", "--local", "--json", "--wait", "60", cwd=tmp_path, changes=changes)
    facts = json.loads(done.stdout)
    (job,) = [each for each in facts["ended_jobs"] if each["files"][0]["file"].startswith(str(tmp_path))]
    assert (done.returncode, facts["cut_searches"]) == (1, [socket.gethostname()])
    assert (job["state"], job["ranks"], job["step"], job["total_steps"]) == ("failed", [0, 1], 40, 1000)
    assert (job["class"], job["rank"]) == ("cuda.illegal_access", 1)
    assert job["job"] in [incident["job"] for incident in facts["incidents"]]


def test_how_each_job_ended_is_judged_as_scan_does(alone: Path) -> None:
    run_job(alone / "finished", 300, 300)
    run_job(alone / "killed", 120, 1000)
    with Session(PLAN) as session:
        watch(session, lambda _fleet, _now: searched(session))
        jobs = {job.name: job for job in session.book.ended_jobs}
        stands = standing(session.book, session.fleet, monotonic(), time())
    assert {name: job.end.state for name, job in jobs.items()} == {
        "finished": "finished",
        "killed": "stopped",
    }
    assert jobs["killed"].end.step == 120
    assert [incident.job for incident in stands.incidents] == ["killed"]


def test_a_rank_that_lost_its_peer_is_no_reason_for_the_early_end_of_a_job(alone: Path) -> None:
    run_job(alone / "lost", 40, 1000)
    with (alone / "lost" / "rank0.log").open("a") as log:
        log.write(LOST_PEER)
    with Session(PLAN) as session:
        watch(session, lambda _fleet, _now: searched(session))
        stands = standing(session.book, session.fleet, monotonic(), time())
    assert [(each.job, each.severity) for each in stands.incidents] == [("lost", "error")]


def test_it_is_not_searched_for_where_that_is_switched_off(alone: Path) -> None:
    run_job(alone / "killed", 120, 1000)
    with Session(replace(PLAN, discover=False)) as session:
        watch(session, lambda _fleet, _now: searched(session))
        assert not session.book.ended_jobs
        assert not session.book.incidents


def test_a_file_that_is_still_written_or_old_or_no_training_is_none(alone: Path) -> None:
    run_job(alone / "old", 120, 1000)
    for log in (alone / "old").iterdir():
        text = log.read_text()
        log.write_text("".join(f"2020-01-01{line[10:]}\n" for line in text.splitlines()))
    (alone / "server.log").write_text("GET / 200\nTraceback (most recent call last):\nKeyError: 'user'\n")
    os.mkfifo(alone / "pipe.log")
    (alone / "link.log").symlink_to("/dev/zero")
    with Session(PLAN) as session:
        watch(session, lambda _fleet, _now: searched(session))
        assert not session.book.ended_jobs
        assert [file.path for file in session.fleet.nodes["a"].logs if file.source == "found"] == []


def test_of_two_nodes_one_looks_through_a_shared_file_system(alone: Path, tmp_path: Path) -> None:
    run_job(alone / "killed", 120, 1000)
    device = alone.stat().st_dev
    mounts = tmp_path / "proc" / "self" / "mountinfo"
    mounts.unlink()
    mounts.write_text(f"40 30 {os.major(device)}:{os.minor(device)} / {alone} rw - nfs4 files:/export rw\n")
    nodes = (NodeSpec("a", link="local"), NodeSpec("b", link="local"))
    with Session(replace(PLAN, nodes=nodes)) as session:
        watch(session, lambda _fleet, _now: bool(session.book.ended_jobs) and searched(session))
        watch(session, lambda fleet, _now: all(node.logs_complete for node in fleet.nodes.values()))

        def found(fleet: Fleet, _now: float) -> bool:
            logs = [[file for file in node.logs if file.source == "found"] for node in fleet.nodes.values()]
            return sorted(map(len, logs)) == [0, 2]

        watch(session, found)
        (job,) = session.book.ended_jobs
    assert (job.name, len(job.nodes)) == ("killed", 1)


def test_the_kernel_tells_who_was_killed(alone: Path, tmp_path: Path) -> None:
    run_job(alone / "killed", 120, 1000)
    line = "Out of memory: Killed process 4711 (python3) total-vm:1kB, anon-rss:1kB"
    os.mkfifo(tmp_path / "kmsg")
    kernel = os.open(tmp_path / "kmsg", os.O_RDWR)
    fcntl.fcntl(kernel, fcntl.F_SETFL, os.O_DIRECT)  # a record a read, as of /dev/kmsg
    os.write(kernel, f"3,1,{monotonic() * 1e6:.0f},-;{line}\n".encode())
    with Session(PLAN) as session:

        def told() -> list[tuple[str | None, str]]:
            stands = standing(session.book, session.fleet, monotonic(), time())
            return [(each.job, each.code) for each in stands.incidents]

        watch(session, lambda _fleet, _now: searched(session) and told() == [("killed", "oom.host.kernel")])
    os.close(kernel)


@pytest.mark.usefixtures("alone")
def test_folders_of_earlier_sessions_are_searched(tmp_path: Path) -> None:
    far = tmp_path / "scratch" / "far" / "away" / "run7"
    run_job(far, 120, 1000)
    write_followed(config_folder().parent, "a", far)
    with Session(PLAN) as session:
        watch(session, lambda _fleet, _now: searched(session))
        assert [job.name for job in session.book.ended_jobs] == ["run7"]


@pytest.mark.usefixtures("alone")
def test_a_job_that_was_followed_is_remembered_for_later_sessions(tmp_path: Path) -> None:
    run_job(tmp_path / "elsewhere", 120, 1000)
    with Session(replace(PLAN, logs=(f"{tmp_path}/elsewhere/*.log",))) as session:
        watch(session, lambda fleet, _now: len(fleet.nodes["a"].logs) > 1)
    assert str(tmp_path / "elsewhere") in FollowedFolders(state_folder() / "followed.json").read()["a"]


def test_the_way_through_a_process_is_not_remembered(tmp_path: Path) -> None:
    kept = tmp_path / "followed.json"
    kept.write_text(json.dumps({"a": ["/proc/46/root/out", "/runs/1"]}))
    folders = FollowedFolders(kept)
    assert folders.read() == {"a": ["/runs/1"]}
    reported = Several()
    paths = ["/proc/46/root/media/out/rank0.log", "/proc/46/fd/1", "/runs/7/rank0.log"]
    reported.list_files("n1", *(LogFile(path) for path in paths))
    folders.note(reported.fleet)
    folders.write()
    assert FollowedFolders(kept).read() == {"a": ["/runs/1"], "n1": ["/runs/7"]}


def test_a_job_started_later_ends_the_incident(alone: Path, tmp_path: Path) -> None:
    run_job(alone / "killed", 120, 1000)
    sleep(1.1)  # the kernel counts starts in hundredths of a second from a boot time in whole seconds
    env = {**os.environ, "RANK": "0", "WORLD_SIZE": "1"}
    code = "import time; time.sleep(60)"
    argv = [sys.executable, "-c", code, str(alone / "killed" / "train.py")]
    with subprocess.Popen(argv, env=env) as rank:
        (tmp_path / "proc" / str(rank.pid)).symlink_to(f"/proc/{rank.pid}")
        with Session(PLAN) as session:
            watch(session, lambda _fleet, _now: searched(session) and bool(session.book.ended_jobs))
            watch(session, lambda _fleet, _now: [job.superseded for job in session.book.ended_jobs] == [True])
            stands = standing(session.book, session.fleet, monotonic(), time())
        rank.kill()
    assert stands.incidents == ()


@pytest.mark.long
def test_a_log_that_is_still_written_is_of_no_ended_job_at_first(alone: Path, tmp_path: Path) -> None:
    run_job(alone / "running", 120, 1000)
    with (
        (alone / "running" / "rank0.log").open("ab") as log,
        subprocess.Popen(["cat"], stdin=PIPE, stdout=log) as cat,
    ):
        (tmp_path / "proc" / str(cat.pid)).symlink_to(f"/proc/{cat.pid}")
        with Session(PLAN) as session:
            watch(session, lambda _fleet, _now: len(_found(session)) > 1 and searched(session))
            held = {file.path: file.pids for file in session.fleet.nodes["a"].logs if file.source == "found"}
            files = {file for job in session.book.ended_jobs for file in job.files}
            cat.kill()
            cat.wait()
            (tmp_path / "proc" / str(cat.pid)).unlink()
            watch(session, lambda _fleet, _now: any(len(job.files) > 1 for job in session.book.ended_jobs))
    running, over = (str(alone / "running" / f"rank{rank}.log") for rank in (0, 1))
    assert held == {running: [cat.pid], over: []}
    assert files == {("a", over)}


def watch(session: Session, until: Callable[[Fleet, float], bool]) -> None:
    cluster.watch(session, until, FIRST_SEARCH_S)


def _found(session: Session) -> list[str]:
    return [file.path for file in session.fleet.nodes["a"].logs if file.source == "found"]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", ["rank{}.log", "out.rank{}", "attempt_0/{}/stdout.log"])
@pytest.mark.usefixtures("alone")
def test_the_log_of_a_dead_rank_is_read_beside_those_of_its_siblings(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "far" / "away" / "run7"
    logs = [folder / name.format(rank) for rank in range(3)]
    code = "import time; print('step 1/100 loss 2.0', flush=True); time.sleep(60)"
    fails = "print('step 1/100 loss 2.0', flush=True); raise RuntimeError('shape mismatch: expected 4096')"
    old = folder / name.format(7)
    for log in (*logs, old):
        log.parent.mkdir(parents=True, exist_ok=True)
    old.write_text("step 1/100 loss 2.0\n")
    os.utime(old, (time() - 3600, time() - 3600))
    (folder / "other_run2.log").write_text(
        "RuntimeError: CUDA error: an illegal memory access was encountered\n"
    )
    processes = []
    for rank, log in enumerate(logs):
        env = {
            **os.environ,
            "GROUP_RANK": "0",
            "LOCAL_WORLD_SIZE": "3",
            "RANK": str(rank),
            "LOCAL_RANK": str(rank),
            "WORLD_SIZE": "3",
            "MASTER_ADDR": "127.0.0.1",
        }
        with log.open("wb") as out:
            argv = [sys.executable, "-c", fails if rank == 1 else code]
            processes.append(subprocess.Popen(argv, env=env, stdout=out, stderr=out))
    processes[1].wait()
    for process in (processes[0], processes[2]):
        (tmp_path / "proc" / str(process.pid)).symlink_to(f"/proc/{process.pid}")
    with Session(PLAN) as session:
        try:
            watch(session, lambda _fleet, _now: searched(session) and bool(session.book.incidents))
            (incident,) = session.book.incidents
            files = {file.path: file.job for file in session.fleet.nodes["a"].logs if file.source == "found"}
            assert not session.book.ended_jobs
        finally:
            for process in processes:
                process.kill()
                process.wait()
    assert list(files) == [str(logs[1])]
    assert (incident.job, incident.rank) == (files[str(logs[1])], 1)
    assert incident.job is not None


@pytest.mark.parametrize(
    ("paths", "names"),
    [
        (["/home/u/slurm-4711.out", "/home/u/slurm-4712.out"], ["4711", "4712"]),
        (["/r/run7/attempt_0/0/stderr.log", "/r/run7/attempt_0/1/stderr.log"], ["run7", "run7"]),
        (
            ["/home/u/proj/wandb/run-20260101_101112-ab12/files/output.log", "/home/u/proj/train.log"],
            ["proj/log", "proj/train"],
        ),
        (["/home/u/a.out", "/home/u/a.err", "/home/u/b.out"], ["u/a", "u/a", "u/b"]),
        (["/e/x/logs/rank_0.log", "/e/y/logs/rank_0.log"], ["x/logs", "y/logs"]),
        (["/e/x/run7/rank_0.log", "/e/y/run7/rank_0.log"], ["/e/x/run7", "/e/y/run7"]),
        (
            ["/home/u/lg/d5_x50kq_1z/attempt_0/1/stderr.log", "/home/u/launch.log", "/home/u/rank3.log"],
            ["d5", "d5", "u"],
        ),
        (["/home/u/none_abcdefgh/attempt_0/1/stderr.log"], ["none"]),
        (
            ["/r/logs/12345_0_log.out", "/r/logs/12345_3_log.err", "/r/logs/99_7_0_log.err"],
            ["12345", "12345", "99_7"],
        ),
        (
            [
                f"/tmp/ray/session_2026-11-23/logs/worker-{who}-{job}-{pid}.err"
                for who, job, pid in RAY_WORKERS
            ],
            ["session_2026-11-23/01000000", "session_2026-11-23/01000000", "session_2026-11-23/02000000"],
        ),
        (["/r/run8/1/rank.0/stdout", "/r/run8/1/rank.1/stderr"], ["run8/1", "run8/1"]),
        (["/r/sweep/0/train.log", "/r/sweep/1/train.log"], ["sweep/0", "sweep/1"]),
        (
            [
                f"/r/ds/{start}_rank{rank}.log"
                for start in ("20261122235003", "20261123005003")
                for rank in (0, 1)
            ],
            ["ds/20261122235003", "ds/20261122235003", "ds", "ds"],
        ),
        (["/r/ds/2026-11-23-00-50-03_rank0.log", "/r/ds/2026-11-23-00-50-04_rank1.log"], ["ds", "ds"]),
        (["/r/a/train_rank0.log", "/r/a/nccl_rank0.log"], ["a", "a"]),
        (["/tmp/torchelastic_ab12/none_cd34ef56/attempt_0/3/stdout.log"], ["none"]),
    ],
)
def test_the_path_tells_the_job(paths: list[str], names: list[str]) -> None:
    files = [
        LogFile(
            path,
            source="found",
            last_at=1.0,
            ranks=[rank for rank in ranks_of_path(path)[:1] if rank is not None],
            rank_from=None if ranks_of_path(path) == (None, None) else "path",
            local_rank=ranks_of_path(path)[1],
        )
        for path in paths
    ]
    found = ended_job_names(files, home)
    assert [found[path] for path in paths] == names


PLACES = (
    "lightning_logs/version_3/rank{}.log",
    "outputs/2026-11-27/09-12-33/rank{}.log",
    "multirun/2026-11-27/09-12-33/0/rank{}.log",
    "wandb/run-20261127_091233-ab12cd34/files/output.log",
)


@pytest.mark.long
@pytest.mark.parametrize("place", PLACES)
def test_the_failed_rank_of_an_ended_job_is_found(alone: Path, place: str) -> None:
    for rank in range(2):
        path = alone / "projects" / "llm" / "exp7" / place.format(rank)
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab") as log:
            command = [sys.executable, "-c", RANK, str(rank), "40", "1000", "1"]
            subprocess.run(command, stdout=log, stderr=log, check=False)
    with Session(PLAN) as session:
        watch(session, lambda _fleet, _now: searched(session) and bool(session.book.ended_jobs))
        watch(session, lambda _fleet, _now: bool(session.book.incidents) and not session.book.behind)
        named = [(each.code, each.rank) for each in session.book.incidents]
    assert named == [("cuda.illegal_access", 1 if "{}" in place else None)]  # a common file names none
