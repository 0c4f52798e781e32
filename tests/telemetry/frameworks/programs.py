"""Training scripts with a framework, in processes of their own: its imports stay out of the test process."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gpuwatch.telemetry.session.folder import SessionFolder
from tests.end_to_end.cluster import ROOT

OFFLINE = {
    "WANDB_MODE": "offline",
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "OMP_NUM_THREADS": "1",
}


def need_package(*names: str) -> None:
    """Skip this test where a package of the extra `frameworks` is not installed."""
    missing = [name for name in names if importlib.util.find_spec(name) is None]
    if missing:
        pytest.skip("a package of the extra frameworks is not installed (pip install -e '.[frameworks]')")


def run(folder: Path, code: str, **env: str) -> str:
    """Run a script in a folder; what it prints."""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=folder, check=False,
        env={**os.environ, **OFFLINE, "PYTHONPATH": str(ROOT), **env}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def session_of(folder: Path) -> tuple[SessionFolder, dict[str, Any]]:
    """The one session below `logs`, and its summary."""
    (path,) = (folder / "logs").glob("training_*")
    session = SessionFolder.existing(path)
    return session, json.loads(session.summary_json.read_text())
