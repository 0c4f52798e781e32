"""Steps of `gpuwatch.telemetry` in the title, `--output` and the summary of a run."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from gpuwatch.cli.run.monitoring.library_log import LibraryLog
from gpuwatch.telemetry.session.folder import create_session_folder
from gpuwatch.telemetry.session.logs import SessionLogs
from tests.cli.running import gpuwatch

SCRIPT = """\
from gpuwatch.telemetry import TelemetrySettings, TelemetryTracker

with TelemetryTracker(TelemetrySettings(log_interval_steps=1)) as telemetry:
    telemetry.start(total_steps=6)
    for step in range(1, 7):
        telemetry.step(step, loss=1 / step, learning_rate=0.05)
        if step % 2:
            print(f"step {step}/6 loss: {1 / step:.4f}", flush=True)
"""


def test_steps_are_read_as_they_come(tmp_path: Path) -> None:
    folder = create_session_folder(tmp_path, 1_000.0)
    log = LibraryLog(folder.main_log, "n")
    assert list(log.new_steps(1.0)) == []
    logs = SessionLogs(folder)
    assert logs.claim()
    logs.step({"step": 1, "total_steps": 9, "loss": 0.12345678, "step_time_s": 0.25})
    logs.step({"step": 2, "total_steps": 9, "loss": float("nan")})
    with folder.main_log.open("a") as file:
        file.write("Step    3/9 (33.3%) | Loss: 0.1")
    first, second = log.new_steps(2.0)
    assert (first["step"], first["total_steps"], first["loss"]) == (1, 9, 0.12345678)
    assert (first["step_time_s"], first["time"]) == (0.25, 2.0)
    assert (second["step"], second["loss"]) == (2, None)
    assert list(log.new_steps(3.0)) == []
    logs.close()


def test_the_output_has_each_step_of_the_library_once(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    done = gpuwatch("run", "--output", "o.jsonl", "--", sys.executable, "train.py", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in (tmp_path / "o.jsonl").read_text().splitlines()]
    assert sorted(row["step"] for row in rows if row["kind"] == "step") == [1, 2, 3, 4, 5, 6]
    (session,) = (tmp_path / "logs").glob("training_*")
    summary = json.loads((session / f"{session.name}_summary.json").read_text())
    part = json.loads((session / "parts" / "rank_0000.json").read_text())
    assert summary["step_time_s"] == part["step_time_s"]
