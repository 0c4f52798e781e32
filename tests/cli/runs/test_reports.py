"""`gpuwatch runs report` and `plot` as a user types them."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import pytest

from tests.cli.running import gpuwatch, run
from tests.runs.sessions.written import MAIN, MULTI, PERFORMANCE, write_session


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_session(tmp_path / "logs", MULTI, None, main=MAIN, performance=PERFORMANCE)
    return tmp_path


def test_report_writes_html_and_markdown_for_the_owner_only(folder: Path) -> None:
    """Document 002, line 134: analyze_logs.py --report."""
    done = gpuwatch("runs", "report", "--html", "r.html", "--markdown", "r.md", cwd=folder)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert MULTI in (folder / "r.html").read_text()
    assert "eval" in (folder / "r.md").read_text()
    assert (folder / "r.html").stat().st_mode & 0o777 == 0o600


def test_report_without_a_file_is_on_the_terminal(folder: Path) -> None:
    done = gpuwatch("runs", "report", MULTI, cwd=folder)
    assert done.returncode == 0
    assert all(value in done.stdout for value in (MULTI, "eval_perplexity", "1.9876", "⠤"))
    assert not any(line.endswith(" ") for line in done.stdout.splitlines())


def test_plot_draws_in_the_terminal_and_in_ascii_where_it_must(folder: Path) -> None:
    """Document 002, line 137: analyze_logs.py --plot."""
    command = [sys.executable, "-m", "gpuwatch", "runs", "plot"]
    done = run(command, cwd=folder, changes={"PYTHONIOENCODING": "ascii"})
    assert done.returncode == 0
    assert "*" in done.stdout
    assert "\\u" not in done.stdout


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("ending", "magic"), [("png", b"\x89PNG"), ("svg", b"<?xml")])
def test_plot_writes_pictures(folder: Path, ending: str, magic: bytes) -> None:
    """Document 002, line 137: analyze_logs.py --plot."""
    pytest.importorskip("matplotlib")
    done = gpuwatch("runs", "plot", "-o", f"p.{ending}", cwd=folder)
    assert (done.returncode, done.stderr) == (0, "")
    assert (folder / f"p.{ending}").read_bytes().startswith(magic)


def test_plot_refuses_another_ending(folder: Path) -> None:
    done = gpuwatch("runs", "plot", "-o", "p.gif", cwd=folder)
    assert (done.returncode, done.stdout) == (2, "")
    assert ".svg" in done.stderr


def test_a_full_disk_is_reported(folder: Path) -> None:
    done = gpuwatch("runs", "report", "--html", "/dev/full", cwd=folder)
    assert done.returncode == 74
    assert "/dev/full" in done.stderr


def test_the_command_of_tensorboard_is_printed_and_started(tmp_path: Path) -> None:
    """Document 001, line 60: tensorboard --logdir <output_dir> --port 6006."""
    events = tmp_path / "my logs" / "rank_0" / "events.out.tfevents.1.host"
    events.parent.mkdir(parents=True)
    events.touch()
    done = gpuwatch("runs", "tensorboard", "my logs", cwd=tmp_path)
    assert done.returncode == 0
    assert shlex.split(done.stdout) == ["tensorboard", "--logdir", "my logs", "--port", "6006"]
    program = tmp_path / "bin" / "tensorboard"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\nIFS=,; echo "$*"\nexit 3\n')
    program.chmod(0o755)
    command = [
        sys.executable,
        "-m",
        "gpuwatch",
        "runs",
        "tensorboard",
        "my logs",
        "--port",
        "7000",
        "--start",
    ]
    started = run(command, cwd=tmp_path, changes={"PATH": f"{program.parent}:/usr/bin:/bin"})
    assert (started.returncode, started.stdout) == (3, "--logdir,my logs,--port,7000\n")
    without = gpuwatch("runs", "tensorboard", "bin", cwd=tmp_path)
    assert (without.returncode, without.stdout) == (2, "")
