"""How the command asks, reports and ends; the outcomes are scripted, process and terminal are real."""

from __future__ import annotations

import csv
import fcntl
import json
import os
import re
import select
import shlex
import signal
import subprocess
import sys
import termios
import time
from pathlib import Path

import pyte
import pytest

from tests.cli.fork_server import Call
from tests.cli.running import ROOT, environment, read_until, run_forked, terminal
from tests.sentences import Sentences, line_of

SCRIPTED = (sys.executable, "-m", "tests.cli.probe.scripted_probe")
CTRL_C = "\x03"
AGAIN_S = 2.0
COLOUR = re.compile(r"\x1b\[[0-9;]*3[0-9]")


def reported(story: str, *arguments: str, **changes: str) -> subprocess.CompletedProcess[str]:
    arguments = (story, *arguments)
    return run_forked(Call(arguments, str(ROOT), environment(**changes), "tests.cli.probe.scripted_probe"))


def typed(
    story: str, answer: str, *arguments: str, until: str, columns: int = 80, **changes: str
) -> tuple[int, str]:
    """On a terminal: the answer is typed when `until` stands there; the exit status and everything shown."""
    with terminal(columns) as (ours, theirs):
        child = subprocess.Popen(
            [*SCRIPTED, story, *arguments],
            cwd=ROOT,
            env=environment(**changes),
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
            preexec_fn=own_terminal,  # noqa: PLW1509  a terminal's Ctrl-C reaches its own session only
        )
        shown = read_until(ours, until).encode()
        os.write(ours, answer.encode())
        again = time.monotonic() + AGAIN_S
        while child.poll() is None or select.select([ours], [], [], 0)[0]:
            if select.select([ours], [], [], 0.02)[0]:
                shown += os.read(ours, 65536)
            if answer == CTRL_C and time.monotonic() > again and child.poll() is None:
                os.write(ours, answer.encode())  # Python's input() can miss one that comes as it begins
                again += AGAIN_S
        return child.returncode, shown.decode()


def own_terminal() -> None:
    """Make the pty on stdin the controlling terminal of the new session, in which Ctrl-C counts.

    A shell's background ignores it, and children inherit that.
    """
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("story", "status"), [("well", 0), ("noisy", 0), ("bad", 1), ("failed", 1)])
def test_the_exit_status_says_whether_something_is_slow(
    story: str, status: int, sentences: Sentences
) -> None:
    done = reported(story, "--yes")
    assert (done.returncode, done.stderr) == (status, "")
    sentences(line_of(done.stdout, "training"))


def test_the_report_tells_what_was_found_what_was_measured_and_the_verdict_last() -> None:
    done = reported("bad", "--yes")
    order = ["probe of --local", "python", "plan: gloo", "collective ", "from (row)", "ALERT", "BAD  gpu-003"]
    places = [done.stdout.index(words) for words in order]
    assert places == sorted(places)
    assert "\x1b" not in done.stdout


def test_busy_gpus_are_named_and_refused(sentences: Sentences) -> None:
    done = reported("busy", "--yes")
    assert done.returncode == 2
    sentences(line_of(done.stdout, "gpu-001"))
    sentences(done.stderr)
    assert "gpu-[001-004]" in done.stdout


def test_no_torch_anywhere_ends_with_the_remedy(sentences: Sentences) -> None:
    done = reported("torchless", "--yes")
    assert done.returncode == 2
    sentences(line_of(done.stdout, "/usr/bin/python3"))
    assert "pip install 'gpuwatch-cluster[probe]'" in done.stderr
    sentences(line_of(done.stderr, "python"))


def test_without_a_terminal_nobody_can_be_asked_and_the_plan_is_shown(
    tmp_path: Path, sentences: Sentences
) -> None:
    done = reported("well")
    assert done.returncode == 2
    sentences(line_of(done.stderr, "40"))
    assert "--yes" in done.stderr
    assert "plan: gloo" in done.stdout
    assert "plan: gloo" not in done.stderr  # who reads both would read it twice
    assert "busbw" not in done.stdout
    path = tmp_path / "plan.json"
    assert reported("well", "--json", str(path)).returncode == 2
    assert json.loads(path.read_text())["phase"] == "asking"


def test_json_and_csv_stand_alone_on_stdout_or_beside_the_text(tmp_path: Path, sentences: Sentences) -> None:
    done = reported("bad", "--yes", "--json", "-")
    facts = json.loads(done.stdout)
    assert (done.returncode, done.stderr) == (1, "")
    assert (facts["verdict"]["status"], facts["phase"], facts["source"]) == ("bad", "done", "--local")
    done = reported("bad", "--yes", "--json", str(tmp_path / "a.json"), "--csv", str(tmp_path / "a.csv"))
    sentences(done.stdout.splitlines()[-1].strip())
    assert json.loads((tmp_path / "a.json").read_text())["pairs"] == facts["pairs"]
    rows = list(csv.DictReader((tmp_path / "a.csv").read_text().splitlines()))
    assert len(rows) == len(facts["pairs"]) + len(facts["collectives"])
    assert reported("bad", "--yes", "--csv", "-").stdout.startswith("time,backend,backend_note,kind,")


def test_a_baseline_is_kept_and_reported_when_it_is_not_healthy(tmp_path: Path, sentences: Sentences) -> None:
    path = tmp_path / "base.json"
    done = reported("well", "--yes", "--save-baseline", str(path))
    assert (done.returncode, done.stderr) == (0, "")
    assert reported("well", "--yes", "--baseline", str(path)).returncode == 0
    done = reported("bad", "--yes", "--save-baseline", str(path))
    sentences(line_of(done.stderr, "problems"))


def test_the_question_waits_for_a_yes() -> None:
    status, shown = typed("well", "y\n", until="[y/N]")
    assert status == 0
    assert shown.index("plan: gloo") < shown.index("Run it on 4 nodes for about 40 s?")
    assert shown.index("[y/N]") < shown.index("all 12 links")
    assert COLOUR.search(shown)


@pytest.mark.parametrize("answer", ["n\n", "\n"])
def test_without_a_yes_nothing_is_measured(answer: str, sentences: Sentences) -> None:
    status, shown = typed("well", answer, until="[y/N]")
    assert status == 2
    sentences(line_of(shown, "measured"))
    assert "all 12 links" not in shown


def test_ctrl_c_at_the_question_ends_it() -> None:
    status, shown = typed("well", CTRL_C, until="[y/N]")
    assert status == 130
    assert "interrupted" in shown
    assert "Traceback" not in shown


def test_ctrl_c_prints_what_was_measured_by_then(sentences: Sentences) -> None:
    status, shown = typed("endless", CTRL_C, "--yes", until="7/60 steps", columns=100)
    assert status == 130
    assert "60 s left" in shown
    after = shown[shown.index("7/60 steps") :]
    assert re.search(r"all_reduce +4M", after)
    sentences(line_of(after, "cancelled:"))
    sentences(line_of(after, "so far nothing"))
    assert "interrupted" in after
    assert "Traceback" not in after


def test_a_signal_ends_it_at_once() -> None:
    child = subprocess.Popen(
        [*SCRIPTED, "endless", "--yes"], cwd=ROOT, env=environment(), stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    while "about 40 s" not in child.stdout.readline():
        pass
    child.send_signal(signal.SIGTERM)
    child.communicate(timeout=60)
    assert child.returncode == 128 + signal.SIGTERM


def test_a_narrow_terminal_loses_columns_and_keeps_the_rest_whole() -> None:
    _, shown = typed("bad", "", "--yes", until="reach 48.7")
    screen = pyte.HistoryScreen(80, 24, history=1000)
    pyte.Stream(screen).feed(shown)
    lines = ["".join(cells[x].data for x in range(80)).rstrip() for cells in screen.history.top]
    lines += [line.rstrip() for line in screen.display]
    assert "all_reduce  256M  1.34ms  1.28ms  1.79ms  3%    200    370  36.5  ok" in lines
    assert " 2 gpu-003 ✖12.0 ✖12.0       ✖12.0" in lines


def test_an_output_that_is_no_utf8_is_ascii() -> None:
    done = reported("bad", "--yes", PYTHONIOENCODING="ascii")
    assert done.returncode == 1
    assert done.stdout.isascii()
    assert "x12.0" in done.stdout


def test_no_color_is_honoured() -> None:
    _, shown = typed("bad", "", "--yes", until="reach 48.7", NO_COLOR="1")
    assert not COLOUR.search(shown)


def test_output_that_cannot_be_written_has_its_own_status() -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [*SCRIPTED, "well", "--yes"],
            cwd=ROOT,
            env=environment(),
            stdin=subprocess.DEVNULL,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 74
    assert "cannot write" in done.stderr


@pytest.mark.parametrize(
    ("where", "why"), [("/proc/links.json", "no such file or directory"), ("links.json", "file too large")]
)
def test_a_file_that_cannot_be_written_is_reported_before_anything_is_measured(
    tmp_path: Path, where: str, why: str
) -> None:
    """A disk may be full, and root is allowed everything; here a limit of 1 KiB stands for the disk."""
    path = tmp_path / where
    command = shlex.join([*SCRIPTED, "well", "--yes", "--json", str(path)])
    done = subprocess.run(
        ["/bin/sh", "-c", f"ulimit -f 2; exec {command}"],
        cwd=ROOT, env=environment(), stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr == f"--json {path}: cannot write: {why}\n"
    assert not path.exists()
