"""Files that begin with the mark of UTF-16, whatever follows it."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from click.testing import CliRunner

from gpuwatch.cli.analysis.scan import scan
from gpuwatch.runs.files.encodings import as_utf8
from gpuwatch.runs.files.packing import packing_of

OOM = "[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"
STEPS = "step 1\n" * 40
MARKS = {"utf-16-le": b"\xff\xfe", "utf-16-be": b"\xfe\xff"}


def codes(folder: Path) -> tuple[int, bool]:
    """Exit code of a scan, and whether it found the memory error."""
    done = CliRunner().invoke(scan, ["--json", str(folder)], standalone_mode=False)
    return done.return_value, '"oom.cuda"' in done.output


def read(data: bytes, size: int) -> str:
    """The file as UTF-8, in pieces of `size` bytes."""
    first, rest = data[:5000], data[5000:]
    pieces = [first, *(rest[at : at + size] for at in range(0, len(rest), size))]
    return b"".join(as_utf8(iter(pieces))).decode()


@pytest.mark.parametrize("encoding", MARKS)
def test_a_mark_before_plain_text_hides_nothing(encoding: str, tmp_path: Path) -> None:
    (tmp_path / "rank3.log").write_bytes(MARKS[encoding] + (STEPS + OOM).encode())
    assert packing_of((tmp_path / "rank3.log").read_bytes()) is None
    assert codes(tmp_path) == (1, True)


def test_a_mark_before_bytes_of_no_encoding_hides_nothing(tmp_path: Path) -> None:
    (tmp_path / "rank3.log").write_bytes(b"\xff\xfe\xc0\x80\xed\xa0\x80 \xf5\0\n" + OOM.encode())
    assert codes(tmp_path) == (1, True)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("encoding", MARKS)
@pytest.mark.parametrize("wide", ["", "模型上一页 Ċ ઊ 损失\n" * 300])
@pytest.mark.parametrize("seed", range(4))
def test_plain_stretches_among_utf16_are_read_as_they_are(encoding: str, wide: str, seed: int) -> None:
    chance = random.Random(seed)
    text, data = "", MARKS[encoding]
    for n in range(12):
        line = f"line {n} {'x' * chance.randrange(40)} ███ {wide}\n{STEPS}"
        plain = n % 2 == 1
        text += line
        data += line.encode() if plain else line.encode(encoding)
    assert read(data, chance.choice((1, 7, 999, 4096))) == text


def test_utf16_keeps_its_characters_over_pieces() -> None:
    text = "".join(f"模型 {n} 😀 上 loss=1.{n}\n" for n in range(3000))
    assert read(text.encode("utf-16"), 1001) == text


def test_text_that_begins_like_a_packed_file_is_plain() -> None:
    assert packing_of(b"BZh was here\nstep 1\n") is None
