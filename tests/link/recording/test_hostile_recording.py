"""A stranger's recording: nothing in it steers the terminal, fills the memory or ends the replay."""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import msgspec
import pytest
import zstandard

from gpuwatch.link.recording import schema
from gpuwatch.link.recording.parts import MAX_BLOCK_BYTES
from gpuwatch.link.recording.reader import Recording
from gpuwatch.link.recording.records import MAX_RECORDS, records_of
from gpuwatch.link.recording.schema import RecordingError, create, open_for_reading, open_for_writing
from gpuwatch.session.replay_session import ReplaySession
from tests.cli.running import gpuwatch
from tests.link.recording.recordings import recorded_demo

ESCAPE = "\x1b]0;owned\x07"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return Path(shutil.copy(recorded_demo().path, tmp_path / "a.gpw"))


def changed(path: Path, change: Callable[[bytes], bytes]) -> None:
    """Every block and key frame with other bytes inside."""
    inflate, deflate = zstandard.ZstdDecompressor(), zstandard.ZstdCompressor()
    with closing(sqlite3.connect(path)) as file, file:
        for table, key in (("block", "id"), ("key_frame", "at")):
            for number, data in file.execute(f"SELECT {key}, data FROM {table}").fetchall():  # noqa: S608 - names of our own
                packed = deflate.compress(change(inflate.decompress(data)))
                file.execute(f"UPDATE {table} SET data = ? WHERE {key} = ?", (packed, number))  # noqa: S608 - names of our own


def played(path: Path) -> ReplaySession:
    with ReplaySession(path) as replay:
        replay.go_to(replay.extent[1])
        replay.play()
        while not replay.at_end:
            replay.step(5.0)
        return replay


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to make files of another user")
@pytest.mark.parametrize("end", ["-wal", "-shm", "-journal"])
def test_no_file_of_another_user_replaces_what_is_recorded(path: Path, end: str) -> None:
    path.parent.chmod(0o1777)
    Recording(path).close()
    beside = path.with_name(path.name + end)
    beside.touch()
    os.chown(beside, 65534, 65534)
    for opened in (open_for_reading, open_for_writing):
        with pytest.raises(RecordingError, match=end):
            opened(path)
    new = path.with_name(f"b{path.name}")
    with pytest.raises(RecordingError, match=end):
        create(Path(shutil.move(beside, new.with_name(new.name + end))).with_name(new.name))
    assert not new.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to make files of another user")
def test_what_comes_beside_a_recording_while_it_is_open_is_not_read(path: Path) -> None:
    path.parent.chmod(0o1777)
    with closing(open_for_reading(path)) as file:
        before = file.execute("SELECT count(*) FROM block").fetchone()
        with closing(open_for_writing(path)) as other:
            other.execute("DELETE FROM block")
            os.chown(f"{path}-wal", 65534, 65534)
            assert file.execute("SELECT count(*) FROM block").fetchone() == before


def test_no_control_character_comes_out_of_a_recording(path: Path) -> None:
    evil = msgspec.json.encode(ESCAPE)[1:-1]

    def put(data: bytes) -> bytes:
        data = data.replace(b'"reason":""', b'"reason":"' + evil + b'"')
        return data.replace(b"GPU fell off the bus", evil).replace(b"DEMO H100", evil)

    changed(path, put)
    with closing(sqlite3.connect(path)) as file, file:
        file.execute("UPDATE incident SET headline = ?, severity = ?", (ESCAPE, ESCAPE))
    replay = played(path)
    texts = [node.link.reason for node in replay.fleet.nodes.values()]
    texts += [gpu.info.name for gpu in replay.fleet.gpus()]
    texts += [incident.headline for incident in replay.book.incidents]
    with closing(Recording(path)) as recording:
        texts += [mark.headline + mark.severity for mark in recording.incidents()]
    assert len(texts) > 100
    assert not any("\x1b" in text or "\x07" in text for text in texts)


def test_a_block_that_claims_to_be_huge_is_not_unpacked(path: Path) -> None:
    packer = zstandard.ZstdCompressor().compressobj(size=MAX_BLOCK_BYTES + 1)
    parts = [packer.compress(bytes(1 << 20)) for _ in range(MAX_BLOCK_BYTES >> 20)]
    bomb = b"".join([*parts, packer.compress(b" "), packer.flush()])
    with closing(sqlite3.connect(path)) as file, file:
        file.execute("UPDATE block SET data = ? WHERE id = 3", (bomb,))
    with closing(Recording(path)) as recording:
        block = next(each for each in recording.blocks(2))
        assert list(recording.records(block)) == []
        assert recording.damaged == 1


def test_times_and_numbers_without_sense_are_refused(path: Path) -> None:
    evil = (b'"first":1', b'"first":1e300,"x":1'), (b'"t":1', b'"t":-1')
    changed(path, lambda data: data.replace(*evil[0]).replace(*evil[1]))
    replay = played(path)
    assert replay.damaged
    assert not replay.book.incidents


@pytest.mark.sampled(2)
@pytest.mark.parametrize("seed", range(6))
def test_random_damage_is_counted_or_refused(path: Path, seed: int) -> None:
    chance = random.Random(seed)
    data = bytearray(path.read_bytes())
    for _ in range(200):
        data[chance.randrange(100, len(data))] = chance.randrange(256)
    path.write_bytes(data)
    try:
        played(path)
    except RecordingError as error:
        assert str(path) in str(error)


COLUMNS = [
    (table, column)
    for table, columns in {
        "meta": ("value",),
        "node": ("name",),
        "dictionary": ("data",),
        "block": ("first", "last", "wall", "frames", "findings", "data"),
        "key_frame": ("block", "data"),
        "request": ("at", "node", "number", "kind", "body"),
        "answer": ("at", "node", "number", "data"),
        "incident": ("number", "at", "first", "severity", "headline"),
    }.items()
    for column in columns
]


@pytest.mark.sampled(6)
@pytest.mark.parametrize(("table", "column"), COLUMNS)
def test_a_value_of_any_type_in_any_column_is_counted_or_refused(path: Path, table: str, column: str) -> None:
    for value in ("abc", b"\x00\xff", "5" * 5_000, 2**63 - 1, -(2**63), 1e308):
        with closing(sqlite3.connect(path)) as file, file:
            file.execute(f"UPDATE OR IGNORE {table} SET {column} = ?", (value,))  # noqa: S608 - names of our own
        with contextlib.suppress(RecordingError), closing(Recording(path)) as recording:
            first, last = recording.extent() or (0, 0)
            assert abs(first) < 10**17
            for block in recording.blocks(0):
                list(recording.records(block))
            list(recording.items(first, last))
            recording.wall_shift(first)
            assert len(recording.density(40)) == 40
            assert all(len(mark.headline) < 3_000 for mark in recording.incidents())


@pytest.mark.parametrize("table", ["meta", "block", "key_frame", "incident"])
def test_a_view_in_the_place_of_a_table_is_refused(path: Path, table: str) -> None:
    with closing(sqlite3.connect(path)) as file, file:
        columns = ", ".join(f"x AS {row[1]}" for row in file.execute(f"PRAGMA table_info({table})"))
        file.execute(f"DROP TABLE {table}")
        endless = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n)"
        file.execute(f"CREATE VIEW {table} AS {endless} SELECT {columns} FROM n")  # noqa: S608 - names of our own
    with pytest.raises(RecordingError, match=table):
        Recording(path)


def test_lines_that_no_recorder_writes_are_left_out() -> None:
    good = b"5 1 sample {}"
    digits = b"9" * 5_000
    lines = [b"--5 1 sample {}", digits + b" 1 sample {}", b"5 " + digits + b" sample {}", b"5 1", good]
    odd: list[int] = []
    assert [one.at for one in records_of(b"\n".join(lines), 100, lambda: odd.append(1))] == [105]
    assert len(odd) == len(lines) - 1
    odd.clear()
    assert (
        sum(1 for _ in records_of(b"5 1 x {}\n" * (MAX_RECORDS + 9), 0, lambda: odd.append(1))) == MAX_RECORDS
    )
    assert len(odd) == 1


def test_repeated_ids_in_the_order_are_one_incident(path: Path) -> None:
    def put(data: bytes) -> bytes:
        return re.sub(rb'"order":\["([^"]+)"', lambda found: found[0] + b',"%s"' % found[1] * 50_000, data)

    changed(path, put)
    replay = played(path)
    ids = [incident.id for incident in replay.book.incidents]
    assert len(ids) == len(set(ids)) > 0


def test_damaged_blocks_are_reported_by_once(path: Path) -> None:
    with closing(sqlite3.connect(path)) as file, file:
        file.execute("UPDATE block SET data = x'00ff'")
        file.execute("UPDATE key_frame SET data = x'00ff'")
    done = gpuwatch("once", str(path), "--json")
    facts = json.loads(done.stdout)
    assert (done.returncode, facts["healthy"]) == (1, False)
    assert facts["unreadable_parts"] > 0
    assert gpuwatch("dmon", str(path), "-c", "1").returncode == 1
    done = gpuwatch("check", str(path), "--json")
    failed = {each["id"] for each in json.loads(done.stdout)["checks"] if each["status"] == "FAIL"}
    assert (done.returncode, "recording.readable" in failed) == (1, True)


def test_a_message_that_quotes_a_recording_is_bounded() -> None:
    assert len(str(RecordingError("its plan lacks the node " + "x" * 1_000_000))) < 10_000


def test_rows_that_share_their_pages_fill_no_memory(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A row of 64 MB can be part of a small file as often as one likes, as its pages may be the same."""
    with closing(sqlite3.connect(path)) as file, file:
        rows = [(number, bytes(3 << 20)) for number in range(1, 9)]
        file.executemany("INSERT INTO request VALUES (NULL, ?, 1, 1, 'stacks', ?)", rows)
        file.execute("INSERT INTO dictionary VALUES (4711, ?)", (bytes(2 << 20),))
    monkeypatch.setattr(schema, "MAX_READ_BYTES", 10 << 20)
    with closing(Recording(path)) as recording:
        assert len(list(recording.requests(1, "stacks", 100))) == 3
        assert recording.damaged == 1
        assert recording._dictionary(4711) is None


DEEP = b'"zz":' + b"[" * 3000 + b"]" * 3000 + b","


@pytest.mark.parametrize(
    ("old", "new"),
    [(b'"gpus":[', DEEP + b'"gpus":['), (b'"file":"', b'"file":"\xff'), (b'"file":"', DEEP + b'"file":"')],
)
def test_a_record_that_no_recorder_writes_is_counted(path: Path, old: bytes, new: bytes) -> None:
    changed(path, lambda data: data.replace(old, new))
    assert played(path).damaged


@pytest.mark.parametrize("lease", [f"{{{DEEP.decode()}}}", b'{"host": "\xff\xff"}', 7])
def test_a_lease_that_no_recorder_writes_is_none(path: Path, lease: str | bytes | int) -> None:
    with closing(sqlite3.connect(path)) as file, file:
        file.execute("INSERT OR REPLACE INTO meta VALUES ('recorder', ?)", (lease,))
    with closing(Recording(path)) as recording:
        assert recording.writer is None
