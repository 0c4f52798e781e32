"""`gpuwatch record` in a process of its own: killed, asked how it does, and opened afterwards."""

from __future__ import annotations

import json
import os
import re
import signal
import sqlite3
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gpuwatch.cli.analysis.open import open_past
from gpuwatch.cli.monitor.recording_copies import state_of
from gpuwatch.cli.shared.source import Refusal, is_file_of_recording
from gpuwatch.link.recording.lease import Holder
from gpuwatch.wire import NOT_RECORDED
from tests.cli.running import COMMAND, ROOT, environment, gpuwatch
from tests.link.recording.recordings import recorded_demo
from tests.waiting import wait_until


@contextmanager
def recording(path: Path, *more: str) -> Iterator[subprocess.Popen[str]]:
    command = [*COMMAND, "record", "--demo", "-o", str(path), *more]
    process = subprocess.Popen(command, cwd=ROOT, env=environment(), stderr=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def last_moment(path: Path) -> float:
    """Of a file that is being written; 0.0: there is none yet."""
    if not path.exists():
        return 0.0
    try:
        with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as file:
            return float(file.execute("SELECT max(last) FROM block").fetchone()[0] or 0) / 1e6
    except sqlite3.Error:
        return 0.0


def longest_block_s(path: Path) -> float:
    with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as file:
        return float(file.execute("SELECT max(last - first) FROM block").fetchone()[0]) / 1e6


@pytest.mark.long
def test_a_kill_loses_no_more_than_the_last_second(tmp_path: Path) -> None:
    path, beat = tmp_path / "a.gpw", tmp_path / "beat"
    with recording(path, "--heartbeat", str(beat)) as process:
        wait_until(lambda: last_moment(path) > 0)
        first = last_moment(path)
        wait_until(lambda: last_moment(path) > first + 2)
        written = float(beat.read_text())
        wait_until(lambda: written < float(beat.read_text()) <= time.time())
        assert gpuwatch("record", "--status", str(path)).returncode == 0
        second = gpuwatch("record", "--demo", "-o", str(path))
        assert (second.returncode, str(process.pid) in second.stderr) == (2, True)
        committed, killed_at = last_moment(path), time.time()
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    assert last_moment(path) >= committed
    assert longest_block_s(path) < 1.5  # what is not committed yet
    status = gpuwatch("record", "--status", str(path))
    assert (status.returncode, path.name in status.stdout) == (1, True)
    assert {str(process.pid), "gone,"} <= set(status.stdout.split())
    facts = json.loads(gpuwatch("once", str(path), "--json").stdout)
    assert len(facts["nodes"]) == 16
    with recording(path) as process:  # it goes on
        wait_until(lambda: last_moment(path) > killed_at + 1)
        process.terminate()
        assert process.wait(60) == 0


def test_a_recorder_serves_metrics_and_ends_by_term(tmp_path: Path) -> None:
    options = ("--listen", "127.0.0.1:0", "--alertmanager", "http://127.0.0.1:9")
    with recording(tmp_path / "a.gpw", *options) as process:
        assert process.stderr is not None
        found = re.search(r"http://\S+/metrics", process.stderr.readline())
        assert found
        with urllib.request.urlopen(found[0], timeout=60) as answer:  # noqa: S310 - loopback
            page = answer.read()
        process.terminate()
        assert process.wait(60) == 0
    assert page.count(b"\ngpuwatch_node_up{") == 16
    assert b'gpuwatch_alert_receiver_up{receiver="alertmanager 127.0.0.1:9"}' in page


@pytest.mark.long
def test_once_and_dmon_and_stacks_take_a_recording() -> None:
    path = str(recorded_demo().path)
    facts = json.loads(gpuwatch("once", path, "--json", "--at", "1s ago").stdout)
    assert [incident["class"] for incident in facts["incidents"]] == ["gpu.xid.fell_off"]
    before = gpuwatch("once", path, "--json", "--at", "+20s")
    assert (before.returncode, json.loads(before.stdout)["incidents"]) == (0, [])
    lines = gpuwatch("dmon", path, "-c", "3").stdout.splitlines()
    assert sum(line.split()[0] == "gpu-001" for line in lines) == 3 * 8
    stacks = gpuwatch("stacks", path)
    assert (stacks.returncode, NOT_RECORDED in stacks.stderr) == (2, True)
    check = gpuwatch("check", path, "--json", "--at", "+20s")
    checks = {one["id"]: one for one in json.loads(check.stdout)["checks"]}
    assert (check.returncode, checks["net.reachable"]["status"]) == (0, "SKIP")
    assert gpuwatch("check", path, "--deep").returncode == 2


def test_a_file_named_as_a_recording_that_is_none_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "junk.gpw"
    path.write_text("junk\n")
    with pytest.raises(Refusal, match="junk"):
        is_file_of_recording(str(path))
    with pytest.raises(Refusal, match="junk"):
        open_past.callback((path,), None)  # type: ignore[misc]


def test_a_status_that_cannot_be_printed_or_found(tmp_path: Path) -> None:
    with Path("/dev/full").open("w") as full:
        command = [*COMMAND, "record", "--status", str(recorded_demo().path)]
        assert subprocess.run(command, cwd=ROOT, env=environment(), stdout=full, check=False).returncode == 74
    missing = gpuwatch("record", "--status", str(tmp_path / "nope.gpw"))
    assert (missing.returncode, "hosts" in missing.stderr, "SOURCE" in missing.stderr) == (2, False, False)


def test_a_recorder_on_a_full_disk_is_not_recording() -> None:
    writer = Holder("x", "elsewhere", 4711, 1.0, 1_000.0)
    free, full = (state_of(writer, 1_002.0, full=is_full) for is_full in (False, True))
    assert (free[1], full[1], "full" in free[0], "full" in full[0]) == (True, False, False, True)
    assert (free[0].startswith("recording"), full[0].startswith("NOT recording")) == (True, True)
    late, is_recording = state_of(writer, 1_009.0, full=False)
    assert (late.split(";")[0], is_recording) == ("NOT recording", False)


def test_wrong_moments_and_files_are_refused(tmp_path: Path) -> None:
    path = str(recorded_demo().path)
    for arguments in (
        ("once", path, "--at", "noon"),
        ("once", path, "--at", "+1h"),
        ("once", "--demo", "--at", "+1s"),
        ("once", path, "-d", "2"),
        ("record", path, "-o", str(tmp_path / "b.gpw")),
        ("record", "--demo"),
        ("record", "--demo", "-o", str(tmp_path / "nowhere" / "b.gpw")),
        ("record", "--demo", "-o", __file__),
        ("open", path, path),
        ("record", "--demo", "-o", str(tmp_path / "b.gpw"), "--keep", "soon"),
    ):
        assert gpuwatch(*arguments).returncode == 2, arguments
    assert not list(tmp_path.iterdir())
