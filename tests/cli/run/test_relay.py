"""What the command meets under `gpuwatch run`: the streams, terminal, signals and exit code of alone."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import resource
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

from gpuwatch.cli.run.relay import MAX_UNREAD_KEYS, PAUSE_S
from tests.cli.running import ROOT, environment, read_until

ALONE = [sys.executable, "-m", "tests.cli.run.relay_alone"]


def piped(*command: str, given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [*ALONE, *command],
        input=given,
        capture_output=True,
        cwd=ROOT,
        env=environment(),
        timeout=60,
        check=False,
    )


@contextmanager
def on_pty(
    *command: str, columns: int = 101, rows: int = 37
) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def own_terminal() -> None:
        os.setsid()
        fcntl.ioctl(theirs, termios.TIOCSCTTY, 0)

    child = subprocess.Popen(
        [*ALONE, *command],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        cwd=ROOT,
        env=environment(),
        preexec_fn=own_terminal,  # noqa: PLW1509 - no threads
    )
    os.close(theirs)
    try:
        yield child, ours
    finally:
        child.kill()
        child.wait()
        os.close(ours)


def rest(ours: int) -> bytes:
    """Everything until the terminal is closed."""
    found = b""
    while True:
        try:
            data = os.read(ours, 65536)
        except OSError:
            return found
        if not data:
            return found
        found += data


def test_streams_pass_every_byte_and_stay_apart() -> None:
    script = r"head -c 300000 /dev/zero; printf 'a\r\033[1m\377'; printf 'e\0' >&2; cat; exit 3"
    done = piped("sh", "-c", script, given=b"in\n")
    assert done.stdout == b"\0" * 300_000 + b"a\r\x1b[1m\xffin\n"
    assert (done.stderr, done.returncode) == (b"e\0", 3)


def test_streams_that_are_one_keep_their_order() -> None:
    done = subprocess.run(
        [*ALONE, "sh", "-c", "for i in 1 2 3; do echo o$i; echo e$i >&2; done"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        cwd=ROOT,
        env=environment(),
        timeout=60,
        check=False,
    )
    assert done.stdout.split() == [b"o1", b"e1", b"o2", b"e2", b"o3", b"e3"]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM])
def test_the_signal_that_ended_the_command_ends_us(number: signal.Signals) -> None:
    assert piped("sh", "-c", f"kill -{int(number)} $$").returncode == -number


def test_a_reader_that_goes_away_is_met_as_alone() -> None:
    done = subprocess.run(
        ["bash", "-c", f"{' '.join(ALONE)} yes | head -n 1; exit ${{PIPESTATUS[0]}}"],
        capture_output=True,
        cwd=ROOT,
        env=environment(),
        timeout=60,
        check=False,
    )
    assert (done.stdout, done.returncode) == (b"y\n", 128 + signal.SIGPIPE)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1, signal.SIGHUP, signal.SIGINT])
def test_signals_to_us_reach_the_command(number: signal.Signals) -> None:
    script = f"trap 'echo got; exit 7' {int(number)}; echo ready; while :; do sleep 0.02; done"
    child = subprocess.Popen(
        [*ALONE, "sh", "-c", script],
        stdout=subprocess.PIPE,
        cwd=ROOT,
        env=environment(),
        start_new_session=True,
        preexec_fn=lambda: signal.signal(number, signal.SIG_DFL),  # noqa: PLW1509 - tests under `nohup`
    )
    assert child.stdout is not None
    assert child.stdout.readline() == b"ready\n"
    child.send_signal(number)
    assert child.stdout.read() == b"got\n"
    assert child.wait() == 7


def test_a_command_that_logs_much_wakes_us_seldom() -> None:
    """Each wake-up costs both of us; a thousand lines a second come together, twice in 20 ms at most."""
    script = (
        "import sys, time\nfor line in range(1000):\n    print(line, flush=True)\n    time.sleep(0.0005)\n"
    )
    began, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN).ru_nvcsw
    done = piped(sys.executable, "-c", script)
    took, switches = time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN).ru_nvcsw - before
    assert done.stdout.split() == [b"%d" % line for line in range(1000)]
    assert switches - 1000 < 200 * took + 100, "the command's own 1000 sleeps are counted, too"


def test_a_command_that_writes_much_is_not_held_back() -> None:
    """No pause between the pieces that a terminal passes on, of 4 kB at most."""
    pieces, command = 500, (sys.executable, "-c", "print(('x' * 79 + '\\n') * 25_600, end='')")
    began = time.monotonic()
    subprocess.run(command, capture_output=True, check=True)
    alone = time.monotonic() - began
    with on_pty(*command) as (child, ours):
        written = rest(ours)
        assert child.wait() == 0
    took = time.monotonic() - began - alone
    assert written.count(b"\n") == 25_600
    assert took - alone < pieces * PAUSE_S / 2


def test_the_command_has_a_terminal_of_the_same_size() -> None:
    script = "test -t 0 && test -t 1 && test -t 2 && stty size && tty && exec stty -a"
    with on_pty("sh", "-c", script) as (child, ours):
        written = rest(ours)
        assert child.wait() == 0
    assert written.startswith(b"37 101\r\n")
    assert b"isig icanon" in written


def test_a_new_size_reaches_the_command() -> None:
    script = "trap 'stty size; exit' WINCH; echo ready; while :; do sleep 0.02; done"
    with on_pty("sh", "-c", script) as (child, ours):
        read_until(ours, "ready")
        fcntl.ioctl(ours, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 132, 0, 0))
        assert read_until(ours, "50 132")
        assert child.wait() == 0


def test_ctrl_c_is_a_signal_for_the_command_alone() -> None:
    script = "trap 'echo got; exit 9' INT; echo ready; while :; do sleep 0.02; done"
    with on_pty("sh", "-c", script) as (child, ours):
        read_until(ours, "ready")
        os.write(ours, b"\x03")
        assert read_until(ours, "got")
        assert child.wait() == 9


def test_keys_reach_the_command_and_are_echoed_once() -> None:
    with on_pty("sh", "-c", "echo ready; read a; echo [$a]") as (child, ours):
        read_until(ours, "ready\r\n")
        os.write(ours, b"word\r")
        assert rest(ours).replace(b"\r", b"") == b"word\n[word]\n"
        assert child.wait() == 0


@pytest.mark.parametrize("many", [MAX_UNREAD_KEYS // 2, 3 * MAX_UNREAD_KEYS])
def test_keys_that_the_command_does_not_read_hold_up_no_output_and_no_signal(many: int) -> None:
    """They may be pasted, or be the terminal's answers to a question in the command's output."""
    count = "echo ready; i=0; while :; do i=$((i+1)); echo count-$i; sleep 0.02; done"
    with on_pty("sh", "-c", count) as (child, ours):
        read_until(ours, "count-1")
        os.set_blocking(ours, False)
        keys, shown, taken_at = b"pasted\n" * (many // 7), b"", 0
        while not taken_at or f"count-{taken_at + 20}".encode() not in shown:
            select.select([ours], [ours] if keys else [], [], 0.1)
            with suppress(BlockingIOError):
                shown = shown[-4096:] + os.read(ours, 65536)
            before = len(keys)
            with suppress(BlockingIOError):
                keys = keys[os.write(ours, keys) :] if keys else keys
            if not taken_at and len(keys) == before:  # the terminal takes no more of them, or all are written
                taken_at = max(map(int, re.findall(rb"count-(\d+)\r", shown)), default=0)
        child.send_signal(signal.SIGTERM)
        os.set_blocking(ours, True)
        rest(ours)
        assert child.wait(60) == -signal.SIGTERM


def test_ctrl_z_stops_us_with_the_command_and_both_go_on() -> None:
    with on_pty("sh", "-c", "echo ready; read a; echo [$a]") as (child, ours):
        read_until(ours, "ready")
        os.write(ours, b"\x1a")
        _, status = os.waitpid(child.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status)
        child.send_signal(signal.SIGCONT)
        os.write(ours, b"on\r")
        assert read_until(ours, "[on]")
        assert child.wait() == 0


def test_the_terminal_is_as_before_afterwards() -> None:
    ours, theirs = pty.openpty()
    before = termios.tcgetattr(theirs)
    subprocess.run(
        [*ALONE, "true"], stdin=theirs, stdout=theirs, stderr=theirs, cwd=ROOT, env=environment(), check=True
    )
    assert termios.tcgetattr(theirs) == before
    os.close(ours)
    os.close(theirs)
