"""The search for ended jobs in a folder full of links, FIFOs, holes and names of control bytes."""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path

import pytest

from gpuwatch.agent.logs.discovery import walk
from gpuwatch.agent.logs.discovery.start_folders import MAX_TORCHRUN, start_folders
from gpuwatch.agent.logs.discovery.tail import TAIL_BYTES, LogTail

LINES = "step 1/100 loss 2.0\nRuntimeError: x\n"


def searched(folder: Path) -> tuple[list[str], bool]:
    """Names of the logs that are found below a folder, and whether a bound ended the search."""
    search = walk.Walk([str(folder)], time.time(), lambda _: None, lambda _: False)
    for _ in search.steps():
        pass
    return sorted(Path(one.path).name for one in search.found), search.cut


def test_links_devices_and_fifos_are_no_logs(tmp_path: Path) -> None:
    job = tmp_path / "job"
    job.mkdir()
    (job / "rank_0.log").write_text(LINES)
    for name, target in (
        ("shadow.log", "/etc/shadow"),
        ("zero.log", "/dev/zero"),
        ("loop", "."),
        ("up", ".."),
    ):
        (job / name).symlink_to(target)
    os.mkfifo(job / "fifo.log")
    deep = job
    for _ in range(40):
        deep /= "d"
        deep.mkdir()
    (deep / "deep.log").write_text(LINES)
    assert searched(tmp_path) == (["rank_0.log"], False)


def test_entries_beyond_the_bound_are_reported_as_left_out(tmp_path: Path) -> None:
    job = tmp_path / "job"
    job.mkdir()
    for number in range(walk.MAX_ENTRIES + 1):
        os.close(os.open(job / f"{number}.x", os.O_CREAT))
    assert searched(tmp_path) == ([], True)


def test_a_large_start_folder_leaves_room_for_the_others(tmp_path: Path) -> None:
    wide, deep, home = tmp_path / "wide", tmp_path / "deep", tmp_path / "home"
    for folder in (wide, *(deep / f"{number}" for number in range(110)), home / "run7" / "logs"):
        folder.mkdir(parents=True)
    for number in range(walk.MAX_ENTRIES + 1):
        os.close(os.open(wide / f"{number}.x", os.O_CREAT))
        os.close(os.open(deep / f"{number % 110}" / f"{number}.x", os.O_CREAT))
    (home / "run7" / "logs" / "rank_0.log").write_text(LINES)
    search = walk.Walk([str(wide), str(deep), str(home)], time.time(), lambda _: None, lambda _: False)
    for _ in search.steps():
        pass
    assert [Path(one.path).name for one in search.found] == ["rank_0.log"]
    assert search.cut
    assert search.entries < walk.MAX_ENTRIES + walk.TURN


def test_many_folders_of_torchrun_leave_room_for_the_home_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, temporary = tmp_path / "home", tmp_path / "tmp"
    home.mkdir()
    for number in range(200):
        (temporary / f"torchelastic_{number}").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    found = list(start_folders("/proc", [str(tmp_path)], {}, lambda _: None, lambda _: False))
    assert {str(home), str(tmp_path)} < set(found)
    assert sum("torchelastic_" in folder for folder in found) == MAX_TORCHRUN


def test_the_tail_of_a_file_of_holes_and_names_of_control_bytes_are_read_to_a_bound(tmp_path: Path) -> None:
    huge = tmp_path / "huge.log"
    huge.write_text(LINES)
    os.truncate(huge, 1 << 40)
    tail = LogTail(str(huge))
    assert (len(tail.data), "".join(tail.lines)) == (TAIL_BYTES, "")
    names = ["a\x1b]52;c;QQ==\x07.log", "b\n.log", "$(id).log", "-oProxyCommand=id.log"]
    for name in names:
        (tmp_path / name).write_text(LINES)
    assert set(names) < set(searched(tmp_path)[0])
