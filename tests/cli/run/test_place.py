"""The session folder of node 0 in a folder of logs that other users write as well."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from gpuwatch.cli.run.place import digest, find_folder

RUN_ID = digest("rendezvous", "job7", "", "")
STRANGER = 65534


def session(logs: Path, name: str) -> Path:
    """The summary of a session of this run that began just now."""
    folder = logs / f"training_{name}"
    folder.mkdir()
    path = folder / f"{folder.name}_summary.json"
    path.write_text(json.dumps({"run_id": RUN_ID, "start": time.time()}))
    return path


@pytest.mark.timeout(60)
def test_pipes_links_and_endless_summaries_hold_no_run_up(tmp_path: Path) -> None:
    sound = session(tmp_path, "1").parent
    pipe, huge, link = (session(tmp_path, name) for name in ("2", "3", "4"))
    pipe.unlink()
    os.mkfifo(pipe)
    with huge.open("wb") as file:
        file.truncate(5 << 30)
    text = link.read_text()
    link.unlink()
    (tmp_path / "elsewhere").write_text(text)
    link.symlink_to(tmp_path / "elsewhere")
    assert find_folder(RUN_ID, tmp_path, time.time()) == sound


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to make files of another user")
def test_no_folder_of_another_user_is_taken_and_none_hides_the_own_one(tmp_path: Path) -> None:
    sound = session(tmp_path, "1").parent
    for number in range(110):
        os.chown(session(tmp_path, f"9_{number:03d}").parent, STRANGER, STRANGER)
    (tmp_path / "training_9_999").symlink_to(sound)
    assert find_folder(RUN_ID, tmp_path, time.time()) == sound
