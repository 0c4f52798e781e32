"""The agent lists and reads the dumps of a job's flight recorders: those, and nothing else."""

from __future__ import annotations

import base64
import gzip
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from gpuwatch import wire
from gpuwatch.agent.hang_evidence import flight_files
from gpuwatch.agent.hang_evidence.flight_files import dump_files, dump_piece
from tests.sentences import Sentences


@pytest.fixture
def rank(tmp_path: Path) -> Iterator[int]:
    """The pid of rank 3, whose job names a place for its dumps and a pipe."""
    env = {**os.environ, "RANK": "3", "WORLD_SIZE": "4", "TORCH_FR_DUMP_TEMP_FILE": f"{tmp_path}/fr_"}
    env["TORCH_NCCL_DEBUG_INFO_PIPE_FILE"] = f"{tmp_path}/ask_"
    argv = [sys.executable, "-c", "print(1, flush=True); input()"]
    with subprocess.Popen(argv, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process.pid
        process.communicate(b"\n")


def listed(pid: int) -> wire.DumpPlaces:
    return msgspec.convert(dump_files({"pids": [pid]}), wire.DumpPlaces)


def place_of(pid: int) -> wire.DumpPlace:
    (place,) = listed(pid).places
    return place


def fetched(pid: int, prefix: str, name: str) -> bytes:
    data = b""
    while True:
        asked = {"pid": pid, "prefix": prefix, "name": name, "offset": len(data)}
        piece = msgspec.convert(dump_piece(asked), wire.DumpPiece)
        if not piece.bytes:
            return data
        assert len(piece.packed) < 800_000
        data += gzip.decompress(base64.b64decode(piece.packed))


def test_dumps_of_this_run_are_listed_with_their_age_and_older_ones_are_only_counted(
    rank: int, tmp_path: Path
) -> None:
    (tmp_path / "fr_3").write_bytes(b"x" * 10)
    (tmp_path / "fr_0.json").write_bytes(b"{}")
    (tmp_path / "fr_1").write_bytes(b"of the run before")
    os.utime(tmp_path / "fr_1", (time.time() - 3600,) * 2)
    (tmp_path / "fr_notes.txt").write_text("not a dump")
    (tmp_path / "fr_2").symlink_to("/etc/passwd")
    place = place_of(rank)
    assert (place.prefix, place.named, place.pids) == (f"{tmp_path}/fr_", True, [rank])
    assert [(file.name, file.rank, file.size_bytes) for file in place.files] == [
        ("0.json", 0, 2),
        ("3", 3, 10),
    ]
    assert all(file.age_s < 60 for file in place.files)
    assert (place.older, round(place.older_age_s or 0, -2), place.foreign) == (1, 3600, 1)


def test_a_pipe_is_reported_only_where_it_lies(rank: int, tmp_path: Path) -> None:
    assert listed(rank).pipes == [wire.DumpPipe(pid=rank, there=False)]
    os.mkfifo(tmp_path / "ask_3.pipe")
    assert listed(rank).pipes == [wire.DumpPipe(pid=rank, there=True)]


def test_a_dump_comes_whole_piece_by_piece(
    rank: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = random.Random(3).randbytes(700_000) + b"again" * 1_000_000  # does not pack at all, and packs well
    (tmp_path / "fr_3").write_bytes(data)
    assert fetched(rank, f"{tmp_path}/fr_", "3") == data
    monkeypatch.setattr(flight_files, "MAX_PIECE", 65536)
    assert fetched(rank, f"{tmp_path}/fr_", "3") == data


@pytest.mark.parametrize("name", ["../../etc/passwd", "3/../3", "x", "", 3, "3.txt"])
def test_only_names_of_dumps_are_read(rank: int, tmp_path: Path, name: object) -> None:
    (tmp_path / "fr_x").write_text("secret")
    with pytest.raises(ValueError, match="not the name"):
        dump_piece({"pid": rank, "prefix": f"{tmp_path}/fr_", "name": name})


def test_another_place_than_the_jobs_own_is_not_read(rank: int, tmp_path: Path) -> None:
    (tmp_path / "other_3").write_text("secret")
    with pytest.raises(ValueError, match="not the name"):
        dump_piece({"pid": rank, "prefix": f"{tmp_path}/other_", "name": "3"})


def test_neither_a_link_nor_a_pipe_nor_another_users_file_is_read(rank: int, tmp_path: Path) -> None:
    prefix, path = f"{tmp_path}/fr_", tmp_path / "fr_3"
    path.symlink_to("/etc/passwd")
    with pytest.raises(OSError, match="symbolic"):
        dump_piece({"pid": rank, "prefix": prefix, "name": "3"})
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(ValueError, match="regular"):
        dump_piece({"pid": rank, "prefix": prefix, "name": "3"})
    path.unlink()
    if os.geteuid() == 0:
        path.write_text("somebody else's")
        os.chown(path, 12345, 12345)
        with pytest.raises(ValueError, match="job's user"):
            dump_piece({"pid": rank, "prefix": prefix, "name": "3"})
        assert place_of(rank).foreign == 1


def test_where_nothing_is_named_torchs_own_places_are_looked_at(tmp_path: Path) -> None:
    own = tmp_path / ".cache/torch"
    own.mkdir(parents=True)
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "RANK": "0"}
    argv = [sys.executable, "-c", "print(1, flush=True); input()"]
    with subprocess.Popen(argv, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        (own / "comm_lib_trace_rank_0").write_bytes(b"{}")
        places = {place.prefix: place for place in listed(process.pid).places}
        process.communicate(b"\n")
    place = places[f"{own}/comm_lib_trace_rank_"]
    assert (place.named, [file.rank for file in place.files]) == (False, [0])


def test_a_folder_that_is_not_there_and_a_process_that_is_gone_are_reported(
    rank: int, tmp_path: Path, sentences: Sentences
) -> None:
    reported = listed(rank)
    assert reported.places[0].files == []
    tmp_path.rename(tmp_path.with_name("moved"))
    sentences(str(place_of(rank).error))
    tmp_path.with_name("moved").rename(tmp_path)
    assert listed((1 << 22) + 1).unread == [(1 << 22) + 1]
