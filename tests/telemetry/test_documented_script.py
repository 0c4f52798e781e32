"""The script of docs/telemetry.md runs as it stands there, and gpuwatch reads what it leaves."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

from tests.end_to_end.cluster import ROOT
from tests.parts import need_torch

SCRIPT = re.compile(r"<!-- the test suite runs this script -->\n```python\n(.*?)```", re.DOTALL)


def test_a_stranger_copies_the_script(tmp_path: Path) -> None:
    need_torch()
    (found,) = SCRIPT.findall((ROOT / "docs" / "telemetry.md").read_text())
    (tmp_path / "train.py").write_text(found)
    env = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "train.py"], cwd=tmp_path, env=env, check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    (session,) = (tmp_path / "logs").glob("training_*")
    summary = json.loads((session / f"{session.name}_summary.json").read_text())
    assert (summary["status"], summary["steps"], summary["model"]["name"]) == ("completed", 200, "mlp")
    assert set(summary["timers"]) >= {"data", "forward_pass", "backward_pass", "steps", "evaluation"}
    argv = [
        sys.executable,
        "-m",
        "gpuwatch",
        "scan",
        "--json",
        str(session),
        str(tmp_path / "logs" / "ranks"),
    ]
    scanned = subprocess.run(argv, env=env, check=False, capture_output=True, text=True)
    report = json.loads(scanned.stdout)
    assert scanned.returncode == 0, scanned.stdout
    assert (report["outcome"]["step"], report["outcome"]["total_steps"]) == (200, 200)
