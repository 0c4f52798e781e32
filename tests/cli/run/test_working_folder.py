"""No process of gpuwatch imports what lies in the working folder, which another user may have filled."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from gpuwatch.own_process import module_command, worker_context

PACKAGE = Path(__file__).parents[3] / "gpuwatch"
SHADOWED = (
    "json",
    "msgspec",
    "multiprocessing",
    "random",
    "runpy",
    "select",
    "struct",
    "zstandard",
    "gpuwatch/__init__",
)
WAIT_S = 120.0


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """A folder with modules that leave a file when they are imported."""
    folder = tmp_path / "work"
    (folder / "gpuwatch").mkdir(parents=True)
    for name in SHADOWED:
        (folder / f"{name}.py").write_text(f"open({str(tmp_path / 'imported')!r}, 'a').write('{name} ')\n")
    return folder


@pytest.mark.parametrize("search_path", [None, ":", "."])
def test_a_module_of_the_working_folder_is_not_imported(hostile: Path, search_path: str | None) -> None:
    """An empty entry of PYTHONPATH is the working folder, too."""
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    if search_path is not None:
        env["PYTHONPATH"] = search_path
    command = module_command("gpuwatch.cli.run.monitoring.monitor")
    done = subprocess.run(command, cwd=hostile, env=env, input=b"", timeout=WAIT_S, check=False)
    assert not (hostile.parent / "imported").exists()
    assert done.returncode in (0, 1)


@pytest.mark.skipif(sys.version_info < (3, 11), reason="Python 3.10 has no setting for it")
def test_a_worker_that_is_spawned_imports_nothing_either(
    hostile: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on systems without a fork that is safe."""
    monkeypatch.setenv("PYTHONSAFEPATH", "")
    monkeypatch.chdir(hostile)
    worker = worker_context("spawn").Process(target=os.getpid)
    worker.start()
    worker.join(WAIT_S)
    assert not (hostile.parent / "imported").exists()
    assert worker.exitcode == 0


def test_the_module_gets_its_arguments(tmp_path: Path) -> None:
    command = module_command("gpuwatch.diagnose.hang.flight_recorder.isolated", str(tmp_path), "x")
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, timeout=WAIT_S, check=False)
    assert b"'x'" in done.stderr.splitlines()[-1]  # no number of a process


def test_every_module_is_started_so() -> None:
    started = re.compile(r"sys\.executable,\s*\"-m\"")
    spawned = re.compile(r"multiprocessing\.(?:get_context|Process|Pool)\b|ProcessPoolExecutor")
    texts = {file.name: file.read_text() for file in PACKAGE.rglob("*.py") if file.name != "own_process.py"}
    assert [name for name, text in texts.items() if started.search(text) or spawned.search(text)] == []
