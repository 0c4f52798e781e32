"""A later session reports the failure of an ended job that an earlier one saw, where no log states it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from msgspec import structs

from gpuwatch import wire
from gpuwatch.agent.logs.checkpoints.checkpoint_lines import SAVED
from gpuwatch.diagnose.past_jobs.earlier_sessions import EarlierJob
from gpuwatch.hosts.builtin import demo_plan
from gpuwatch.hosts.plan import NodeSpec, Plan
from gpuwatch.rules.load import load_packs
from gpuwatch.session.session import Session
from gpuwatch.session.settings.earlier_jobs_file import MAX_FILE_BYTES, EarlierJobsFile
from gpuwatch.session.settings.kept_jobs import MAX_JOBS, kept_jobs
from gpuwatch.session.settings.ran_jobs import MAX_COMMANDS, MAX_LOGS, MAX_NODE_JOBS
from tests.diagnose.incidents.alert_cluster import Watched

PACKS = load_packs()
JOB, RANK, NODE = "4711", 9, "gpu-002"


def end_all(cluster: Watched) -> None:
    for name in cluster.names:
        cluster.report(name, wire.Ranks(t=cluster.t, seq=9))
    cluster.step(1)


def killed(cluster: Watched) -> None:
    """Rank 9 is killed, and its launcher ends the others."""
    cluster.report(
        NODE, wire.Event(t=cluster.t, seq=8, event="rank_ended", title="rank 9 ended", code=-9, pid=101)
    )
    cluster.step(1)


def wall(cluster: Watched) -> float:
    return cluster.t - cluster.skew


def watched(file: EarlierJobsFile, cluster: Watched, seconds: int) -> None:
    for _ in range(seconds):
        cluster.step(1)
        file.note(cluster.fleet, cluster.book.incidents, cluster.now, wall(cluster))


def failed_before(folder: Path, *, inferred: bool = False) -> Path:
    """The file that a session leaves in which rank 9 was killed, and its job ended."""
    first = Watched(packs=PACKS)
    for name in first.names if inferred else ():
        guessed = [structs.replace(each, rank_source="order") for each in first.fleet.nodes[name].processes]
        first.report(name, wire.Ranks(t=first.t, seq=6, processes=guessed))
    path = folder / "failed_jobs.json"
    file = EarlierJobsFile(path)
    watched(file, first, 4)
    line = "saved checkpoint step 120 in 0.2 s"
    first.report(
        NODE,
        wire.Finding(
            t=first.t, seq=7, id=90, rule=SAVED, severity="info", role="hint", file="/logs/rank_8.log",
            offset=1, at=first.t, timed=True, rank=8, job=JOB, lines=[line],
        ),
    )  # fmt: skip
    killed(first)
    watched(file, first, 2)
    assert not path.exists()  # the job still runs
    end_all(first)
    watched(file, first, 4)
    file.write(wall(first))
    return path


def later(path: Path, *, processes: bool = False) -> Watched:
    """A session that begins a minute later."""
    cluster = Watched(packs=PACKS)
    cluster.step(60)
    if not processes:
        end_all(cluster)
        cluster.book = cluster.book.renewed()
    cluster.book.take_earlier(EarlierJobsFile(path).read(wall(cluster)))
    cluster.step(4)
    return cluster


def test_a_later_session_names_the_rank_that_was_killed(tmp_path: Path) -> None:
    path = failed_before(tmp_path)
    assert path.stat().st_mode & 0o077 == 0
    cluster = later(path)
    (named,) = cluster.book.incidents
    assert (named.code, named.rank, named.node, named.job) == ("rank.killed", RANK, NODE, JOB)
    assert not named.over
    assert named.checkpoint is not None
    assert named.checkpoint.step == 120
    assert cluster.book.renewed()._earlier.jobs


def test_a_rank_that_was_inferred_stays_so_in_a_later_session(tmp_path: Path) -> None:
    (named,) = later(failed_before(tmp_path, inferred=True)).book.incidents
    assert (named.rank, named.confidence) == (RANK, "low")
    assert f"~{RANK} " in named.headline


def test_a_job_that_runs_again_has_no_earlier_failure(tmp_path: Path) -> None:
    cluster = later(failed_before(tmp_path), processes=True)
    assert not cluster.book.incidents
    end_all(cluster)
    cluster.step(4)
    assert not cluster.book.incidents


def test_a_later_start_of_the_same_command_and_user_ends_the_report(tmp_path: Path) -> None:
    path = failed_before(tmp_path)
    stored = EarlierJobsFile(path).read(wall(Watched()))
    again, other = "python train.py --seed 8", "python other.py"
    for user, command, reported in (("ann", again, 0), ("bob", again, 1), ("ann", other, 1)):
        cluster = later(path)
        ran = {"users": ("ann",), "commands": ("python train.py --seed #",)}
        cluster.book.take_earlier([structs.replace(each, **ran) for each in stored])
        process = wire.Process(
            900, "python", rank=0, world_size=2, job="5000", start=cluster.t, user=user, command=command
        )
        cluster.report(NODE, wire.Ranks(t=cluster.t, seq=11, processes=[process]))
        cluster.step(4)
        assert len(cluster.book.incidents) == reported


def test_lines_of_a_log_that_is_read_again_are_not_reported_twice(tmp_path: Path) -> None:
    path = failed_before(tmp_path)
    (job,) = EarlierJobsFile(path).read(wall(Watched()))
    proof = structs.replace(job.alerts[0].proof[0], file="/logs/rank_9.log", offset=7)
    of_file = structs.replace(job.alerts[0], proof=(proof,))
    cluster = later(path)
    cluster.book.take_earlier([structs.replace(job, alerts=(of_file,))])
    cluster.step(4)
    assert not cluster.book.incidents
    file = EarlierJobsFile(path)
    file.write(wall(cluster))
    assert file.read(wall(cluster)) == [job]


def test_a_job_that_is_found_by_its_logs_is_not_reported_twice(tmp_path: Path) -> None:
    path = failed_before(tmp_path)
    (job,) = EarlierJobsFile(path).read(wall(Watched()))
    assert "/logs/rank_9.log" in job.logs
    cluster = later(path)
    for index, name in enumerate(cluster.names):
        files = [
            wire.LogFile(
                f"/logs/rank_{index * 8 + gpu}.log", source="found", last_at=cluster.t - 70, size=1,
                searched_to=1, ranks=[index * 8 + gpu],
            )
            for gpu in range(8)
        ]  # fmt: skip
        cluster.report(name, wire.Logs(t=cluster.t, seq=12, files=files, complete=True))
    cluster.step(4)
    assert len({incident.job for incident in cluster.book.incidents}) == 1
    assert {RANK} == {incident.rank for incident in cluster.book.incidents if incident.code == "rank.killed"}
    assert {each.name for each in cluster.book.ended_jobs} == {each.job for each in cluster.book.incidents}


@pytest.mark.parametrize("content", [b"", b"[", b'[{"job":1}]', b"\xff", b"[" * 100_000])
def test_a_damaged_file_is_reported_and_left_as_it_is(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "failed_jobs.json"
    path.write_bytes(content)
    path.chmod(0o600)
    file = EarlierJobsFile(path)
    assert file.read(0.0) == []
    assert str(path) in (file.take_trouble() or "") and file.take_trouble() is None
    cluster = Watched(packs=PACKS)
    watched(file, cluster, 4)
    killed(cluster)
    watched(file, cluster, 4)
    end_all(cluster)
    watched(file, cluster, 4)
    file.write(wall(cluster))
    assert path.read_bytes() == content


def test_what_one_node_reports_of_its_jobs_is_bounded_and_displaces_no_job_of_another(tmp_path: Path) -> None:
    cluster = Watched(packs=PACKS)
    file = EarlierJobsFile(tmp_path / "failed_jobs.json")
    watched(file, cluster, 3)
    (rank,) = cluster.fleet.nodes["gpu-001"].processes[:1]
    for tick in range(40):
        many = [
            structs.replace(
                rank, pid=10_000 + index, job=f"job-{tick}-{index}", logs=[f"/logs/{tick}-{index}"] * 9
            )
            for index in range(20)
        ]
        long = structs.replace(
            rank, logs=[f"/long/{tick}-{n}" for n in range(9)], command=f"python {'x' * tick}"
        )
        cluster.report("gpu-001", wire.Ranks(t=cluster.t, seq=100 + tick, processes=[long, *many]))
        watched(file, cluster, 2)
    ran = file.ran
    assert len(ran) <= MAX_NODE_JOBS + 20 + 1 and JOB in ran
    assert len(ran[JOB].logs) <= MAX_LOGS and len(ran[JOB].commands) <= MAX_COMMANDS


def test_no_node_makes_the_file_too_large_or_displaces_the_jobs_of_another(tmp_path: Path) -> None:
    (job,) = EarlierJobsFile(failed_before(tmp_path)).read(wall(Watched()))
    long = [
        structs.replace(
            job,
            job=f"long-{index}",
            nodes=("gpu-666",),
            ended=job.ended + 1 + index,
            logs=tuple(f"/{'x' * 3_900}/{index}-{n}" for n in range(MAX_LOGS)),
            commands=tuple("y" * 8_000 + str(n) for n in range(MAX_COMMANDS)),
        )
        for index in range(200)
    ]
    kept = kept_jobs([job, *long])
    assert job in kept and long[-1].job in {each.job for each in kept} and len(kept) == MAX_JOBS
    assert all(each.alerts == job.alerts for each in kept)
    assert len(msgspec.json.encode(kept)) < MAX_FILE_BYTES


def test_a_demo_reads_no_job_of_a_real_session(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[float] = []

    def read(_: EarlierJobsFile, wall: float) -> list[EarlierJob]:
        asked.append(wall)
        return []

    monkeypatch.setattr(EarlierJobsFile, "read", read)
    links: Any = SimpleNamespace(dialer=None, hang_up=None)
    for nodes, reads in ((demo_plan().nodes, 0), ((NodeSpec("gpu-001"),), 1)):
        asked.clear()
        Session(Plan(nodes), links=lambda _: links)
        assert len(asked) == reads
