"""The command around the screen, on a real pseudo-terminal."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LEFT_ALTERNATE_SCREEN = b"\x1b[?1049l"

CRASH = """
from gpuwatch.cli.shared.screens import run
from gpuwatch.tui.app import GpuwatchApp
from tests.tui.still import StillSession
from tests.tui.shots import plan_for

class Broken(StillSession):
    def start(self):
        raise RuntimeError("start broke")
    def close(self):
        print("closed", flush=True)

session = Broken(plan_for(2))
raise SystemExit(run(GpuwatchApp(session, ascii_only=True), session, mouse=False))
"""


def on_pty(*arguments: str, keys: bytes = b"", after: bytes = b"") -> tuple[int, bytes]:
    """Run python on a pty of its own; send `keys` once `after` was seen. The exit status and all output."""
    ours, theirs = pty.openpty()
    environment = {
        **os.environ,
        "TERM": "xterm-256color",
        "COLUMNS": "100",
        "LINES": "30",
        "PYTHONPATH": str(ROOT),
    }
    child = subprocess.Popen(
        [sys.executable, *arguments], stdin=theirs, stdout=theirs, stderr=theirs, env=environment, cwd=ROOT
    )
    os.close(theirs)
    seen = b""
    try:
        while select.select([ours], [], [], 60)[0]:
            try:
                data = os.read(ours, 65536)
            except OSError:  # Linux says EIO when the other end is closed
                break
            seen += data
            if keys and after in seen:
                os.write(ours, keys)
                keys = b""
        return child.wait(timeout=60), seen
    finally:
        child.kill()
        os.close(ours)


@pytest.mark.faults_expected
def test_a_fault_of_ours_restores_the_terminal_first_and_then_tells() -> None:
    status, seen = on_pty("-c", CRASH)
    assert status == 70
    restored = seen.rindex(LEFT_ALTERNATE_SCREEN)
    reported = seen.index(b"RuntimeError: start broke")
    assert restored < reported
    assert b"please report" in seen[reported:]
    assert seen.count(b"closed") == 1


@pytest.mark.sampled(1)
@pytest.mark.parametrize("key", [b"\x03", b"\x11", b"q"])
def test_the_demo_opens_and_a_key_leaves_it(key: bytes) -> None:
    status, seen = on_pty("-m", "gpuwatch", "--demo", "--ascii", keys=key, after=b"simulated")
    assert status == 0
    assert LEFT_ALTERNATE_SCREEN in seen
    assert b"Traceback" not in seen


def test_a_theme_that_is_not_there_is_a_usage_mistake() -> None:
    status, seen = on_pty("-m", "gpuwatch", "watch", "--demo", "--theme", "nope")
    assert status == 2
    assert b"gpuwatch-light" in seen


def test_without_a_terminal_it_reports_once() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "gpuwatch", "--demo"],
        check=False,
        capture_output=True,
        stdin=subprocess.DEVNULL,
        cwd=ROOT,
        timeout=90,
    )
    assert b"gpu-001" in done.stdout
    assert b"\x1b[?1049h" not in done.stdout + done.stderr
