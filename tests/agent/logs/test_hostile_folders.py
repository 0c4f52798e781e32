"""The search for ended jobs in a folder full of links, FIFOs, holes and names of control bytes."""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path

import pytest

from gpuwatch.agent.base.user_rights import UserRights
from gpuwatch.agent.logs.discovery import walk
from gpuwatch.agent.logs.discovery.start_folders import MAX_TORCHRUN, StartFolders
from gpuwatch.agent.logs.discovery.tail import TAIL_BYTES, LogTail

OWN = os.geteuid()
LINES = "step 1/100 loss 2.0\nRuntimeError: x\n"


def searched(folder: Path) -> tuple[list[str], bool]:
    """Names of the logs that are found below a folder, and whether a bound ended the search."""
    search = walk_below([folder])
    return sorted(Path(one.path).name for one in search.found), search.cut


def walk_below(folders: list[Path], uid: int = OWN) -> walk.Walk:
    rights = UserRights(uid)
    starts = [(str(folder), rights) for folder in folders]
    search = walk.Walk(starts, time.time(), lambda _: None, lambda _: False)
    for _ in search.steps():
        pass
    return search


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
    search = walk_below([wide, deep, home])
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
    starts = StartFolders(lambda _: None, lambda _: False)
    starts.take("/proc", [str(tmp_path)])
    found = [folder for folder, _ in starts.found]
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


@pytest.mark.skipif(OWN != 0, reason="root gives files to other users")
def test_no_user_leads_the_walk_to_files_that_he_may_not_read() -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as made:  # pytest's own folders are private
        place, alice, mallory = Path(made), 4343, 4242
        place.chmod(0o755)
        for name, mode, uid in (
            ("alice/run1/rank_0.log", 0o600, alice),
            ("open/rank_1.log", 0o600, alice),
            ("open/rank_2.log", 0o644, alice),
            ("mine/rank_3.log", 0o600, mallory),
        ):
            path = place / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(LINES)
            os.chown(path, uid, uid)
            path.chmod(mode)
        os.chown(place / "alice", alice, alice)
        (place / "alice").chmod(0o700)

        def seen(uid: int) -> set[str]:
            return {Path(one.path).name[5:6] for one in walk_below([place, place / "open"], uid).found}

        assert seen(mallory) == {"2", "3"}
        assert seen(alice) == {"0", "1", "2"}
        assert seen(-1) == {"2"}
        assert seen(0) == {"0", "1", "2", "3"}
        rights = [(str(place), UserRights(mallory)), (str(place), UserRights(alice))]
        both = walk.Walk(rights, time.time(), lambda _: None, lambda _: False)
        for _ in both.steps():
            pass
        assert sorted(Path(one.path).name[5:6] for one in both.found) == ["0", "1", "2", "3"]
