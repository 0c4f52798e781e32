"""Files of a person's own settings that somebody else may have written, or that are none, are not taken."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import pytest

from gpuwatch.diagnose.model.alert import Silence
from gpuwatch.own_folders import config_folder, make_own, state_file, state_folder
from gpuwatch.probe.judging.checks.baseline import BaselineError, load
from gpuwatch.rules.load import own_packs
from gpuwatch.rules.model.errors import RulesError
from gpuwatch.session.settings.followed_folders import WRITE_EVERY_S, FollowedFolders
from gpuwatch.session.settings.silence_file import SilenceFile
from gpuwatch.whole_file import read_own
from gpuwatch.wire import LogFile
from tests.cli.running import gpuwatch
from tests.fleet.jobs.two_jobs import Several


def test_a_file_is_read_only_where_nobody_else_may_write_it(tmp_path: Path) -> None:
    file = tmp_path / "silences.json"
    file.write_text("[]")
    file.chmod(0o644)
    assert SilenceFile(file).read() == []
    (tmp_path / "link").symlink_to(file)
    assert read_own(tmp_path / "link", 100) == b"[]"
    for mode in (0o664, 0o646):
        file.chmod(mode)
        silences = SilenceFile(file)
        assert silences.read() == []
        assert "chmod go-w" in (silences.trouble or "")


@pytest.mark.skipif(os.geteuid() != 0, reason="gives a file to another user")
def test_a_file_of_another_user_is_not_taken(tmp_path: Path) -> None:
    file = tmp_path / "silences.json"
    file.write_text('[{"code": "disk_full"}]')
    os.chown(file, 12345, 12345)
    silences = SilenceFile(file)
    assert silences.read() == []
    assert "another user" in (silences.trouble or "")
    folders = tmp_path / "followed.json"
    folders.write_text('{"a": ["/x"]}')
    assert FollowedFolders(folders).read() == {"a": ["/x"]}
    os.chown(folders, 12345, 12345)
    assert FollowedFolders(folders).read() == {}


def test_the_log_of_a_program_without_a_rank_is_followed_while_the_program_writes_it(tmp_path: Path) -> None:
    file = tmp_path / "followed.json"
    reported = Several(1)
    ended = LogFile("/runs/old/train.log", source="found", last_at=9.0)
    reported.list_files("n1", ended, LogFile("/runs/7/train.log", source="found", pids=[40]))
    screen = FollowedFolders(file)
    screen.note(reported.fleet)
    screen.write()
    assert FollowedFolders(file).read() == {"n1": ["/runs/7"]}


def test_folders_are_kept_while_the_session_lasts_beside_those_of_another_one(tmp_path: Path) -> None:
    """A screen that stays open, and a report that is asked for meanwhile."""
    file = tmp_path / "followed.json"
    reported = Several(2)
    screen, report = FollowedFolders(file), FollowedFolders(file)
    reported.list_files("n1", LogFile("/runs/7/rank0.log"))
    screen.note(reported.fleet)
    screen.write_sometimes(100.0)
    assert FollowedFolders(file).read() == {"n1": ["/runs/7"]}
    report.read()
    reported.list_files("n2", LogFile("/runs/8/rank0.log"))
    report.note(reported.fleet)
    report.write()
    reported.list_files("n1", LogFile("/runs/9/rank0.log"))
    screen.note(reported.fleet)
    screen.write_sometimes(100.0 + WRITE_EVERY_S - 1)
    assert FollowedFolders(file).read() == {"n1": ["/runs/7"], "n2": ["/runs/8"]}
    screen.write_sometimes(100.0 + WRITE_EVERY_S)
    assert FollowedFolders(file).read() == {"n1": ["/runs/7", "/runs/9"], "n2": ["/runs/8"]}


def test_a_pipe_a_device_and_a_huge_file_hold_nobody(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "device").symlink_to("/dev/zero")
    with (tmp_path / "huge").open("wb") as file:
        file.truncate(1 << 40)
    for name in ("pipe", "device", "huge"):
        silences = SilenceFile(tmp_path / name)
        assert silences.read() == []
        assert silences.trouble
        assert FollowedFolders(tmp_path / name).read() == {}


def test_a_pack_of_rules_that_others_may_write_is_refused_with_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    folder = tmp_path / "gpuwatch" / "rules"
    folder.mkdir(parents=True)
    (folder / "mine.yaml").write_text("[]")
    (folder / "mine.yaml").chmod(0o644)
    assert own_packs() == [folder / "mine.yaml"]
    os.mkfifo(folder / "pipe.yaml")
    (folder / "mine.yaml").chmod(0o666)
    with pytest.raises(RulesError) as caught:
        own_packs()
    assert [each.split(":")[0][-9:] for each in caught.value.problems] == ["mine.yaml", "pipe.yaml"]
    done = gpuwatch("once", "--local")
    assert (done.returncode, done.stdout) == (2, "")
    assert str(folder / "mine.yaml") in done.stderr


@pytest.mark.parametrize(
    "text",
    [
        '[{"x": ' + "[" * 200_000,
        '[{"code": "disk_full", "until": 1e308}]',
        '[{"code": "disk_full", "rank": -1e30}]',
        '{"n": ' + "[" * 200_000,
    ],
)
def test_a_damaged_file_ends_no_session_and_is_left_as_it_is(tmp_path: Path, text: str) -> None:
    file = tmp_path / "kept.json"
    file.write_text(text)
    silences = SilenceFile(file)
    assert silences.read() == []
    assert str(file) in (silences.trouble or "")
    assert silences.write([Silence("disk_full")], 0.0) == [Silence("disk_full")]
    assert file.read_text() == text
    assert FollowedFolders(file).read() == {}
    with pytest.raises(BaselineError):
        load(file)


def test_a_lock_that_somebody_holds_delays_a_silence_and_loses_none(tmp_path: Path) -> None:
    silences = SilenceFile(tmp_path / "silences.json")
    assert silences.write([Silence("disk_full")], 0.0)
    both = [Silence("disk_full"), Silence("xid")]
    with (tmp_path / "silences.lock").open("r+") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert silences.write(both, 0.0) == both  # before the lock is free
        assert silences.trouble
    assert silences.write(both, 0.0) == both
    assert silences.trouble is None
    assert SilenceFile(silences.path).read() == both


def test_what_an_earlier_version_kept_beside_the_settings_is_moved_once() -> None:
    old = config_folder() / "followed.json"
    make_own(old.parent)
    for content in ("old", "older"):
        old.write_text(content)
        assert state_file("followed.json") == state_folder() / "followed.json"
        assert state_file("followed.json").read_text() == "old"
    assert old.read_text() == "older"  # of an earlier version that still runs
