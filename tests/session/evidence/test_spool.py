"""The private folder beside a bundle that is being written."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from gpuwatch.session.evidence.spool import Spool


def test_a_link_in_place_of_the_folder_is_refused_and_nothing_behind_it_changes(tmp_path: Path) -> None:
    """Another user may put it into a folder that everybody may write."""
    theirs = tmp_path / "theirs"
    theirs.mkdir(mode=0o755)
    (theirs / "source").write_text("precious")
    (tmp_path / "a.zip.part").symlink_to(theirs)
    with pytest.raises(NotADirectoryError):
        Spool(tmp_path / "a.zip.part", "local")
    assert stat.S_IMODE(theirs.stat().st_mode) == 0o755
    assert (theirs / "source").read_text() == "precious"
