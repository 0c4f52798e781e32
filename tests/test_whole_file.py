"""Files that are written whole: nothing but a file is ever replaced."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from gpuwatch.whole_file import write_whole
from tests.cli.running import gpuwatch

FOLDER = Path(__file__).parent / "corpus" / "failures" / "cuda-oom-rank5"


def test_a_pipe_or_folder_is_not_replaced(tmp_path: Path) -> None:
    """Root could replace /dev/null so."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "pipe")
    for name in ("pipe", "folder", "link"):
        with pytest.raises(OSError, match=name):
            write_whole(tmp_path / name, b"x")
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)
    assert {path.name for path in tmp_path.iterdir()} == {"folder", "link", "pipe"}


def test_a_link_to_a_file_is_replaced_itself(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"theirs")
    (tmp_path / "link").symlink_to("file")
    write_whole(tmp_path / "link", b"x")
    assert not (tmp_path / "link").is_symlink()
    assert (tmp_path / "file").read_bytes() == b"theirs"


@pytest.mark.parametrize("source", [(str(FOLDER),), ("--demo", "--wait", "0", "--job", "418207")])
def test_a_bundle_replaces_no_pipe(tmp_path: Path, source: tuple[str, ...]) -> None:
    os.mkfifo(tmp_path / "pipe")
    done = gpuwatch("evidence", *source, "-o", str(tmp_path / "pipe"))
    assert done.returncode == 74, done.stderr
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)
    assert [path.name for path in tmp_path.iterdir()] == ["pipe"]
