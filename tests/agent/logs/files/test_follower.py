"""One file on its way through appending, rotation, truncation and deletion: every line once, and in order."""

from __future__ import annotations

import os
import random
import shutil
import threading
import time
from pathlib import Path

import pytest

from gpuwatch.agent.logs.files.follower import ANEW, DELETED_S, QUIET_S, ROTATED, TRUNCATED, Follower


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "rank_0.log"
    path.write_bytes(b"old\n")
    return path


def opened(log: Path, clock: Clock, offset: int | None = 0) -> Follower:
    follower = Follower(str(log), clock)
    follower.open(offset)
    return follower


def everything(follower: Follower, budget: int = 1 << 16) -> tuple[bytes, list[str]]:
    """All that is there now, and the seams before it."""
    data, seams = b"", []
    while (piece := follower.read(budget)) is not None:
        data += piece.data
        if piece.seam is not None:
            seams.append(piece.seam)
    return data, seams


def append(log: Path, data: bytes) -> None:
    with log.open("ab") as file:
        file.write(data)


def test_only_what_is_new_comes(log: Path, clock: Clock) -> None:
    follower = opened(log, clock, None)
    assert everything(follower) == (b"", [])
    append(log, b"one\ntw")
    assert everything(follower) == (b"one\ntw", [])
    append(log, b"o\n")
    piece = follower.read(100)
    assert piece is not None
    assert (piece.data, piece.offset) == (b"o\n", 10)


def test_a_turn_takes_no_more_than_its_budget(log: Path, clock: Clock) -> None:
    follower = opened(log, clock)
    append(log, b"x" * 1000)
    piece = follower.read(100)
    assert piece is not None
    assert len(piece.data) == 100
    assert follower.behind == 904


def test_a_renamed_file_is_finished_before_its_successor(log: Path, clock: Clock) -> None:
    follower = opened(log, clock)
    assert everything(follower)[0] == b"old\n"
    append(log, b"last words\n")
    log.rename(log.with_suffix(".log.1"))
    log.write_bytes(b"first of the new\n")
    assert everything(follower) == (b"last words\nfirst of the new\n", [ROTATED])
    assert follower.offset == len(b"first of the new\n")


def test_a_writer_may_go_on_in_the_renamed_file(log: Path, clock: Clock) -> None:
    follower = opened(log, clock)
    everything(follower)
    aged = log.with_suffix(".log.1")
    log.rename(aged)
    log.touch()
    append(aged, b"late\n")
    assert everything(follower) == (b"late\n", [])
    append(log, b"new\n")
    assert everything(follower) == (b"new\n", [ROTATED])


def test_a_quiet_rotated_file_is_left_for_its_empty_successor(log: Path, clock: Clock) -> None:
    follower = opened(log, clock)
    everything(follower)
    log.rename(log.with_suffix(".log.1"))
    log.touch()
    clock.now += QUIET_S + 1
    everything(follower)
    assert follower.inode == log.stat().st_ino
    assert follower.finished == [(log.stat().st_dev, log.with_suffix(".log.1").stat().st_ino, 4)]


def test_two_rotations_between_two_looks_lose_nothing(log: Path, clock: Clock) -> None:
    """Document 004, line 530."""
    follower = opened(log, clock)
    everything(follower)
    first, second = log.with_suffix(".log.1"), log.with_suffix(".log.2")
    append(log, b"a\n")
    log.rename(second)
    time.sleep(0.02)  # file systems stamp changes every few milliseconds
    first.write_bytes(b"b\n")
    time.sleep(0.02)
    log.write_bytes(b"c\n")
    assert everything(follower)[0] == b"a\nb\nc\n"


def test_truncation_starts_over(log: Path, clock: Clock) -> None:
    follower = opened(log, clock)
    everything(follower)
    log.write_bytes(b"n\n")
    assert everything(follower) == (b"n\n", [TRUNCATED])


def test_a_file_written_anew_and_longer_than_before_is_noticed(log: Path, clock: Clock) -> None:
    follower = opened(log, clock)
    everything(follower)
    log.write_bytes(b"something else, and more of it\n")
    assert everything(follower) == (b"something else, and more of it\n", [TRUNCATED])


def test_what_copytruncate_took_away_is_read_from_the_copy(log: Path, clock: Clock) -> None:
    follower = opened(log, clock)
    everything(follower)
    append(log, b"unread yet\n")
    shutil.copy(log, log.with_suffix(".log.1"))
    os.truncate(log, 0)
    append(log, b"after\n")
    assert everything(follower) == (b"unread yet\nafter\n", [TRUNCATED])


def test_what_came_and_was_copied_away_since_the_file_was_empty(log: Path, clock: Clock) -> None:
    follower = opened(log, clock)
    everything(follower)
    copy = log.with_suffix(".log.1")
    shutil.copy(log, copy)
    os.truncate(log, 0)
    assert everything(follower)[0] == b""
    time.sleep(0.02)  # file systems stamp changes every few milliseconds
    append(log, b"never seen in its place\n")
    shutil.copy(log, copy)
    os.truncate(log, 0)
    append(log, b"after\n")
    assert everything(follower)[0] == b"never seen in its place\nafter\n"


def test_somebody_elses_file_of_a_similar_name_is_no_copy(log: Path, clock: Clock) -> None:
    follower = opened(log, clock)
    everything(follower)
    log.with_suffix(".log.1").write_bytes(b"rank 1 says something quite different\n")
    os.truncate(log, 0)
    append(log, b"after\n")
    assert everything(follower)[0] == b"after\n"


def test_a_deleted_file_is_read_on_and_then_waited_for(log: Path, clock: Clock) -> None:
    follower = opened(log, clock)
    everything(follower)
    with log.open("ab") as writer:
        log.unlink()
        writer.write(b"from beyond\n")
    assert everything(follower) == (b"from beyond\n", [])
    assert follower.gone
    clock.now += DELETED_S + 1
    everything(follower)
    log.write_bytes(b"back\n")
    assert everything(follower) == (b"back\n", [ANEW])
    assert not follower.gone


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files to other users")
def test_a_file_of_another_user_is_no_part_of_a_log(log: Path, clock: Clock) -> None:
    """In a folder where all may write, others can take the names of rotated and of deleted parts."""
    mine, others = 12001, 12002
    os.chown(log, mine, mine)
    follower = opened(log, clock)
    everything(follower)
    log.rename(log.with_suffix(".log.0"))
    for part, owner in ((log.with_suffix(".log.1"), others), (log, mine)):
        part.write_bytes(b"of %d\n" % owner)
        os.chown(part, owner, owner)
    assert everything(follower) == (b"of 12001\n", [ROTATED])
    log.unlink()
    everything(follower)
    log.write_bytes(b"forged\n")
    os.chown(log, others, others)
    with pytest.raises(PermissionError):
        everything(follower)
    os.chown(log, 0, 0)
    assert everything(follower) == (b"forged\n", [ANEW])


def test_a_remade_folder(tmp_path: Path, clock: Clock) -> None:
    folder = tmp_path / "attempt_0" / "0"
    folder.mkdir(parents=True)
    log = folder / "stdout.log"
    log.write_bytes(b"first attempt\n")
    follower = opened(log, clock)
    everything(follower)
    shutil.rmtree(tmp_path / "attempt_0")
    everything(follower)
    folder.mkdir(parents=True)
    log.write_bytes(b"second attempt\n")
    assert everything(follower) == (b"second attempt\n", [ANEW])


def test_only_regular_files_are_opened(tmp_path: Path, clock: Clock) -> None:
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(OSError, match="not a regular file"):
        Follower(str(tmp_path / "fifo"), clock).open()


class Writer:
    """Appends numbered lines and now and then rotates, as one of several ways does it."""

    def __init__(self, path: Path, seed: int, rounds: list[int]) -> None:
        self.path = path
        self._rounds = rounds
        """How often all files were read so far: a file is not rotated twice before anybody has looked."""
        self._not_before = 2
        self.written = 0
        self._random = random.Random(seed)
        self._way = ("rename", "copytruncate", "none")[seed % 3]
        self._file = path.open("ab", buffering=0)

    def write(self, lines: int) -> None:
        text = b"".join(
            b"%d %s\n" % (self.written + n, b"x" * self._random.randrange(90)) for n in range(lines)
        )
        self.written += lines
        cut = self._random.randrange(len(text))
        self._file.write(text[:cut])
        self._file.write(text[cut:])
        if self._way != "none" and self._rounds[0] >= self._not_before and self._random.random() < 0.1:
            self._rotate()
            self._not_before = self._rounds[0] + 2

    def _rotate(self) -> None:
        aged = self.path.with_suffix(".log.1")
        if self._way == "rename":
            if aged.exists():
                aged.rename(self.path.with_suffix(".log.2"))
            self.path.rename(aged)
            self._file.close()
            self._file = self.path.open("ab", buffering=0)
        else:
            shutil.copy(self.path, aged)
            os.truncate(self.path, 0)


def test_50_files_at_1000_lines_a_second_each_lose_and_double_nothing(tmp_path: Path) -> None:
    """Written in bursts of 50 lines, 20 times a second, for four seconds, while the files are followed."""
    rounds = [0]
    writers = [Writer(tmp_path / f"rank_{number}.log", number, rounds) for number in range(50)]
    followers = [opened(writer.path, time.monotonic) for writer in writers]  # type: ignore[arg-type]
    read = [bytearray() for _ in writers]
    ended = threading.Event()

    def write() -> None:
        due = time.monotonic()
        for _ in range(80):
            for writer in writers:
                writer.write(50)
            due += 0.05
            time.sleep(max(0.0, due - time.monotonic()))
        ended.set()

    thread = threading.Thread(target=write)
    thread.start()
    deadline = time.monotonic() + 60.0
    all_read = False
    while not all_read and time.monotonic() < deadline:
        has_ended = ended.is_set()
        for follower, data in zip(followers, read, strict=True):
            data.extend(everything(follower)[0])
        rounds[0] += 1
        all_read = has_ended and all(
            data.count(b"\n") >= writer.written for writer, data in zip(writers, read, strict=True)
        )
        time.sleep(0.05)
    thread.join()
    for writer, data in zip(writers, read, strict=True):
        numbers = [int(line.split()[0]) for line in bytes(data).splitlines()]
        assert numbers == list(range(writer.written)), writer.path
    assert sum(follower.seams for follower in followers) > 20


def test_two_nodes_know_a_growing_file_of_a_shared_file_system_by_its_first_bytes(
    log: Path, clock: Clock
) -> None:
    def mark() -> str | None:
        follower = Follower(str(log), clock)
        follower.remote = True
        follower.open()
        try:
            return follower.fingerprint()
        finally:
            follower.close()

    log.touch()
    assert mark() is not None
    log.write_bytes(b"step 1 loss 2.1\n" * 400)
    before = mark()
    with log.open("ab") as more:
        more.write(b"step 2 loss 2.0\n" * 9000)
    assert mark() == before
    log.write_bytes(b"step 1 loss 2.2\n" * 9400)
    assert mark() != before
