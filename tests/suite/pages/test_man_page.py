"""docs/gpuwatch.1 is made from the help, has every command, and is roff that copies commands unchanged."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from gpuwatch.cli.main import COMMANDS
from gpuwatch.cli.man_page import escaped, page
from tests.packages import path_of

FILE = Path(__file__).parents[3] / "docs" / "gpuwatch.1"


def test_the_page_is_up_to_date() -> None:
    assert FILE.read_text() == page(), "run make docs"


def test_every_command_has_its_section() -> None:
    sections = re.findall(r'^\.SS "gpuwatch ([\w ]+)"$', FILE.read_text(), re.MULTILINE)
    assert {name.partition(" ")[0] for name in sections} == set(COMMANDS)
    assert "runs compare" in sections


def test_what_roff_would_change_is_escaped() -> None:
    assert escaped("--at '3m ago'") == r"\-\-at \(aq3m ago\(aq"
    assert escaped(".gz and C:\\") == r"\&.gz and C:\e"
    assert escaped("see `gpuwatch open`") == r"see \fBgpuwatch open\fP"


@pytest.mark.parametrize(
    "argv", [["groff", "-man", "-ww", "-z"], ["mandoc", "-T", "lint", "-W", "error"]], ids=["groff", "mandoc"]
)
def test_a_formatter_takes_it(argv: list[str]) -> None:
    if path_of(argv[0]) is None:
        pytest.skip(f"{argv[0]} is not here")
    done = subprocess.run([*argv, str(FILE)], capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
