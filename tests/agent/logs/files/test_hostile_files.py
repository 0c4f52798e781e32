"""Files as a cluster has them: strange names, no regular files, too many, huge, links, gone and made anew."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from gpuwatch.agent.base.regular_file import open_regular
from gpuwatch.agent.logs.discovery.finder import Finder
from gpuwatch.wire import Logs, Search, Tail
from tests.agent.logs.conftest import LogAgent, append, texts, wait_for
from tests.agent.running import newest

Start = Callable[..., LogAgent]


def test_a_name_may_hold_any_byte(folder: Path, agent_of: Start) -> None:
    names = [b"new\nline.log", b"esc\x1b[31m.log", b"two words.log", b"caf\xe9.log", "größe.log".encode()]
    for number, name in enumerate(names):
        (folder / os.fsdecode(name)).write_text(f"BOOM code={number}\n")
    agent = agent_of()
    for number in range(len(names)):
        found = agent.found(lambda one, number=number: one.fields == {"code": number})  # type: ignore[misc]
        agent.file(found.file)
        agent.send(Tail(id=10 + number, file=found.file))
        assert texts(agent.lines(10 + number, bool)) == [f"BOOM code={number}"]
        agent.send(Search(id=20 + number, pattern="BOOM", files=[found.file]))
        frames = agent.lines(20 + number)
        assert {frame.file for frame in frames if frame.lines} == {found.file}
    assert sorted(one.file.rpartition("/")[2] for one in agent.findings()) == sorted(
        ["new\\nline.log", "esc\\x1b[31m.log", "two words.log", "caf\\xe9.log", "größe.log"]
    )


def test_a_file_of_any_year_hides_no_other(folder: Path, agent_of: Start) -> None:
    """Anybody can set the time of their own file."""
    for name, at in (("old.log", -2_208_988_800), ("future.log", 10_000_000_000), ("own.log", 1_700_000_000)):
        (folder / name).write_text("BOOM code=1\n")
        os.utime(folder / name, (at, at))
    agent = agent_of()
    listed = agent.until(lambda fs: newest(fs, Logs, lambda f: len(f.files) > 2 and f.complete), "list").files
    assert {Path(one.path).name for one in listed} >= {"old.log", "future.log", "own.log"}


def test_what_is_no_file_of_lines_is_left_alone(folder: Path, agent_of: Start) -> None:
    os.mkfifo(folder / "a.log")
    (folder / "b.log").symlink_to("/dev/zero")
    (folder / "c.log").mkdir()
    (folder / "d.log").symlink_to(folder)
    (folder / "e.log").symlink_to("/proc/kmsg")
    (folder / "z.log").write_text("BOOM code=1\n")
    agent = agent_of(logs=[f"{folder}/*.log", f"{folder}/**/*.log"])
    agent.found()
    agent.file(folder / "z.log")
    listed = agent.until(lambda fs: newest(fs, Logs, lambda f: bool(f.files)), "list").files
    own = [
        one.path for one in listed if one.path.startswith(str(folder))
    ]  # other jobs run on this machine too
    assert own == [str(folder / "z.log")]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("kind", ["pipe", "device", "folder"])
def test_a_followed_log_that_becomes_no_file_is_unreadable_until_it_is_one_again(
    folder: Path, agent_of: Start, kind: str
) -> None:
    log = folder / "a.log"
    log.write_text("BOOM code=1\n")
    agent = agent_of()
    agent.found()
    agent.file(log, lambda one: one.state == "following")
    log.rename(folder / "a.old")
    with (folder / "a.old").open("a") as writer:
        writer.write("BOOM code=2\n")
    match kind:
        case "pipe":
            os.mkfifo(log)
        case "device":
            log.symlink_to("/dev/zero")
        case "folder":
            log.mkdir()
    agent.found(lambda one: one.fields == {"code": 2})
    assert agent.file(log, lambda one: one.state == "unreadable").reason
    log.rmdir() if kind == "folder" else log.unlink()
    log.write_text("BOOM code=3\n")
    agent.found(lambda one: one.fields == {"code": 3})
    agent.file(log, lambda one: one.state == "following")


def test_more_files_than_can_be_followed_are_counted(folder: Path, agent_of: Start) -> None:
    for number in range(2000):
        (folder / f"{number:04}.log").touch()
    agent = agent_of()
    # a job that happens to run on this machine adds its own
    full = agent.until(lambda fs: newest(fs, Logs, lambda f: f.truncated >= 1488), "list of 512 files")
    assert len(full.files) == 512
    append(folder / "0400.log", "BOOM code=1\n")
    agent.found()


def test_files_that_are_gone_make_room(folder: Path, agent_of: Start) -> None:
    for number in range(520):
        (folder / f"{number:04}.log").touch()
    agent = agent_of()
    agent.until(lambda fs: newest(fs, Logs, lambda f: f.truncated >= 8), "list")
    for number in range(100):
        (folder / f"{number:04}.log").unlink()
    (folder / "new.log").write_text("BOOM code=1\n")
    assert agent.found().file.endswith("new.log")


def test_a_huge_hole_is_skipped_and_what_stands_above_it_is_found(folder: Path, agent_of: Start) -> None:
    log = folder / "a.log"
    with log.open("wb") as file:
        file.write(b"BOOM code=1\n")
        file.seek(5 << 30)
        file.write(b"\nBOOM code=2\n")
    agent = agent_of()
    agent.found(lambda one: one.fields == {"code": 1})
    agent.found(lambda one: one.fields == {"code": 2})
    agent.file(log, lambda one: one.backlog_pct is None)
    assert len(agent.findings()) == 2
    status = Path(f"/proc/{agent.reader()}/status").read_text()
    assert int(status.split("VmHWM:")[1].split()[0]) < 120_000


def test_the_link_to_the_latest_run_is_followed_once(folder: Path, agent_of: Start) -> None:
    (folder / "run1.log").write_text("BOOM code=1\n")
    link = folder / "latest.log"
    link.symlink_to("run1.log")
    agent = agent_of()
    agent.found(lambda one: one.fields == {"code": 1})
    (folder / "run2.log").write_text("BOOM code=2\n")
    agent.found(lambda one: one.fields == {"code": 2})
    link.unlink()
    link.symlink_to("run2.log")
    append(folder / "run1.log", "BOOM code=3\n")
    append(folder / "run2.log", "BOOM code=4\n")
    agent.found(lambda one: one.fields == {"code": 4})
    agent.found(lambda one: one.fields == {"code": 3})
    append(folder / "run1.log", "BOOM code=5\n")
    agent.found(lambda one: one.fields == {"code": 5})
    assert sorted(one.fields["code"] for one in agent.findings()) == [1, 2, 3, 4, 5]


def test_the_folder_of_a_new_attempt(folder: Path, agent_of: Start) -> None:
    run = folder / "job" / "attempt_0" / "0"
    run.mkdir(parents=True)
    (run / "stderr.log").write_text("BOOM code=1\n")
    agent = agent_of(logs=[f"{folder}/**/*.log"])
    agent.found()
    shutil.rmtree(folder / "job")
    agent.file(run / "stderr.log", lambda one: one.state == "gone")
    for attempt in (0, 1):
        again = folder / "job" / f"attempt_{attempt}" / "0"
        again.mkdir(parents=True)
        (again / "stderr.log").write_text(f"BOOM code={2 + attempt}\n")
    agent.found(lambda one: one.fields == {"code": 2})
    agent.found(lambda one: one.fields == {"code": 3})
    assert sorted(one.fields["code"] for one in agent.findings()) == [1, 2, 3]


def test_damaged_text_is_read_all_the_same(folder: Path, agent_of: Start) -> None:
    log = folder / "a.log"
    log.write_bytes(b"")
    agent = agent_of()
    agent.file(log)
    agent.send(Tail(id=5, file=str(log)))
    agent.lines(5, bool)
    with log.open("ab") as file:
        file.write(b"\0" * 70_000 + b"\nBOOM code=1\r\n\xff\xfe BOOM code=2\x00\xc3\n")
        file.write(b"y" * (2 << 20) + b"\nBOOM code=3\nBOOM code=4")
    for code in (1, 2, 3, 4):
        agent.found(lambda one, code=code: one.fields == {"code": code})  # type: ignore[misc]
    assert texts(agent.lines(5, lambda fs: "BOOM code=4" in texts(fs)))[1] == "BOOM code=1"


def test_a_bar_that_runs_for_an_hour_is_one_line(folder: Path, agent_of: Start) -> None:
    log = folder / "a.log"
    log.write_text(
        "before\n" + "".join(f"\r{n // 300}%|##   | {n}/30000 [1:00<0:01, 9it/s]" for n in range(30_000))
    )
    agent = agent_of()
    agent.file(log, lambda one: one.backlog_pct is None)
    agent.send(Tail(id=5, file=str(log), lines=5))
    frames = agent.lines(5, lambda fs: any("| 29999/" in text for text in texts(fs)))
    assert len({line.offset for frame in frames for line in frame.lines if "30000" in line.text}) == 1
    append(log, "\rBOOM code=1\n")
    agent.found()


def test_what_the_user_may_not_read_any_more_says_so(folder: Path, agent_of: Start) -> None:
    inner = folder / "inner"
    inner.mkdir()
    (inner / "a.log").write_text("BOOM code=1\n")
    agent = agent_of(logs=[f"{inner}/*.log"])
    agent.found()
    (inner / "a.log").unlink()
    (inner / "a.log").symlink_to("a.log")  # a reason other than absence, also for root
    loop = agent.file(inner / "a.log", lambda one: one.reason is not None)
    assert loop.state == "unreadable"
    (inner / "a.log").unlink()
    (inner / "a.log").write_text("BOOM code=2\n")
    agent.found(lambda one: one.fields == {"code": 2})
    wait_for(lambda: len(agent.findings()) == 2, "each once")


class _Added:
    """Stands in for catalog and marker: stores what a finder finds."""

    def __init__(self) -> None:
        self.paths: list[str] = []
        self.entries: dict[str, object] = {}

    def add(self, path: str, _source: str, **_: object) -> None:
        self.paths.append(path)

    def file(self, path: str) -> None:
        """Mark nothing, as no watchdog looks."""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root reads files of others, and gives its own away")
@pytest.mark.parametrize("name", ["train", "x\n   UserId=root(0) JobId=41"])
def test_slurms_output_files_are_those_that_the_jobs_user_may_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """The user chooses the path that Slurm states, and the name, which may have lines."""
    for each in (tmp_path, *tmp_path.parents):
        if str(each).startswith("/tmp/"):
            each.chmod(0o755)
    for file, owner, mode in (("own", 4711, 0o600), ("private", 0, 0o600), ("public", 0, 0o644)):
        (tmp_path / file).write_text("x")
        os.chown(tmp_path / file, owner, owner)
        (tmp_path / file).chmod(mode)
    paths = "\n".join(f"   StdOut={tmp_path}/{file}" for file in ("own", "private", "public", "later"))
    (tmp_path / "stated").write_text(
        f"JobId=41 JobName={name}\n   UserId=alice(4711) GroupId=a(4711)\n{paths}\n"
    )
    (tmp_path / "scontrol").write_text(f"#!/bin/sh\ncat {tmp_path}/stated\n")
    (tmp_path / "scontrol").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    added = _Added()
    finder = Finder({}, added, added)  # type: ignore[arg-type]
    finder.jobs(["41"])
    deadline = time.monotonic() + 60.0
    while not finder.settled:
        assert time.monotonic() < deadline
        finder.step()
    names = [Path(each).name for each in added.paths]
    assert names == (["later", "own", "public"] if name == "train" else ["later", "public"])
    (tmp_path / "later").write_text("secret")
    (tmp_path / "later").chmod(0o600)
    with pytest.raises(PermissionError):
        open_regular(str(tmp_path / "later"))
    (tmp_path / "later").chmod(0o644)
    os.close(open_regular(str(tmp_path / "later")))
