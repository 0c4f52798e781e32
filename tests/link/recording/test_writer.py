"""A recording outlives a kill, a full disk and other recorders; nobody else reads it."""

from __future__ import annotations

import os
import resource
import sqlite3
import sys
import time
import traceback
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import msgspec
import pytest

from gpuwatch.hosts.plan import NodeSpec, Plan
from gpuwatch.link.recording.lease import STALE_S, Holder, process_start
from gpuwatch.link.recording.reader import Recording
from gpuwatch.link.recording.records import StreamRecord, records_of
from gpuwatch.link.recording.retention import Retention, used_bytes
from gpuwatch.link.recording.schema import SCHEMA_VERSION, RecordingError
from gpuwatch.link.recording.tee import BLOCK_S, MICRO, IncidentMark, KeyFrame, RecordBlock
from gpuwatch.link.recording.writer import RecordingWriter, rolled_back
from tests.waiting import wait_until

PLAN = Plan(nodes=(NodeSpec("n1"),), source="n1")
NODES = {"n1": 1}


def block(second: int, size: int = 100) -> RecordBlock:
    """A second of bytes that nothing compresses; the reader of the tests does not look into it."""
    return RecordBlock(second * MICRO, second * MICRO + MICRO - 1, 0, 1, 0, os.urandom(size))


@contextmanager
def writing(path: Path, retention: Retention | None = None) -> Iterator[RecordingWriter]:
    writer = RecordingWriter(path, PLAN, NODES, retention)
    try:
        yield writer
    finally:
        writer.close()


def moments(path: Path) -> list[int]:
    with closing(Recording(path)) as recording:
        return [each.first // MICRO for each in recording.blocks(0)]


def test_a_recording_and_its_log_are_for_their_owner_alone(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        with writing(tmp_path / "a.gpw") as writer:
            writer.put(block(1))
            wait_until(lambda: writer.state.written_bytes > 0)
            modes = {each.name: each.stat().st_mode & 0o777 for each in tmp_path.iterdir()}
    finally:
        os.umask(before)
    assert len(modes) == 3
    assert set(modes.values()) == {0o600}


def test_a_recording_is_read_while_it_is_written(tmp_path: Path) -> None:
    with writing(tmp_path / "a.gpw") as writer:
        writer.put(block(1))
        wait_until(lambda: writer.state.written_bytes > 0)
        with closing(Recording(tmp_path / "a.gpw")) as recording:
            assert [each.first // MICRO for each in recording.blocks(0)] == [1]
            writer.put(block(2))
            wait_until(lambda: recording.last >= 2 * MICRO)
            assert [each.first // MICRO for each in recording.blocks(0)] == [1, 2]


def test_a_block_is_on_disk_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kill loses what is in the open block, and no second of waiting beside it."""
    monkeypatch.setattr("gpuwatch.link.recording.writer.COMMIT_S", 10_000.0)
    assert BLOCK_S < 0.8
    with writing(tmp_path / "a.gpw") as writer:
        writer.put(block(1))
        wait_until(lambda: writer.state.written_bytes > 0)
        assert moments(tmp_path / "a.gpw") == [1]


def test_a_full_disk_is_reported_and_the_recording_goes_on_when_there_is_space(tmp_path: Path) -> None:
    """A limit of the size of files stands for the disk."""
    path = tmp_path / "a.gpw"
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    with writing(path) as writer:
        writer.put(block(1))
        wait_until(lambda: writer.state.written_bytes > 0)
        try:
            resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, hard))
            for second in range(2, 6):
                writer.put(block(second, 150_000))
            wait_until(lambda: bool(writer.state.trouble))
            assert writer.state.waiting_bytes > 150_000
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        wait_until(lambda: not writer.state.trouble and not writer.state.waiting_bytes)
        writer.put(block(6))
    assert moments(path) == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("before", ["no file", "a recording"])
def test_a_disk_that_is_full_at_the_start_ends_nothing(tmp_path: Path, before: str) -> None:
    """A service that is started again after a reboot judges and delivers, and records when there is space."""
    path = tmp_path / "a.gpw"
    if before == "a recording":
        with writing(path) as writer:
            writer.put(block(1))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1_000, hard))
        writer = RecordingWriter(path, PLAN, NODES)
        assert writer.state.trouble
        writer.put(block(2))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    wait_until(lambda: not writer.state.trouble and not writer.state.waiting_bytes)
    writer.close()
    assert moments(path) == ([2] if before == "no file" else [1, 2])


def is_committing() -> bool:
    """True if a thread of a writer is in a commit."""
    return any(
        each.f_code.co_name == "_commit"
        for frame in sys._current_frames().values()
        for each, _ in traceback.walk_stack(frame)
    )


@pytest.mark.parametrize("in_commit", [False, True], ids=["nothing in a commit", "one block in a commit"])
def test_what_does_not_fit_into_memory_meanwhile_is_a_gap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_commit: bool
) -> None:
    monkeypatch.setattr("gpuwatch.link.recording.writer.WAITING_BYTES", 1_000)
    path = tmp_path / "a.gpw"
    with writing(path) as writer, closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")  # nothing can be written
        for second in range(1, 9):
            writer.put(block(second, 300))
            if in_commit:
                wait_until(is_committing)
        other.execute("ROLLBACK")
    kept = moments(path)
    lost = sorted(set(range(1, 9)) - set(kept))  # blocks may be in a commit by then, which keeps them
    assert kept[0] == 1 or not in_commit
    assert (kept[-1], writer.state.lost_items) == (8, len(lost))
    with closing(Recording(path)) as recording:
        gaps = [(first // MICRO, last // MICRO) for first, last, _ in recording.gaps()]
    assert (gaps[0][0], gaps[-1][1]) == (lost[0], lost[-1])
    assert all(any(first <= second <= last for first, last in gaps) for second in lost)


def test_no_error_leaves_a_transaction_open(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "a.gpw", isolation_level=None)) as file:
        with pytest.raises(PermissionError), rolled_back(file):
            file.execute("BEGIN IMMEDIATE")
            raise PermissionError
        assert not file.in_transaction


def test_a_second_recorder_is_refused_until_the_first_one_is_gone(tmp_path: Path) -> None:
    path = tmp_path / "a.gpw"
    with writing(path) as first:
        with pytest.raises(RecordingError, match=str(os.getpid())):
            RecordingWriter(path, PLAN, NODES)
        first.put(block(1))
    with writing(path) as second:
        second.put(block(2))
    assert moments(path) == [1, 2]


@pytest.mark.parametrize("why", ["another process has its pid", "its heartbeat is old"])
def test_the_file_of_a_dead_recorder_is_taken_over(tmp_path: Path, why: str) -> None:
    path = tmp_path / "a.gpw"
    with writing(path) as first:
        first.put(block(1))
    pid = os.getpid()
    dead = Holder("t", os.uname().nodename, pid, process_start(pid), time.time())
    dead = msgspec.structs.replace(
        dead, **({"started": 1.0} if why.startswith("another") else {"beat": time.time() - 2 * STALE_S})
    )
    with closing(sqlite3.connect(path, isolation_level=None)) as file:
        file.execute("INSERT INTO meta VALUES ('recorder', ?)", (msgspec.json.encode(dead).decode(),))
    with writing(path) as second:
        second.put(block(2))
    assert moments(path) == [1, 2]


def test_an_incident_keeps_the_moment_at_which_it_was_first_seen(tmp_path: Path) -> None:
    with writing(tmp_path / "a.gpw") as writer:
        writer.put(block(1))
        for second, headline in ((1, "rank 3"), (9, "rank 3; 7 ranks then timed out")):
            writer.put(IncidentMark("i", 1, second * MICRO, 0.5, "critical", headline))
    with closing(Recording(tmp_path / "a.gpw")) as recording:
        assert [(mark.at, mark.headline) for mark in recording.incidents()] == [(MICRO, headline)]


def test_other_nodes_are_refused(tmp_path: Path) -> None:
    with writing(tmp_path / "a.gpw"):
        pass
    with pytest.raises(RecordingError, match="other nodes"):
        RecordingWriter(tmp_path / "a.gpw", Plan(nodes=(NodeSpec("n2"),)), {"n2": 1})


def test_an_older_version_opens_and_a_newer_one_says_so(tmp_path: Path) -> None:
    path = tmp_path / "a.gpw"
    with writing(path) as writer:
        writer.put(block(1))
    for version, opens in ((SCHEMA_VERSION - 1, True), (SCHEMA_VERSION + 1, False)):
        with closing(sqlite3.connect(path)) as file:
            file.execute(f"PRAGMA user_version = {version}")
        if opens:
            assert moments(path) == [1]
        else:
            for use in (Recording, lambda each: RecordingWriter(each, PLAN, NODES)):
                with pytest.raises(RecordingError, match="newer"):
                    use(path)


@pytest.mark.parametrize("by", ["age", "size"])
def test_the_oldest_goes_and_the_newest_key_frame_stays(tmp_path: Path, by: str) -> None:
    path = tmp_path / "a.gpw"
    retention = Retention(age_s=25.0) if by == "age" else Retention(size_bytes=700_000)
    with writing(path, retention) as writer:
        for second in range(1, 61):
            writer.put(block(second, 20_000))
            if second % 10 == 0:
                writer.put(KeyFrame(second * MICRO + MICRO - 1, b""))
        wait_until(lambda: not writer.state.waiting_bytes)
    with closing(sqlite3.connect(path, isolation_level=None)) as file:
        retention.trim(file)
        assert used_bytes(file) < 750_000
        assert file.execute("SELECT count(*) FROM key_frame").fetchone()[0] == 4
    assert moments(path) == list(range(31, 61))


@pytest.mark.parametrize("cut_to", [0, 90, 3_000, 50_000, 200_000, 350_000])
def test_of_a_cut_file_what_can_be_read_is_shown(tmp_path: Path, cut_to: int) -> None:
    path = tmp_path / "a.gpw"
    with writing(path) as writer:
        for second in range(1, 20):
            writer.put(block(second, 20_000))
    with path.open("r+b") as file:
        file.truncate(cut_to)
    try:
        with closing(Recording(path)) as recording:
            found = [each.first for each in recording.blocks(0)]
            assert (0 if cut_to < 100_000 else 3) <= len(found) < 19
            assert recording.damaged
    except RecordingError as error:
        assert cut_to < 100_000
        assert str(path) in str(error)


def test_a_damaged_block_costs_that_block(tmp_path: Path) -> None:
    path = tmp_path / "a.gpw"
    with writing(path) as writer:
        writer.put(block(1))
    with closing(Recording(path)) as recording:
        (one,) = recording.blocks(0)
        assert list(recording.records(one)) == []
        assert recording.damaged == 1


def test_a_line_that_is_no_record_is_left_out() -> None:
    lines = b"5 1 sample {}\nx 1 sample {}\n\n7 a b c\n-3 2 link {}\n9 1 sample\n"
    assert list(records_of(lines, 100, lambda: None)) == [
        StreamRecord(105, 1, "sample", b"{}"), StreamRecord(97, 2, "link", b"{}"),
    ]  # fmt: skip
