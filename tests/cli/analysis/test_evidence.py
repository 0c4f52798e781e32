"""`gpuwatch evidence` as a command: what it refuses, and that Ctrl-C leaves no half bundle."""

from __future__ import annotations

import os
import signal
import subprocess
import time
import zipfile
from pathlib import Path

import pytest

from tests.cli.running import COMMAND, ROOT, environment, gpuwatch
from tests.isolation import own_processes
from tests.session.evidence.live import OOM

LINE = "2026-11-26 12:00:00,000 [rank1] step {} loss 2.0 " + "x" * 180 + "\n"


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        (("--demo",), 2),
        (("--demo", "1", "2", "-o", "a.zip"), 2),
        (("--demo", "1", "--job", "x", "-o", "a.zip"), 2),
        (("hosts.yaml", "--local", "-o", "a.zip"), 2),
        (("--local", "-o", "/no/such/folder/a.zip"), 2),
        (("no-such-file.yaml", "-o", "a.zip"), 2),
    ],
)
@pytest.mark.sampled(2)
def test_wrong_usage(arguments: tuple[str, ...], status: int, tmp_path: Path) -> None:
    assert gpuwatch("evidence", *arguments, cwd=tmp_path).returncode == status
    assert list(tmp_path.iterdir()) == []


def test_ctrl_c_leaves_no_half_bundle_and_the_same_command_goes_on(tmp_path: Path) -> None:
    log, out = tmp_path / "rank_1.log", tmp_path / "a.zip"
    log.write_text("".join(LINE.format(step) for step in range(20_000)) + f"{OOM}\n")
    part = out.with_name("a.zip.part")
    command = [*own_processes(), *COMMAND, "evidence", "--local", "--log", str(log), "--logs", "all"]
    command += ["-o", str(out), "--wait", "20"]
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background ignores it
    running = subprocess.Popen(
        command, cwd=ROOT, env=environment(), stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
    )  # fmt: skip
    signal.signal(signal.SIGINT, before)
    deadline = time.monotonic() + 60
    while not any(path.stat().st_size for path in part.glob("*.txt")) and running.poll() is None:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    os.killpg(running.pid, signal.SIGINT)
    assert running.communicate(timeout=60)[1]
    assert running.returncode == 130
    assert not out.exists()
    assert part.is_dir()
    done = subprocess.run(
        command, cwd=ROOT, env=environment(), stdin=subprocess.DEVNULL, capture_output=True, timeout=90,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.zip", "rank_1.log"]
    with zipfile.ZipFile(out) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith("rank_1.log")]
        lines = archive.read(name).decode().splitlines()
    assert len(lines) == 20_001
    assert [line.split()[4] for line in lines[:-1]] == [str(step) for step in range(20_000)]
