"""What of a recording cannot be read is counted, whatever was changed, and reading ends within its budget."""

from __future__ import annotations

import random
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
import zstandard

from gpuwatch.link.recording import reader
from gpuwatch.link.recording.parts import Inflater
from gpuwatch.link.recording.playback.player import Player
from gpuwatch.link.recording.reader import ReadBlock, Recording
from gpuwatch.link.recording.records import StreamRecord
from gpuwatch.link.recording.retention import Retention
from gpuwatch.link.recording.schema import RecordingError
from gpuwatch.report.recording.redacted_copy import redact
from gpuwatch.runs.sessions.sources.recording import read_recording
from gpuwatch.session import replay_session
from gpuwatch.session.replay_session import ReplaySession
from tests.link.recording.recordings import recorded_demo

FAR = 99_999_999_999


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return Path(shutil.copy(recorded_demo().path, tmp_path / "a.gpw"))


def change(path: Path, *statements: str, values: tuple[object, ...] = ()) -> None:
    with closing(sqlite3.connect(path)) as file, file:
        for statement in statements:
            file.execute(statement, values)


def last_block(path: Path) -> tuple[ReadBlock, list[StreamRecord]]:
    with closing(Recording(path)) as recording:
        block = list(recording.blocks(0))[-1]
        return block, list(recording.records(block))


def put_last(path: Path, lines: bytes) -> None:
    """Give the last block these lines, without the checksum that a recorder writes."""
    packed = zstandard.ZstdCompressor().compress(lines)
    change(path, "UPDATE block SET data = ? WHERE id = (SELECT max(id) FROM block)", values=(packed,))


def damage_at_end(path: Path) -> int:
    with ReplaySession(path) as replay:
        replay.go_to(replay.extent[1])
        return replay.damaged


def test_a_whole_recording_has_no_damage(path: Path) -> None:
    assert damage_at_end(path) == 0
    with closing(Recording(path)) as recording:
        assert sum(1 for _ in recording.all_records()) > 1_000
        assert recording.damaged == 0


def test_a_changed_bit_of_a_block_is_always_noticed(path: Path) -> None:
    block, records = last_block(path)
    with closing(Recording(path)) as recording:
        whole = recording.inflated(block.data)
        dictionary = zstandard.get_frame_parameters(block.data).dict_id
        content = recording._dictionary(dictionary)
    assert len(records) > 10
    inflater, chance = Inflater({dictionary: content}.get), random.Random(14)
    for _ in range(1_000):
        changed = bytearray(block.data)
        changed[chance.randrange(len(changed))] ^= 1 << chance.randrange(8)
        assert inflater.opened(bytes(changed)) in (None, whole)


LINES: dict[str, Callable[[bytes], bytes]] = {
    "space": lambda line: line.replace(b" ", b"_", 1),
    "kind": lambda line: line.replace(b" sample ", b" simple "),
    "node": lambda line: line.replace(b" 1 sample", b" 999 sample"),
    "session": lambda line: line.replace(b" 1 sample", b" 0 sample"),
    "later": lambda line: b"%d%s" % (FAR, line[line.index(b" ") :]),
    "empty": lambda _: b"",
    "many": lambda line: b"\n" * 600_000 + line,
    "more": lambda line: line * 3 + b"\x00",
}


@pytest.mark.parametrize("name", LINES)
def test_a_line_that_is_not_taken_in_is_counted(path: Path, name: str) -> None:
    block, records = last_block(path)
    one = next(each for each in records if each.kind == "sample" and each.node == 1)
    put_last(path, one.line(block.first))
    assert damage_at_end(path) == 0
    put_last(path, LINES[name](one.line(block.first)))
    assert damage_at_end(path) > 0


ROWS = {
    "gone": "DELETE FROM block WHERE id = 5",
    "number": "UPDATE block SET id = -5 WHERE id = (SELECT max(id) FROM block)",
    "zero": "UPDATE block SET id = 0 WHERE id = (SELECT max(id) FROM block)",
    "greatest": "UPDATE block SET id = 99999999 WHERE id = (SELECT max(id) FROM block)",
    "begins late": "UPDATE block SET first = first + 99999999999 WHERE id = (SELECT max(id) FROM block)",
    "key frame far": "UPDATE key_frame SET block = 99999999",
    "key frame ahead": "UPDATE key_frame SET block = (SELECT max(id) FROM block) WHERE block < 20",
    "key frame empty": "UPDATE key_frame SET data = x''",
}


@pytest.mark.parametrize("name", ROWS)
def test_blocks_that_are_passed_over_are_counted(path: Path, name: str) -> None:
    change(path, ROWS[name])
    with ReplaySession(path) as replay:
        replay.go_to(replay.extent[0] + 12.0)
        replay.go_to(replay.extent[1])
        assert replay.damaged > 0


def add_blocks(path: Path, count: int, lines: bytes) -> None:
    packed = zstandard.ZstdCompressor().compress(lines)
    newest = "FROM block ORDER BY id DESC LIMIT 1"
    copied = f"INSERT INTO block SELECT NULL, last, last + 1, wall, 1, 1, ? {newest}"
    change(path, *[copied] * count, values=(packed,))


@pytest.mark.parametrize(
    ("limit", "most", "lines"),
    [("MAX_SEEK_RECORDS", 5_000, b"0 1 x {}\n" * 1_000), ("MAX_SEEK_BYTES", 20_000_000, b"\n" * 2_000_000)],
)
def test_a_seek_ends_within_its_budget(
    path: Path, monkeypatch: pytest.MonkeyPatch, limit: str, most: int, lines: bytes
) -> None:
    add_blocks(path, 40, lines)
    monkeypatch.setattr(reader, limit, most)
    with closing(Recording(path)) as recording:
        player = Player(recording, lambda: 0.0)
        player.seek(recording.last)
        assert sum(1 for _ in player.due()) < 10_000
        assert player.at_end
        assert recording.damaged > 0
        assert recording._parts.read_bytes < 60_000_000


def test_what_a_seek_brings_ends_in_time(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay_session, "TAKE_CPU_S", 0.0)
    with ReplaySession(path) as replay:
        replay.go_to(replay.extent[1])
        assert (replay.at_end, replay.damaged > 0) == (True, True)
        replay.go_to(replay.extent[0])
        replay.step(30.0)
        assert replay.position == replay.extent[0] + 30.0


def test_a_report_of_the_whole_file_ends_within_its_budget(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpuwatch.link.recording.parts.MAX_SEEK_RECORDS", 1_000)
    monkeypatch.setattr("gpuwatch.link.recording.parts.RECORDS_PER_BYTE", 0)
    session = read_recording(path)
    assert len(session.problems) == 1
    with closing(Recording(path)) as recording:
        redact(recording, tmp_path / "copy.gpw")
    assert damage_at_end(tmp_path / "copy.gpw") > 0


def test_a_copy_of_a_damaged_recording_is_as_damaged(path: Path, tmp_path: Path) -> None:
    block, records = last_block(path)
    put_last(path, b"".join(one.line(block.first) for one in records) + b"0_1 sample {}\n")
    with closing(Recording(path)) as recording:
        redact(recording, tmp_path / "copy.gpw")
        assert recording.damaged == 1
    assert damage_at_end(tmp_path / "copy.gpw") == 1


OBJECTS = {
    "trigger": "CREATE TRIGGER sqlite_x AFTER INSERT ON block BEGIN DELETE FROM block; END",
    "view": "CREATE VIEW sqlite_x AS SELECT 1",
    "index": "CREATE INDEX sqlite_autoindex_x ON block (frames)",
}


@pytest.mark.parametrize("kind", OBJECTS)
def test_nothing_else_in_the_schema_is_taken_for_sqlites_own(path: Path, kind: str) -> None:
    with closing(sqlite3.connect(path)) as file, file:
        file.execute("PRAGMA writable_schema = ON")
        row = (kind, OBJECTS[kind].split()[2], "block", 0, OBJECTS[kind])
        file.execute("INSERT INTO sqlite_master VALUES (?, ?, ?, ?, ?)", row)
    with pytest.raises(RecordingError, match=r"sqlite_|malformed"):
        Recording(path)


def test_blocks_keep_their_numbers_when_all_old_ones_are_let_go(path: Path) -> None:
    with closing(sqlite3.connect(path)) as file:
        file.execute("INSERT INTO key_frame SELECT max(last), max(id), x'' FROM block WHERE true")
        file.isolation_level = None
        Retention(size_bytes=1).trim(file)
        file.execute("INSERT INTO block SELECT NULL, last, last, wall, 1, 1, data FROM block")
        assert file.execute("SELECT min(id) > 10, count(*) FROM block").fetchone() == (1, 2)
