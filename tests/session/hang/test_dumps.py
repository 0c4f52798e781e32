"""Dumps hunted over links: the agent's own code over a made-up /proc, the judging in its real process."""

from __future__ import annotations

import os
import pickle
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from gpuwatch.agent.hang_evidence.flight_files import dump_files, dump_piece
from gpuwatch.diagnose.hang.flight_recorder.job_dumps import FlightEvidence, JobDumps
from gpuwatch.fleet.pending_request import Asked
from gpuwatch.session.hang import dump_transfer
from gpuwatch.session.hang.dump_collection import DumpCollection
from gpuwatch.session.hang.dump_selection import RankTarget
from gpuwatch.session.session import Session
from tests.diagnose.dumps import content, steps
from tests.sentences import Sentences

WORLD = 4
WHOM = 2
WAITS, BEHIND = steps(7), steps(6, "completed")


class Nodes:
    """What a collection asks of a session: each node's processes in a /proc of its own, one set of files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.targets: dict[tuple[str, int], RankTarget] = {}
        self.silent: set[str] = set()
        self.triggered: list[tuple[str, list[int]]] = []
        self.when_asked: Callable[[int], None] = lambda _pid: None
        self.now = 0.0
        (folder / "dumps").mkdir()

    def add(
        self, node: str, rank: int, job: str | None = "J", *, pipe: bool = False, prefix: str = "dumps/r"
    ) -> None:
        process = self.folder / node / str(100 + rank)
        process.mkdir(parents=True)
        env = {"RANK": str(rank), "TORCH_FR_DUMP_TEMP_FILE": f"{self.folder}/{prefix}"}
        if pipe:
            env["TORCH_NCCL_DEBUG_INFO_PIPE_FILE"] = f"{self.folder}/ask"
            os.mkfifo(f"{self.folder}/ask{rank}.pipe")
        (process / "environ").write_bytes(b"\0".join(f"{k}={v}".encode() for k, v in env.items()))
        (process / "root").symlink_to("/")
        self.targets[node, 100 + rank] = RankTarget(rank, job, WORLD)

    def leave(self, rank: int, data: bytes | None = None) -> Path:
        path = self.folder / f"dumps/r{rank}"
        entries = BEHIND if rank == WHOM else WAITS
        path.write_bytes(pickle.dumps(content(entries, {"0": range(WORLD)}), 2) if data is None else data)
        return path

    def ask_dump_files(self, node: str, pids: Sequence[int]) -> Asked:
        return self._answer(node, dump_files, {"pids": list(pids)})

    def ask_dump_piece(self, node: str, pid: int, prefix: str, name: str, offset: int) -> Asked:
        return self._answer(node, dump_piece, {"pid": pid, "prefix": prefix, "name": name, "offset": offset})

    def ask_dumps(self, node: str, pids: Sequence[int]) -> Asked:
        self.triggered.append((node, list(pids)))
        for pid in pids:
            self.when_asked(pid)
        return Asked(node, 0, data={"processes": [{"pid": pid} for pid in pids]})

    def _answer(self, node: str, does: Callable[..., dict[str, Any]], request: dict[str, Any]) -> Asked:
        asked = Asked(node, 0)
        if node in self.silent:
            return asked
        try:
            asked.data = does(request, str(self.folder / node))
        except (OSError, ValueError) as error:
            asked.error = str(error)
        return asked

    def collect(self, *, whole: bool = True) -> DumpCollection:
        session = cast("Session", self)
        return DumpCollection(session, self.targets, whole=whole, longest_s=20.0, clock=lambda: self.now)

    def finish(self, collection: DumpCollection) -> FlightEvidence:
        """Every look is a second later; the process that judges takes its own time, and its clock stands."""
        deadline = time.monotonic() + 60
        while not collection.over:
            assert time.monotonic() < deadline
            collection.update()
            self.now += 0.0 if collection.phase == "judging" else 1.0
            time.sleep(0.02 if collection.phase == "judging" else 0)
        assert collection.hang_check is not None
        return collection.hang_check


@pytest.fixture
def nodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Nodes:
    """Two nodes with two ranks each."""
    (tmp_path / "spool").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "spool"))
    made = Nodes(tmp_path)
    for rank in range(WORLD):
        made.add(f"n{rank // 2}", rank, pipe=True)
    return made


def only(hang_check: FlightEvidence) -> JobDumps:
    (job,) = hang_check.jobs
    return job


def test_the_rank_that_never_came_is_named_and_nothing_is_left_or_written(
    nodes: Nodes, tmp_path: Path
) -> None:
    for rank in range(WORLD):
        nodes.leave(rank)
    job = only(nodes.finish(nodes.collect()))
    assert job.verdict is not None
    assert (job.verdict.culprits, job.verdict.confidence) == ((WHOM,), "high")
    assert [(each.rank, each.node) for each in job.read] == [(0, "n0"), (1, "n0"), (2, "n1"), (3, "n1")]
    assert job.verdict.evidence[0].startswith("4 of 4 dumps, ")
    assert nodes.triggered == []
    assert list((tmp_path / "spool").iterdir()) == []


def test_a_silent_node_is_reported_and_its_ranks_are_not_accused(nodes: Nodes, sentences: Sentences) -> None:
    nodes.silent.add("n1")
    nodes.leave(0)
    nodes.leave(1)
    job = only(nodes.finish(nodes.collect()))
    assert list(job.without) == [2, 3]
    sentences(job.without)
    assert job.verdict is not None
    assert job.verdict.culprits == ()
    sentences(job.verdict.evidence)


def test_what_is_no_dump_is_reported_and_never_run(
    nodes: Nodes, tmp_path: Path, sentences: Sentences
) -> None:
    trap = tmp_path / "trap"
    nodes.leave(0, pickle.dumps(os.system)[:-1] + b"(S'touch " + str(trap).encode() + b"'\ntR.")
    os.truncate(nodes.leave(1, b"\x80"), 2 * dump_transfer.MAX_DUMP_BYTES)
    nodes.leave(2, b"")
    nodes.leave(3)
    job = only(nodes.finish(nodes.collect()))
    assert [each.rank for each in job.read] == [3]
    assert "refused" in job.without[0]
    sentences(job.without[1])
    assert "empty" in job.without[2]
    assert not trap.exists()
    assert job.verdict is not None
    assert job.verdict.culprits == ()


def test_a_rank_that_left_none_is_named_where_all_others_did(nodes: Nodes, sentences: Sentences) -> None:
    for rank in (0, 1, 3):
        nodes.leave(rank)
    job = only(nodes.finish(nodes.collect()))
    assert list(job.without) == [WHOM]
    sentences(job.without)
    assert job.verdict is not None
    assert job.verdict.culprits == (WHOM,)


def test_without_any_dump_nothing_is_claimed(nodes: Nodes, tmp_path: Path) -> None:
    hang_check = nodes.finish(nodes.collect())
    assert hang_check.verdict is None
    assert set(only(hang_check).without) == {0, 1, 2, 3}
    assert hang_check.may_write == (0, 1, 2, 3)
    assert hang_check.places == (f"{tmp_path}/dumps/r",)


def test_fresh_ones_are_written_only_when_asked_for_and_only_those_count(
    nodes: Nodes, sentences: Sentences
) -> None:
    old = nodes.leave(3)
    os.utime(old, (time.time() - 900,) * 2)

    def answer(pid: int) -> None:
        if pid != 103:
            nodes.leave(pid - 100)

    nodes.when_asked = answer
    collection = nodes.collect()
    nodes.finish(collection)
    assert collection.write()
    assert not collection.write()
    job = only(nodes.finish(collection))
    assert sorted(nodes.triggered) == [("n0", [100, 101]), ("n1", [102, 103])]
    assert [each.rank for each in job.read] == [0, 1, 2]
    sentences(job.without[3])
    assert job.verdict is not None
    assert job.verdict.culprits == (WHOM,)
    assert "triggered, written" in job.verdict.note


def test_dumps_of_very_different_ages_are_not_believed(nodes: Nodes, sentences: Sentences) -> None:
    for rank in range(WORLD):
        os.utime(nodes.leave(rank), (time.time() - (600 if rank == WHOM else 5),) * 2)
    stated = only(nodes.finish(nodes.collect())).verdict
    assert stated is not None
    assert stated.confidence == "low"
    sentences(stated.settle[0])


def test_one_that_is_written_anew_while_it_is_fetched_is_fetched_anew(
    nodes: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpuwatch.agent.hang_evidence.flight_files.MAX_PIECE", 1000)
    for rank in range(WORLD):
        nodes.leave(rank)
    collection = nodes.collect()
    while not (collection.phase == "fetching" and collection.progress.split()[1] != "0B"):
        collection.update()
        nodes.now += 0.2
    nodes.leave(0)
    job = only(nodes.finish(collection))
    assert [each.rank for each in job.read] == [0, 1, 2, 3]


def test_two_jobs_in_one_place_are_not_mixed_up(tmp_path: Path, sentences: Sentences) -> None:
    made = Nodes(tmp_path)
    made.add("n0", 0, "A")
    made.add("n0", 1, "B")
    made.leave(0)
    hang_check = made.finish(made.collect())
    assert all(job.read == () for job in hang_check.jobs)
    sentences([job.without[0 if job.job == "A" else 1] for job in hang_check.jobs])


def test_a_job_without_an_id_in_the_place_of_another_is_named_so(
    tmp_path: Path, sentences: Sentences
) -> None:
    made = Nodes(tmp_path)
    made.add("n0", 0, "A")
    made.add("n0", 1, None)
    made.leave(0)
    hang_check = made.finish(made.collect())
    [why] = [job.without[0] for job in hang_check.jobs if job.job == "A"]
    assert "None" not in why
    sentences(why)


def test_a_rank_on_a_node_that_was_not_asked_is_not_accused(nodes: Nodes, sentences: Sentences) -> None:
    del nodes.targets["n1", 103]
    for rank in (0, 1, 2):
        nodes.leave(rank)
    job = only(nodes.finish(nodes.collect(whole=False)))
    assert list(job.without) == [3]
    sentences(job.without)
