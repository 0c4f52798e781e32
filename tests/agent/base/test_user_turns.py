"""One user's files and processes push none of another user out of what a node's agent looks at."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest

from gpuwatch.agent.base.user_rights import NOBODY, UserRights, in_turns, uid_of
from gpuwatch.agent.logs.discovery import holders, siblings
from gpuwatch.agent.logs.discovery.reopened import reopened_logs
from gpuwatch.agent.logs.files import catalog
from gpuwatch.agent.logs.files.catalog import Catalog
from gpuwatch.agent.logs.files.mounts import Mounts
from gpuwatch.agent.processes import ended_ranks

AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="root gives files to other users")


def test_the_user_of_a_setuid_program_is_the_one_who_runs_it(tmp_path: Path) -> None:
    """Its folder in /proc belongs to root, as does that of a process that forbids dumps of itself."""
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "status").write_text("Name:\tbash\nUid:\t4242\t0\t0\t0\nGid:\t1\t1\t1\t1\n")
    assert (uid_of(7, str(tmp_path)), uid_of(8, str(tmp_path))) == (4242, NOBODY)
    assert uid_of(os.getpid(), "/proc") == os.getuid()


def test_users_take_turns() -> None:
    assert in_turns([("/a", 1), ("/b", 1), ("/c", 2)]) == [("/a", 1), ("/c", 2), ("/b", 1)]


def test_a_large_folder_ends_no_search_for_logs_of_gone_ranks_beside_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(siblings, "MAX_IN_FOLDER", 5)
    for folder, count in (("aaa", 9), ("zjob", 3)):
        (tmp_path / folder).mkdir()
        for number in range(count):
            (tmp_path / folder / f"rank_{number}.log").write_text("step 1\n")
    written = [(str(tmp_path / folder / "rank_0.log"), time.time() - 60, 0) for folder in ("aaa", "zjob")]
    for search in (siblings.sibling_logs, reopened_logs):
        left_out: list[str] = []
        logs = list(search(written, lambda _path: None, lambda _path: False, left_out))
        paths = {str(getattr(each, "path", each)) for each in logs}
        assert all(any(f"zjob/rank_{n}.log" in path for path in paths) for n in (1, 2))
        assert left_out == [str(tmp_path / "aaa")]


@AS_ROOT
def test_the_open_logs_of_one_user_hide_none_of_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(holders, "MAX_HELD", 4)
    for pid, uid, count in ((7, 4242, 9), (8, 4343, 1)):
        process = tmp_path / str(pid)
        (process / "fd").mkdir(parents=True)
        (process / "fdinfo").mkdir()
        for number in range(count):
            (process / "fd" / str(number)).symlink_to(f"/out/{pid}-{number}.log")
            (process / "fdinfo" / str(number)).write_text("pos:\t0\nflags:\t0100001\n")
        os.chown(process, uid, uid)
    found, has_more = holders.held_files(str(tmp_path), frozenset())
    assert ("/out/8-0.log" in found, len(found), has_more) == (True, 4, True)


def test_the_log_of_a_running_job_takes_the_place_of_an_ended_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalog, "MAX_FILES", 4)
    files = Catalog(Mounts(), lambda _: None, lambda: 0.0, lambda _: None)  # type: ignore[arg-type, return-value]
    for number in range(6):
        (tmp_path / f"{number}.log").write_text("x\n")
    paths = [str(tmp_path / f"{number}.log") for number in range(6)]
    for number, owner in enumerate(("alice", "mallory", "mallory", "mallory")):
        files.add(paths[number], "found")
        files.entries[paths[number]].owner, files.entries[paths[number]].grown_at = owner, float(number)
    files.add(paths[4], "found")
    assert (paths[4] in files.entries, files.left_out) == (False, {paths[4]})
    files.add(paths[5], "process")
    assert list(files.entries) == [paths[0], paths[2], paths[3], paths[5]]
    assert paths[1] in files.left_out


@AS_ROOT
def test_the_files_of_the_running_processes_of_one_user_keep_out_none_of_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalog, "MAX_FILES", 5)
    files = Catalog(Mounts(), lambda _: None, lambda: 0.0, lambda _: None)  # type: ignore[arg-type, return-value]
    paths = {}
    for uid, count in ((4242, 6), (4343, 4)):
        for number in range(count):
            log = tmp_path / f"{uid}-{number}.log"
            log.write_text("x\n")
            os.chown(log, uid, uid)
            paths[uid, number] = str(log)
    for _ in range(2):
        for path in paths.values():
            files.add(path, "process")
        users = [name.rpartition("/")[2][:4] for name in files.entries]
        assert (users.count("4242"), users.count("4343")) == (3, 2)
        assert files.left_out == set(paths.values()) - set(files.entries)


@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="needs Linux and Python 3.9")
def test_the_processes_of_one_user_take_no_exit_status_from_another(monkeypatch: pytest.MonkeyPatch) -> None:
    processes = [subprocess.Popen(["/bin/sh", "-c", "read line"], stdin=subprocess.PIPE) for _ in range(4)]
    users = {each.pid: 4242 for each in processes[:3]}
    monkeypatch.setattr(ended_ranks, "uid_of", lambda pid, _proc: users.get(pid, 4343))
    monkeypatch.setattr(ended_ranks, "MAX_OF_USER", 2)
    ended: list[dict[str, object]] = []
    rows: list[dict[str, object]] = [
        {"pid": each.pid, "start": 1.0, "state": "S", "rank": rank} for rank, each in enumerate(processes)
    ]
    ended_ranks.EndedRanks(ended.append).watch(rows, {})
    for each in processes:
        each.kill()
    until = time.monotonic() + 240.0
    while len(ended) < 3 and time.monotonic() < until:
        time.sleep(0.01)
    for each in processes:
        each.wait()
    assert processes[3].pid in {each["pid"] for each in ended}


@AS_ROOT
def test_the_rights_of_a_user_are_those_of_modes_and_groups(tmp_path: Path) -> None:
    file = tmp_path / "a"
    file.touch()
    os.chown(file, 4343, 4343)
    seen = {}
    for mode in (0o600, 0o644, 0o040, 0o004):
        file.chmod(mode)
        seen[mode] = [uid for uid in (0, 4343, 4242, -1) if UserRights(uid).may_read(file.stat())]
    assert seen == {0o600: [0, 4343], 0o644: [0, 4343, 4242, -1], 0o040: [0], 0o004: [0, 4242, -1]}
    assert not UserRights(4242).may_have_written(file.stat())
    assert UserRights(4343).may_have_written(file.stat())
