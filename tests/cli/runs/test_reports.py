"""`gpuwatch runs report` and `plot` as a user types them."""

from __future__ import annotations

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


def test_a_full_disk_is_told(folder: Path) -> None:
    done = gpuwatch("runs", "report", "--html", "/dev/full", cwd=folder)
    assert done.returncode == 74
    assert "/dev/full" in done.stderr
