"""The Makefile's installation with a Python that plays a machine where pip finds no torch, or no network."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.parts import need

ROOT = Path(__file__).parents[2]
PLAYED = r"""#!/bin/sh
case "$*" in
    "-m venv "*) mkdir -p "$3/bin" && cp "$0" "$3/bin/python";;
    *--no-index*) exit 1;;
    *"[dev]"*) echo "$PIP_SAYS" >&2; test -z "$PIP_SAYS";;
    "-m pytest"*) echo "pytest started: $*";;
esac
"""


def make(folder: Path, target: str, pip_says: str) -> subprocess.CompletedProcess[str]:
    for name in ("Makefile", "pyproject.toml"):
        shutil.copy(ROOT / name, folder)
    python = folder / "python"
    python.write_text(PLAYED)
    python.chmod(0o755)
    own = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    return subprocess.run(
        [need("make"), target, f"PYTHON={python}"],
        cwd=folder,
        env={**own, "PIP_SAYS": pip_says},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


@pytest.mark.parametrize(("target", "chosen"), [("test", "-m not long"), ("test-long", "-m long")])
def test_size_is_named_before_the_download_and_the_tier_is_chosen(
    tmp_path: Path, target: str, chosen: str
) -> None:
    done = make(tmp_path, target, "")
    assert done.returncode == 0, done.stderr
    assert done.stdout.index(" GB") < done.stdout.index("pytest started")
    assert chosen in done.stdout


def test_tests_run_where_no_wheel_of_torch_fits(tmp_path: Path) -> None:
    done = make(tmp_path, "test", "ERROR: No matching distribution found for torch")
    assert done.returncode == 0, done.stderr
    assert "no wheel of torch fits this Python" in done.stdout
    assert "pytest started" in done.stdout


def test_another_failure_of_pip_ends_make(tmp_path: Path) -> None:
    done = make(tmp_path, "test", "ERROR: Could not install packages due to an OSError")
    assert done.returncode == 2
    assert "OSError" in done.stderr
    assert "pytest started" not in done.stdout
    assert not (tmp_path / ".venv/.installed-dev").exists()


def test_ci_installs_no_python_part_and_calls_the_command_of_the_readme() -> None:
    ci = (ROOT / ".ci/run").read_text()
    assert not re.search(r"\bpip3?\b", ci)
    assert "\nGPUWATCH_REQUIRE_PARTS=1 make test\n" in ci
    assert "    make test " in (ROOT / "README.md").read_text()
