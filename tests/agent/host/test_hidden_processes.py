"""Whose processes an agent cannot see is a notice; which user asks decides it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gpuwatch.agent.base.notices import PROCESSES_HIDDEN, processes_hidden

ASK = """
import os
from gpuwatch.agent.base.notices import processes_hidden
os.setuid({})
print(processes_hidden())
"""
FIRST, SECOND = 64123, 64124


def test_a_proc_that_hides_others_is_reported(tmp_path: Path) -> None:
    (tmp_path / "self").mkdir()
    (tmp_path / "self" / "stat").write_text("1 (python) R")
    notice = processes_hidden(str(tmp_path), 1000)
    assert notice is not None
    assert (notice["code"], notice["severity"]) == (PROCESSES_HIDDEN, "info")
    assert "hidepid" in notice["text"]
    (tmp_path / "1").mkdir()
    (tmp_path / "1" / "stat").write_text("1 (init) S")
    assert processes_hidden(str(tmp_path), 1000) is None


@pytest.mark.skipif(sys.platform != "linux" or os.geteuid() != 0, reason="needs root to become two users")
def test_an_agent_that_is_not_root_sees_no_environment_of_another_person() -> None:
    with subprocess.Popen(["sleep", "60"], user=FIRST) as other:
        try:
            asked = subprocess.run(
                [sys.executable, "-c", ASK.format(SECOND)], capture_output=True, text=True, check=True
            )
            assert PROCESSES_HIDDEN in asked.stdout
            assert "environments" in asked.stdout  # the processes themselves are visible
        finally:
            other.kill()
