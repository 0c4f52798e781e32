"""The dumps of a real hanging gloo job, over real links: who is missing, and what cannot be read."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from gpuwatch.diagnose.hang.flight_recorder.job_dumps import JobDumps
from gpuwatch.hosts.builtin import local_plan
from gpuwatch.session import Session
from gpuwatch.session.hang.dump_transfer import MAX_DUMP_BYTES
from gpuwatch.session.hang.hang_query import HangQuery, HangSources
from tests.cli.running import gpuwatch
from tests.end_to_end.hang.hanging import RANKS, WHOM, hanging_job
from tests.parts import SEEN_BY_EVERY_AGENT, need, need_torch
from tests.servers.sshd import Sshd

pytestmark = [*SEEN_BY_EVERY_AGENT, pytest.mark.long]
PATIENCE_S = 240.0


@dataclass(frozen=True)
class Hanging:
    job: str
    folder: Path

    def dump(self, rank: int) -> Path:
        return self.folder / f"dumps/rank_{rank}"


@pytest.fixture(scope="module")
def hanging(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hanging]:
    """Rank 2 sleeps in its data loader; every rank answers its pipe with a dump."""
    need_torch()
    need("sshd")  # the first test has the dumps written, over ssh; the others judge them
    folder = tmp_path_factory.mktemp("hanging")
    (folder / "dumps").mkdir()
    more = {
        "TORCH_FR_DUMP_TEMP_FILE": f"{folder}/dumps/rank_",
        "TORCH_NCCL_DEBUG_INFO_PIPE_FILE": f"{folder}/ask_",
    }
    with hanging_job(folder, more) as (job, _):
        yield Hanging(job, folder)


def until(session: Session, done: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not done():
        assert time.monotonic() < deadline
        session.poll()
        time.sleep(0.02)


def answered(query: HangQuery) -> bool:
    query.update()
    return query.over


def test_fresh_dumps_over_ssh_name_the_missing_rank(hanging: Hanging, tmp_path: Path) -> None:
    """The order matters: before this nobody has left a dump, and afterwards everybody has."""
    with Sshd(tmp_path / "sshd", names=("node-1",)) as sshd:
        source = (
            "node-1",
            "-F",
            str(sshd.client.config),
            "--no-ras",
            "--no-py-spy",
            "--json",
            "--wait",
            "45",
        )
        before = json.loads(gpuwatch("stacks", *source, "--dumps").stdout)["dumps"]
        (job,) = (each for each in before["jobs"] if each["job"] == hanging.job)  # others may run here, too
        assert set(job["without"]) == {str(rank) for rank in range(RANKS)}
        assert set(range(RANKS)) <= set(before["may_write"])
        assert list((hanging.folder / "dumps").iterdir()) == []  # asking alone writes nothing
        done = gpuwatch("stacks", *source, "--trigger-dumps")
    reported = json.loads(done.stdout)
    (job,) = (each for each in reported["dumps"]["jobs"] if each["job"] == hanging.job)
    assert [each["rank"] for each in job["read"]] == list(range(RANKS))
    assert {each["node"] for each in job["read"]} == {"node-1"}
    assert job["asked"]
    assert job["culprits"] == reported["culprits"] == [WHOM]
    assert reported["sentence"].startswith(f"rank {WHOM} (node-1) ")
    assert " all_reduce #4" in reported["sentence"]
    assert re.match(r"stacks\b", reported["evidence"][0])
    assert reported["confidence"] == "high"
    assert any(each["command"].startswith("ssh node-1 kill ") for each in reported["do"])
    assert done.returncode == 1


def test_what_lies_there_broken_or_huge_is_reported_and_nothing_of_it_is_run(
    hanging: Hanging, tmp_path: Path
) -> None:
    trap = tmp_path / "trap"
    whole = hanging.dump(0).read_bytes()
    hanging.dump(0).write_bytes(whole[: len(whole) // 2])
    hanging.dump(1).write_bytes(b"\x80\x02cos\nsystem\n(S'touch %s'\ntR." % str(trap).encode())
    os.truncate(hanging.dump(3), 10 * MAX_DUMP_BYTES)
    job = asked(hanging)
    assert [each.rank for each in job.read] == [WHOM]
    assert "truncated" in job.without[0]
    assert "os.system" in job.without[1]
    assert "refused" in job.without[1]
    assert "64.0MB" in job.without[3]
    assert not trap.exists()
    assert job.verdict is not None
    assert job.verdict.culprits == ()


def test_dumps_from_before_the_job_are_left_alone(hanging: Hanging) -> None:
    for rank in range(RANKS):
        os.utime(hanging.dump(rank), (time.time() - 7200,) * 2)
    job = asked(hanging)
    assert job.read == ()
    assert all("2 h old" in why for why in job.without.values())


def asked(hanging: Hanging) -> JobDumps:
    """What the query of `D` comes to on this machine, of this job."""
    with Session(local_plan()) as session:
        (node,) = session.fleet.nodes.values()
        until(session, lambda: {p.rank for p in node.processes if p.job == hanging.job} == set(range(RANKS)))
        query = HangQuery(session, sources=HangSources(None, ras=False))
        until(session, lambda: answered(query))
        hang_check = query.hang_report(session.fleet).dumps
    assert hang_check is not None
    (job,) = (each for each in hang_check.jobs if each.job == hanging.job)
    return job
