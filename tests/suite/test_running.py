"""pytest with and without xdist, and with parts of the system missing, in processes of their own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.packages import LONG_PACKAGE_OF, PACKAGE_OF

ROOT = Path(__file__).parents[2]
PYTHON_PARTS = {"py-spy"}
"""Programs that come with a Python package, so that pip installs them."""
LACKING = """
import pytest
from tests.parts import need, need_torch

@pytest.mark.parametrize("number", range(3))
def test_needs_a_program(number):
    need("tmux")

@pytest.fixture
def shell():
    return need("zsh")

def test_needs_a_program_by_fixture(shell):
    pass

@pytest.fixture
def terminal():
    return need("tmux")

def test_needs_the_same_program_by_fixture(terminal):
    pass

def test_needs_torch(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    need_torch()
"""


def run_pytest(*arguments: str, **changes: str) -> subprocess.CompletedProcess[str]:
    own = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "GPUWATCH_"))}
    argv = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments]
    return subprocess.run(
        argv, cwd=ROOT, env={**own, **changes}, capture_output=True, text=True, check=False, timeout=100
    )


@pytest.mark.sampled(1)
@pytest.mark.parametrize("processes", ["0", "2"])
def test_a_file_that_is_not_there_is_named(processes: str) -> None:
    done = run_pytest("-n", processes, "tests/no_such_file.py::test_it")
    assert done.returncode == 4
    assert "tests/no_such_file.py" in done.stdout + done.stderr


def lacking(folder: Path) -> str:
    """A test file whose parts no folder of PATH has."""
    file = folder / "test_lacking.py"
    file.write_text("import tests.packages\ntests.packages._SBIN = '/none'\n" + LACKING)
    return str(file)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("switch", [("-p", "no:xdist"), ("-n", "0")])
def test_suite_is_collected_without_xdist(switch: tuple[str, ...]) -> None:
    done = run_pytest(*switch, "--collect-only", "tests/suite/test_running.py")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "tests/suite/test_running.py::" in done.stdout


def test_each_missing_part_is_one_line_with_its_package(tmp_path: Path) -> None:
    done = run_pytest(
        "-c", "pyproject.toml", "-p", "tests.conftest", "-n", "0", lacking(tmp_path), PATH="/none"
    )
    assert done.returncode == 0, done.stdout + done.stderr
    reported = re.findall(r"^(\d+) skipped: (\w+) is not installed", done.stdout, re.MULTILINE)
    assert sorted(reported) == [("1", "torch"), ("1", "zsh"), ("4", "tmux")]
    assert done.stdout.count("(Debian package tmux)") == 1


def test_a_missing_part_fails_where_that_is_asked_for(tmp_path: Path) -> None:
    parts = {"PATH": "/none", "GPUWATCH_REQUIRE_PARTS": "1"}
    done = run_pytest("-c", "pyproject.toml", "-p", "tests.conftest", "-n", "0", lacking(tmp_path), **parts)
    assert done.returncode == 1
    assert "4 failed, 2 error" in done.stdout.replace("errors", "error")


def test_every_needed_program_has_a_package() -> None:
    sources = [path.read_text() for path in (ROOT / "tests").rglob("*.py") if path != Path(__file__)]
    needed = {name for source in sources for name in re.findall(r'\bneed\("([^"]+)"\)', source)}
    assert needed - PYTHON_PARTS <= PACKAGE_OF.keys() | LONG_PACKAGE_OF.keys()
