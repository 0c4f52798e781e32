"""A terminal closed in the middle of random keys, and opened again: no process stays, no mark is lost."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import sys
import time
from pathlib import Path

import pytest
from msgspec.structs import replace
from textual.keys import key_to_character

from gpuwatch.hosts.builtin import local_plan
from gpuwatch.session.cluster_state.cluster_state import marks_file
from gpuwatch.session.cluster_state.marks import KeptNote
from gpuwatch.session.cluster_state.marks_file import MarksFile
from gpuwatch.tui.model.session_protocol import WRITING
from gpuwatch.tui.preferences.file import load, settings_file
from gpuwatch.tui.toolkit.faults import fault_file
from tests.end_to_end.tty.pty_program import Pty
from tests.tui.robustness.random_keys import LAST, bound_keys

LONG_S = 200.0
SEQUENCES = {"enter": "\r", "escape": "\x1b", "tab": "\t", "shift+tab": "\x1b[Z", "backspace": "\x7f",
              "up": "\x1b[A", "down": "\x1b[B", "right": "\x1b[C", "left": "\x1b[D"}  # fmt: skip
TEXTS = ("gpu\r", "rank=85\r", "(((\r", "temp>85\r")


def typed_keys() -> list[str]:
    """What a terminal sends for each bound key, but for those that quit, write files or list such actions."""
    pressed = bound_keys(without=("back_or_quit", "command_palette", "help", *WRITING))
    sent = [SEQUENCES.get(key) or sequence_of(key) for key in pressed]
    return sorted(text for text in sent if text is not None)


def sequence_of(key: str) -> str | None:
    """The character of a key; None: a function key, of which there is a letter, too."""
    if key.startswith("ctrl+") and len(key) == 6 and key[-1].isalpha():
        return chr(ord(key[-1]) & 0x1F)
    character = key_to_character(key)
    return character if character is not None and len(character) == 1 else None


def close_in_the_middle(rng: random.Random, source: str) -> list[str]:
    """Start it, press anything, close the terminal; what was pressed. The program has ended in order."""
    opened = Pty([sys.executable, "-m", "gpuwatch", source])
    pressed: list[str] = []
    try:
        opened.read_until(lambda seen: b"gpuwatch" in seen and b"live" in seen)
        for _ in range(rng.randint(0, 40)):
            pressed.append(rng.choice(TEXTS) if rng.random() < 0.1 else rng.choice(typed_keys()))
            os.write(opened.fd, pressed[-1].encode())
            if rng.random() < 0.5:
                until = time.monotonic() + 0.02
                opened.read_until(lambda _, until=until: time.monotonic() > until)  # type: ignore[misc]
    finally:
        os.close(opened.fd)  # the kernel sends HUP
        status = os.waitstatus_to_exitcode(os.waitpid(opened.pid, 0)[1])
    assert status == 128 + signal.SIGHUP, (status, pressed, opened.written[-2000:])
    assert left_of(opened.pid) == [], pressed
    return pressed


def left_of(session: int) -> list[str]:
    """The command lines of the processes of a terminal's session that still run."""
    left = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it ended
            fields = stat.read_text().rpartition(")")[2].split()
            if int(fields[3]) == session and fields[0] != "Z":
                left.append((stat.parent / "cmdline").read_text())
    return left


@pytest.fixture
def marks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MarksFile:
    """The marks of this machine in folders of the test's own: keys at random change settings, too."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    file = marks_file(local_plan())
    assert file is not None
    return file


def close_and_reopen(
    marks: MarksFile, seed: int, source: str, rounds: int, seconds: float = float("inf")
) -> None:
    """So many terminals one after another, or for so long; marks and settings are read after each."""
    rng = random.Random(seed)
    note = KeptNote("i1", "cable ordered", at=time.time(), by="alice")
    marks.change(lambda kept: replace(kept, notes=(note,)), time.time())
    deadline = time.monotonic() + seconds
    for _ in range(rounds):
        report = f"seed {seed}, last keys: {close_in_the_middle(rng, source)[-LAST:]}"
        load(settings_file())
        assert note in marks.read()[0].notes, report
        assert not fault_file().exists(), f"{report}\n{fault_file().read_text()[-6000:]}"
        if time.monotonic() > deadline:
            break


def test_a_terminal_that_goes_away_ends_it_and_loses_nothing(marks: MarksFile) -> None:
    close_and_reopen(marks, 3, "--local", 2)


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("source", ["--demo", "--local"])
def test_terminals_closed_and_reopened_for_minutes(marks: MarksFile, source: str) -> None:
    close_and_reopen(marks, time.time_ns() % 1_000_000, source, 1_000, LONG_S)


@pytest.mark.long
@pytest.mark.usefixtures("marks")
@pytest.mark.parametrize("delay_s", [0.05, 0.1, 0.15, 0.2])
def test_a_stopped_one_ends_with_its_terminal(delay_s: float) -> None:
    """After ctrl+z: the kernel wakes it with HUP and CONT, and a second time when the terminal goes."""
    opened = Pty([sys.executable, "-m", "gpuwatch", "--demo"])
    opened.read_until(lambda seen: b"live" in seen)
    os.write(opened.fd, b"\x1a")
    opened.read_until(lambda _: state_of(opened.pid) == "T")
    for number in (signal.SIGHUP, signal.SIGCONT):
        os.kill(opened.pid, number)
    time.sleep(delay_s)
    os.close(opened.fd)
    os.waitpid(opened.pid, 0)
    assert left_of(opened.pid) == []


def state_of(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
