"""As a person uses it: a real terminal, real keys, and the terminal as it was afterwards."""

from __future__ import annotations

import os
import re
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpuwatch.tui.toolkit.faults import fault_file
from tests.end_to_end.tty.terminal import Terminal, quoted

GPUWATCH = quoted(sys.executable, "-m", "gpuwatch")


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    with Terminal(80, 24) as opened:
        yield opened


@pytest.fixture
def wide() -> Iterator[Terminal]:
    with Terminal() as opened:
        yield opened


def ended(terminal: Terminal) -> int:
    """Wait for the program's end; its exit status."""
    screen = terminal.wait_for(r"ended=\d+ same=")
    found = re.search(r"ended=(\d+) same=(\w+)", screen)
    assert found is not None
    assert found[2] == "yes", "the tty settings are not what they were"
    assert terminal.is_restored()
    return int(found[1])


def start(terminal: Terminal, command: str) -> None:
    """Run a command between two looks at the tty settings."""
    after = 's=$?; b=$(stty -g); [ "$a" = "$b" ] && e=yes || e=no; echo ended=$s same=$e'
    terminal.type(f"a=$(stty -g); {command}; {after}")


def test_start_drill_back_and_quit(terminal: Terminal) -> None:
    start(terminal, f"{GPUWATCH} --demo")
    fleet = terminal.wait_for(r"DEMO")
    assert "gpu-001" in terminal.wait_for(r"gpu-001"), fleet
    terminal.press("Enter")
    terminal.wait_for(r"(?s)gpu-001.*H100")
    terminal.press("-")
    terminal.wait_for(r"gpu-002")
    terminal.press("?")
    terminal.wait_for("esc Close")
    terminal.press("Escape")
    terminal.wait_for_end_of("esc Close")  # Escape and q at once would be alt+q
    terminal.press("q")
    assert ended(terminal) == 0


def test_ctrl_c_quits_and_restores(wide: Terminal) -> None:
    start(wide, f"{GPUWATCH} --demo")
    wide.wait_for("DEMO")
    wide.press("C-c")
    assert ended(wide) in {0, 130}


@pytest.mark.faults_expected
def test_a_crash_restores_the_terminal_and_says_what_happened(wide: Terminal) -> None:
    start(wide, quoted(sys.executable, "-m", "tests.end_to_end.tty.crash", "compose"))
    assert ended(wide) == 70
    assert "planted-fault" in wide.screen()


@pytest.mark.long
@pytest.mark.faults_expected
def test_faults_are_counted_in_the_header_and_named_at_the_end(wide: Terminal) -> None:
    start(wide, quoted(sys.executable, "-m", "tests.end_to_end.tty.crash", "poll"))
    wide.wait_for(r"[2-9] faults of gpuwatch")
    wide.wait_for("gpu-001")
    wide.press("q")
    assert ended(wide) == 0
    assert str(fault_file()) in re.sub(r"\s", "", wide.screen())


@pytest.mark.sampled(1)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_in_order(wide: Terminal, tmp_path: Path, number: signal.Signals) -> None:
    pid_file = tmp_path / "pid"
    start(wide, f"sh -c 'echo $$ > {pid_file}; exec {GPUWATCH} --demo'")
    wide.wait_for("DEMO")
    os.kill(int(pid_file.read_text()), number)
    assert ended(wide) == 128 + number


def test_this_machine(wide: Terminal) -> None:
    start(wide, f"{GPUWATCH} --local")
    wide.wait_for(re.escape(os.uname().nodename[:12]))
    wide.press("Enter")
    wide.wait_for(r"Processes.* Host .*Topology")
    wide.press("C-q")
    assert ended(wide) == 0


@pytest.mark.long
def test_after_a_stop_everything_is_painted_again(wide: Terminal) -> None:
    start(wide, f"{GPUWATCH} --demo")
    wide.wait_for(r"(?s)live.*Active problems.*Quit")
    wide.press("C-z")
    wide.wait_for(r"(?s)topped.*ready\$")
    assert wide.is_restored()
    wide.type("fg")
    wide.wait_for(r"(?s)utilization.*gpu-001.*Active problems.*enter Open")
    wide.press("q")
    wide.wait_for(r"ready\$")
    assert wide.is_restored()


@pytest.mark.long
def test_another_size_while_it_runs(wide: Terminal) -> None:
    start(wide, f"{GPUWATCH} --demo")
    wide.wait_for("16 live")
    for columns, rows in ((40, 12), (200, 60), (80, 24)):
        wide.resize(columns, rows)
        wide.wait_for(rf"(?s)gpuwatch.*gpu-001 .{{{min(columns - 20, 60)}}}.*enter Open")
    wide.press("q")
    assert ended(wide) == 0


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("settings", "sign"),
    [("TERM=linux LC_ALL=C", "o 16 live"), ("TERM=xterm COLORTERM=", "\N{BLACK CIRCLE} 16 live")],
)
def test_plain_terminals_are_known_by_themselves(wide: Terminal, settings: str, sign: str) -> None:
    start(wide, f"env {settings} {GPUWATCH} --demo")
    wide.wait_for(sign)
    wide.press("q")
    assert ended(wide) == 0


@pytest.mark.long
@pytest.mark.parametrize("size", [(80, 24), (140, 45)], ids=["80x24", "140x45"])
def test_from_the_incident_to_the_line_to_all_ranks_and_back(size: tuple[int, int]) -> None:
    with Terminal(*size) as terminal:
        start(terminal, quoted(sys.executable, "-m", "tests.end_to_end.tty.demo_at", "95"))
        terminal.wait_for(r"rank 85 \(gpu-011 GPU 5\).*Xid 79, GPU fell off the bus")
        terminal.press("4")
        terminal.wait_for("What to do")
        terminal.press("Enter")
        line = r"\N{HEAVY MULTIPLICATION X}\N{LEFT HALF BLOCK}.*NVRM: Xid \(PCI:0000:c3:00\): 79"
        terminal.wait_for(rf"(?s)kernel log.*gpu-011.*{line}")
        terminal.press("m")
        terminal.wait_for(r"(?s)merged.*NVRM: Xid .*79")
        terminal.press("r")
        terminal.wait_for(r"(?s)rank \d+ .*gpu-0.*paused")
        terminal.press("-")
        terminal.wait_for("What to do")
        terminal.press("q")
