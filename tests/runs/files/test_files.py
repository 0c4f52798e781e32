from __future__ import annotations

import bz2
import gzip
import json
import lzma
import os
import random
import shutil
import zlib
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
import zstandard
from click.testing import CliRunner

from gpuwatch.agent.logs.lines.timestamps import time_of
from gpuwatch.cli.analysis.scan import scan
from gpuwatch.runs.files import packing as packing_module
from gpuwatch.runs.files.file_kinds import SAVED_SCREEN
from gpuwatch.runs.files.files import gather
from gpuwatch.runs.files.packing import Contents, packing_of
from tests.sentences import Sentences

TEXT = b"".join(b"2025-03-02 11:00:%02d step %d\n" % (n % 60, n) for n in range(20_000))
NOISE = random.Random(3).randbytes(2048)
PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "zstd": zstandard.compress,
    "xz": partial(lzma.compress, preset=0),
    "bzip2": partial(bz2.compress, compresslevel=1),
}


def names(folder: Path) -> list[str]:
    return [log.inner for log in gather([folder]).files]


def test_a_folder_is_walked_in_a_natural_order(tmp_path: Path) -> None:
    for name in ("rank_10.log", "rank_2.log", "a/rank_0.log", "dmesg"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    assert names(tmp_path) == ["dmesg", "rank_2.log", "rank_10.log", "a/rank_0.log"]


def test_symlinks_are_followed_once_and_loops_end(tmp_path: Path, sentences: Sentences) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "rank_0.log").write_text("x")
    (tmp_path / "run" / "again").symlink_to(tmp_path)
    (tmp_path / "latest.log").symlink_to("run/rank_0.log")
    (tmp_path / "gone.log").symlink_to("nowhere")
    found = gather([tmp_path, tmp_path / "run"])
    assert [log.inner for log in found.files] == ["run/rank_0.log"]
    (dangling,) = found.skipped
    assert not dangling.unreadable
    sentences(dangling.why)


def test_no_link_leads_to_all_files_of_the_machine(tmp_path: Path) -> None:
    named = tmp_path / "logs"
    (named / "own").mkdir(parents=True)
    (named / "rank_0.log").write_text("x")
    (named / "root").symlink_to("/")
    (named / "above").symlink_to("..")
    (named / "proc").symlink_to("/proc")
    (named / "run").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "rank_1.log").write_text("x")
    found = gather([named])
    assert [log.inner for log in found.files] == ["rank_0.log", "run/rank_1.log"]
    assert sorted(Path(each.name).name for each in found.skipped) == ["above", "proc", "root"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give a link away")
@pytest.mark.parametrize(("owner", "is_entered"), [(4711, True), (4712, False), (0, False)])
def test_a_link_of_another_user_leads_to_that_users_folders_alone(
    tmp_path: Path, owner: int, is_entered: bool
) -> None:
    (tmp_path / "logs").mkdir()
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / "rank_1.log").write_text("x")
    (tmp_path / "logs" / "more").symlink_to(tmp_path / "theirs")
    os.chown(tmp_path / "logs" / "more", 4711, 4711, follow_symlinks=False)
    for each in (tmp_path / "theirs", tmp_path / "theirs" / "rank_1.log"):
        os.chown(each, owner, owner)
    found = gather([tmp_path / "logs"])
    assert [log.inner for log in found.files] == ["more/rank_1.log"] * is_entered


def test_files_that_are_no_logs_are_left_out_and_reported(tmp_path: Path, sentences: Sentences) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"text, though")
    (tmp_path / "loss.png").write_bytes(b"x")
    (tmp_path / "core").write_bytes(random.Random(1).randbytes(9000))
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "error.json").write_text("{}")
    (tmp_path / "empty.log").touch()
    os.mkfifo(tmp_path / "pipe")
    found = gather([tmp_path])
    assert [log.inner for log in found.files] == ["empty.log", "error.json"]
    skipped = {Path(each.name).name: each.why for each in found.skipped}
    assert sorted(skipped) == ["config.json", "core", "loss.png", "model.safetensors", "pipe"]
    sentences(skipped)
    assert not any(each.unreadable for each in found.skipped)


def test_a_file_that_is_named_itself_is_read_whatever_it_is_called(tmp_path: Path) -> None:
    path = tmp_path / "train.csv"
    path.write_text("CUDA out of memory")
    assert [log.path for log in gather([path]).files] == [path]


def test_a_log_that_was_truncated_in_place_is_still_one(tmp_path: Path) -> None:
    (tmp_path / "rank_0.log").write_bytes(b"\0" * 200_000 + b"step 1\n")
    assert names(tmp_path) == ["rank_0.log"]


def test_colours_bars_and_other_alphabets_are_text(tmp_path: Path) -> None:
    text = "\x1b[32m  3%|▎   | 3/99 [00:01<00:40]\r\x1b[0m 学習を開始 — début\n" * 500
    (tmp_path / "rank_0.log").write_text(text)
    assert names(tmp_path) == ["rank_0.log"]


@pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="needs /proc")
def test_what_cannot_be_read_is_reported_and_does_not_stop_the_rest(tmp_path: Path) -> None:
    (tmp_path / "broken.log").symlink_to("/proc/self/mem")  # reading its beginning fails for everybody
    (tmp_path / "rank_0.log").write_text("x")
    found = gather([tmp_path])
    assert [log.inner for log in found.files] == ["rank_0.log"]
    (skipped,) = found.skipped
    assert (skipped.why, skipped.unreadable) == ("input/output error", True)


@pytest.mark.parametrize("packing", PACKERS)
def test_every_packing_is_unpacked_whatever_the_file_is_called(tmp_path: Path, packing: str) -> None:
    path = tmp_path / "rank_0.log"
    packed = PACKERS[packing]
    path.write_bytes(packed(TEXT[:1000]) + packed(TEXT[1000:]))  # two members, as `cat a.gz b.gz` makes
    assert packing_of(path.read_bytes()) == packing
    contents = Contents(path, packing)
    assert b"".join(contents.pieces()) == TEXT
    assert contents.damage is None
    assert contents.read == path.stat().st_size


@pytest.mark.sampled(2)
@pytest.mark.parametrize("packing", PACKERS)
def test_a_bomb_comes_in_bounded_pieces_and_ends_at_a_bound(
    tmp_path: Path, packing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packing_module, "MIN_UNPACKED_BYTES", 32 << 20)
    path = tmp_path / "rank_0.log"
    path.write_bytes(PACKERS[packing](bytes(80 << 20)))
    assert path.stat().st_size < 100_000
    contents = Contents(path, packing)
    sizes = [len(piece) for piece in contents.pieces()]
    assert max(sizes) <= (64 << 20 if packing == "zstd" else 2 << 20)
    assert sum(sizes) <= 32 << 20 or packing == "gzip"
    assert contents.damage is not None or packing == "gzip"  # 1 in 1,000 is what a log may reach


@pytest.mark.parametrize("packing", ["bzip2", "xz"])
def test_a_kilobyte_does_not_unpack_to_more_than_is_read_within_seconds(tmp_path: Path, packing: str) -> None:
    path = tmp_path / "rank_0.log"
    path.write_bytes(PACKERS[packing](b"\n" * (4 << 20)) * 40)
    assert path.stat().st_size < 130_000
    contents = Contents(path, packing)
    assert sum(map(len, contents.pieces())) <= 128 << 20
    assert contents.damage is not None


def test_a_dictionary_that_fills_the_memory_is_refused(tmp_path: Path) -> None:
    """The head of a block states the size of xz's dictionary, which is allocated before anything is read."""
    head = bytearray(lzma.compress(b"x" * 100))
    size = (head[12] + 1) * 4
    head[head.index(b"\x21\x01", 12) + 2] = 40  # 4 GiB
    head[12 + size - 4 : 12 + size] = zlib.crc32(bytes(head[12 : 12 + size - 4])).to_bytes(4, "little")
    (tmp_path / "rank_0.log").write_text("x")
    (tmp_path / "rank_1.log.xz").write_bytes(head)
    found = {log.inner: log for log in gather([tmp_path]).files}
    assert sorted(found) == ["rank_0.log", "rank_1.log.xz"]
    contents = Contents(tmp_path / "rank_1.log.xz", found["rank_1.log.xz"].packing)
    assert b"".join(contents.pieces()) == b""
    assert contents.damage is not None


@pytest.mark.parametrize("packing", PACKERS)
def test_many_members_without_text_come_to_an_end(
    tmp_path: Path, packing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packing_module, "MAX_EMPTY_MEMBERS", 300)
    path = tmp_path / "rank_0.log"
    path.write_bytes(PACKERS[packing](b"") * 200 + PACKERS[packing](b"x\n") + PACKERS[packing](b"") * 200)
    contents = Contents(path, packing)
    assert (b"".join(contents.pieces()), contents.damage) == (b"x\n", None)
    path.write_bytes(PACKERS[packing](b"") * 400 + PACKERS[packing](b"x\n"))
    contents = Contents(path, packing)
    assert b"".join(contents.pieces()) == b""
    assert contents.damage is not None


@pytest.mark.parametrize("packing", PACKERS)
def test_of_a_file_that_breaks_off_all_that_is_there_is_read(tmp_path: Path, packing: str) -> None:
    noise = random.Random(3).randbytes(400_000).hex().encode()
    path = tmp_path / "rank_0.log"
    data = PACKERS[packing](noise)
    path.write_bytes(data[: len(data) * 9 // 10])
    contents = Contents(path, packing)
    read = b"".join(contents.pieces())
    assert noise.startswith(read)
    assert packing in str(contents.damage)
    assert len(read) > len(noise) / 2 or packing == "bzip2"  # its blocks are 900 kB


def test_zeros_behind_packed_data_are_padding(tmp_path: Path) -> None:
    path = tmp_path / "rank_0.log.gz"
    path.write_bytes(gzip.compress(TEXT) + bytes(512))
    contents = Contents(path, "gzip")
    assert b"".join(contents.pieces()) == TEXT
    assert contents.damage is None


@pytest.mark.parametrize("packing", PACKERS)
@pytest.mark.parametrize("zeros", [4, 100, 4096, 2_000_000])
def test_a_member_behind_zeros_is_read(tmp_path: Path, packing: str, zeros: int) -> None:
    path = tmp_path / "rank_0.log"
    packed, padding = PACKERS[packing], bytes(zeros)
    path.write_bytes(packed(TEXT[:1000]) + padding + packed(TEXT[1000:2000]) + packed(TEXT[2000:]) + padding)
    contents = Contents(path, packing)
    assert b"".join(contents.pieces()) == TEXT
    assert contents.damage is None
    assert contents.read == path.stat().st_size


@pytest.mark.parametrize("packing", PACKERS)
@pytest.mark.parametrize("zeros", [0, 100, 4096])
@pytest.mark.parametrize("cut", [0, 700, 1500, 2040, 2048])
def test_text_behind_a_member_is_read(tmp_path: Path, packing: str, zeros: int, cut: int) -> None:
    path = tmp_path / "rank_0.log"
    path.write_bytes(PACKERS[packing](NOISE[:cut]) + bytes(zeros) + TEXT)
    contents = Contents(path, packing)
    assert b"".join(contents.pieces()) == NOISE[:cut] + TEXT
    assert contents.damage is None


@pytest.mark.sampled(4)
@pytest.mark.parametrize("packing", PACKERS)
@pytest.mark.parametrize("other", PACKERS)
def test_members_of_two_packings_are_read(tmp_path: Path, packing: str, other: str) -> None:
    path = tmp_path / "rank_0.log"
    for length in range(1990, 2060, 3):
        first = PACKERS[packing](NOISE[:length])
        path.write_bytes(first + PACKERS[other](TEXT))
        contents = Contents(path, packing)
        assert b"".join(contents.pieces()) == NOISE[:length] + TEXT, length
        assert contents.damage is None


@pytest.mark.parametrize("packing", PACKERS)
@pytest.mark.parametrize("zeros", [0, 100, 4096])
def test_what_is_neither_member_nor_text_is_damage(tmp_path: Path, packing: str, zeros: int) -> None:
    path = tmp_path / "rank_0.log"
    path.write_bytes(PACKERS[packing](TEXT) + bytes(zeros) + NOISE)
    contents = Contents(path, packing)
    assert b"".join(contents.pieces()) == TEXT
    assert packing in str(contents.damage)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("packing", PACKERS)
def test_packed_data_in_the_midst_of_text_are_reported(tmp_path: Path, packing: str) -> None:
    (tmp_path / "rank_0.log").write_bytes(TEXT + PACKERS[packing](TEXT) + TEXT)
    found = CliRunner().invoke(scan, ["--json", str(tmp_path)], standalone_mode=False)
    (reported,) = json.loads(found.stdout)["files"]
    assert packing in reported["trouble"]
    assert found.return_value == 1


@pytest.mark.parametrize("packing", PACKERS)
def test_a_packed_log_that_begins_with_zeros_is_read(tmp_path: Path, packing: str) -> None:
    (tmp_path / "rank_0.log").write_bytes(bytes(4096) + PACKERS[packing](TEXT))
    (log,) = gather([tmp_path]).files
    assert log.packing == packing
    assert b"".join(Contents(log.path, packing).pieces()) == TEXT


def test_skippable_frames_of_zstd_hold_no_text(tmp_path: Path) -> None:
    skippable = b"\x50\x2a\x4d\x18" + (4).to_bytes(4, "little") + b"size"
    (tmp_path / "rank_0.log").write_bytes(skippable + PACKERS["zstd"](TEXT) + skippable)
    (log,) = gather([tmp_path]).files
    assert b"".join(Contents(log.path, log.packing).pieces()) == TEXT


@pytest.mark.parametrize("ending", [".lz4", ".Z", ".gz"])
def test_a_log_in_an_unknown_packing_is_unread(tmp_path: Path, ending: str) -> None:
    (tmp_path / f"rank_0.log{ending}").write_bytes(random.Random(3).randbytes(4000))
    (skipped,) = gather([tmp_path]).skipped
    assert skipped.unreadable


def test_damaged_data_are_reported(tmp_path: Path, sentences: Sentences) -> None:
    path = tmp_path / "rank_0.log.gz"
    data = bytearray(gzip.compress(random.Random(3).randbytes(50_000).hex().encode()))
    data[20_000:20_400] = bytes(400)
    path.write_bytes(data)
    contents = Contents(path, "gzip")
    b"".join(contents.pieces())
    sentences(str(contents.damage))


CONTROLS = b"\1\2\3" * 500


@pytest.mark.parametrize("name", ["rank0", "std", "output.txt", "rank0.log", "rank0.txt.gz"])
@pytest.mark.parametrize("size", [1, 25, 800])
def test_binary_data_before_the_lines_of_a_log_hides_it_from_no_report(
    tmp_path: Path, name: str, size: int
) -> None:
    """It is read, or named as not readable."""
    data = CONTROLS * size + TEXT[:1500]
    (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    found = gather([tmp_path])
    assert len(found.files) + sum(each.unreadable for each in found.skipped) == 1
    (tmp_path / name).write_bytes(CONTROLS + TEXT[:4000])
    assert len(gather([tmp_path]).files) == 1


def test_a_log_that_begins_like_a_dump_is_read(tmp_path: Path) -> None:
    begin = b"\x80\x04 pg_config nccl_version"
    (tmp_path / "rank_0.log").write_bytes(begin + b"\n" + TEXT[:4000])
    assert len(gather([tmp_path]).files) == 1
    (tmp_path / "rank_1.txt").write_bytes(begin + CONTROLS * 2 + TEXT[:1500])
    (tmp_path / "rank_2.log").write_bytes(TEXT[:4000])
    ran = CliRunner().invoke(scan, [str(tmp_path), "--json"])
    assert [each["unreadable"] for each in json.loads(ran.stdout)["skipped"]] == [True]


LOGGED = "2026-11-20 10:00:01 INFO step 1, loss 2.5\nTraceback (most recent call last):\n" + "".join(
    f"2026-11-20 10:00:0{second} INFO step {second}, loss 2.5\n" for second in range(9)
)


@pytest.mark.parametrize(
    "name", ["r.tar", "r.zip", "r.svg", "r.pdf", "r.npy", "r.db", "r.csv", "r.tsv", "events.out.tfevents.1.h"]
)
def test_a_log_under_the_name_of_something_else_is_read(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(LOGGED)
    assert [each.path.name for each in gather([tmp_path]).files] == [name]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.svg", "<svg>\n</svg>\n"),
        ("a.pdf", "%PDF-1.4\n1 0 obj\n"),
        ("a.csv", "time,loss\n2026-11-20 10:00:01,2.5\n2026-11-20 10:00:02,2.4\n"),
        ("a.csv", "id,text\n1,the model said\n2,it ran out of memory\n"),
        ("trace.json", '{"traceEvents": []}\n'),
        ("a.tok", "the\nof\nand\n"),
    ],
)
def test_what_its_name_says_is_no_log(name: str, text: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text)
    found = gather([tmp_path])
    assert (found.files, [each.unreadable for each in found.skipped]) == ([], [False])


@pytest.mark.parametrize("form", ["zip", "tar", "gztar"])
@pytest.mark.parametrize(("inner", "unreadable"), [("rank_0.log", True), ("image_0001.jpg", False)])
def test_an_archive_of_logs_counts_as_not_looked_at(
    form: str, inner: str, unreadable: bool, tmp_path: Path
) -> None:
    (tmp_path / "in" / "run").mkdir(parents=True)
    (tmp_path / "in" / "run" / inner).write_text(LOGGED)
    (tmp_path / "out").mkdir()
    made = Path(shutil.make_archive(str(tmp_path / "a"), form, tmp_path / "in"))
    made.rename(tmp_path / "out" / ("a.tgz" if form == "gztar" else made.name))
    (skipped,) = gather([tmp_path / "out"]).skipped
    assert skipped.unreadable == unreadable


@pytest.mark.parametrize("name", ["out.bin", "x.pt", "x.png", "x.so", "x.ckpt"])
def test_text_under_the_name_of_a_binary_is_read(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(TEXT)
    assert [log.path.name for log in gather([tmp_path]).files] == [name]


@pytest.mark.parametrize(
    "data", [b"\x89PNG\r\n\x1a\n\0\0", b"\x80\x02}q\0X", b"PK\x03\x04\n\xff\xfe", b"", b"one word"]
)
def test_binaries_are_no_logs(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "x.pt").write_bytes(data)
    (tmp_path / "x.svg").write_text("<svg>\n</svg>\n")
    assert gather([tmp_path]).files == []


@pytest.mark.parametrize("name", [".git", "__pycache__", "node_modules"])
def test_a_folder_that_is_left_out_is_counted(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    (tmp_path / name / "rank_0.log").write_bytes(TEXT)
    (skipped,) = gather([tmp_path]).skipped
    assert (Path(skipped.name).name, skipped.unreadable) == (name, False)


@pytest.mark.parametrize("name", ["gpuwatch-20261127-034501.txt", "gpuwatch-20261127-034501-2.txt"])
def test_a_saved_screen_shows_logs_and_is_none(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("✖ rank 3: CUDA out of memory. Tried to allocate 2.00 GiB\n")
    (tmp_path / "rank0.log").write_text("step 1\n")
    gathered = gather([tmp_path])
    assert [Path(file.name).name for file in gathered.files] == ["rank0.log"]
    assert [(Path(left.name).name, left.why) for left in gathered.skipped] == [(name, SAVED_SCREEN)]


@pytest.mark.parametrize("at", [-2_208_988_800, -1, 10_000_000_000])
def test_a_file_of_any_year_ends_no_scan(tmp_path: Path, at: int) -> None:
    """Anybody can set the time of their own file."""
    for name in ("rank_0.log", "rank_1.log"):
        error = "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB"
        (tmp_path / name).write_text(f"step 1 loss 2.0\n{error}\n")
    os.utime(tmp_path / "rank_0.log", (at, at))
    done = CliRunner().invoke(scan, [str(tmp_path), "--json"], standalone_mode=False)
    assert done.return_value == 1
    assert len(json.loads(done.stdout)["files"]) == 2


@pytest.mark.parametrize("lines", [0, 3, 700, 20_000])
def test_the_last_time_with_a_year_dates_a_file_wherever_it_is(lines: int, tmp_path: Path) -> None:
    text = "2026-02-03 04:05:05 start\n2026-02-03 04:05:06 go\n" + "step 20 of 2000\n" * lines
    (tmp_path / "a.log").write_text(text)
    assert gather([tmp_path]).files[0].dated == time_of("2026-02-03 04:05:06", 0.0)
