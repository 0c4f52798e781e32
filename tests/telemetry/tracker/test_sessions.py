"""A training script with the tracker, in a process of its own, without torch."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from gpuwatch.telemetry.session.folder import SessionFolder, create_session_folder
from tests.end_to_end.cluster import ROOT

SCRIPT = """
import math, sys, os, signal
from gpuwatch.telemetry import TelemetrySettings, TelemetryTracker
settings = TelemetrySettings(log_interval_steps=10, performance_log_steps=20)
"""
LOOP = """
with TelemetryTracker(settings) as tracker:
    tracker.start(total_steps=100, model_name="tiny", configuration={"lr": 0.1, "api_key": "x1"})
    for step in range(1, 41):
        with tracker.timer("forward"): loss = 5 / step
        if step == 35: END
        tracker.step(step, loss=loss, learning_rate=0.1, samples=4, tokens=64, epoch=step / 40)
        if step == 20:
            with tracker.pause("evaluation"): tracker.evaluation({"eval_loss": 1.25, "note": "x"})
"""


def run(folder: Path, code: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", SCRIPT + code], cwd=folder, env={**os.environ, "PYTHONPATH": str(ROOT), **env},
        check=False, capture_output=True, text=True,
    )  # fmt: skip


def session_of(folder: Path) -> tuple[SessionFolder, dict[str, Any]]:
    (path,) = (folder / "logs").glob("training_*")
    session = SessionFolder.existing(path)
    return session, json.loads(session.summary_json.read_text())


def test_a_training_from_start_to_end(tmp_path: Path) -> None:
    """Document 001, line 30."""
    done = run(tmp_path, LOOP.replace("END", "pass"))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", ""), "the library prints nothing by itself"
    session, summary = session_of(tmp_path)
    assert (summary["status"], summary["mode"], summary["gpu_count"]) == ("completed", "single", 0)
    assert (summary["steps"], summary["last_step"], summary["total_steps"]) == (40, 40, 100)
    assert (summary["final_loss"], summary["best_loss"], summary["epochs"]) == (0.125, 0.125, 1.0)
    assert (summary["evaluation"], summary["evaluations"][0]["step"]) == ({"eval_loss": 1.25}, 20)
    assert summary["configuration"] == {"lr": 0.1, "api_key": "***"}
    assert summary["packages"]["python"].startswith("3.")
    assert summary["model"]["name"] == "tiny"
    assert summary["timers"]["forward"]["count"] == summary["timers"]["steps"]["count"] == 40
    assert summary["ranks"][0]["steps"] == 40
    main = session.main_log.read_text()
    assert main.count("Step ") == 4
    assert "Step   10/100 (10.0%) | Loss: 0.5000 | LR: 1.00e-01 | Speed: " in main
    assert "eval_loss: 1.2500" in main
    performance = re.findall(
        r"Step (\d+) \| Avg step time: 0\.\d+s .* batch size: (\d+)", session.performance_log.read_text()
    )
    assert performance == [("20", "4"), ("40", "4")]
    assert "completed" in session.summary_txt.read_text()


@pytest.mark.parametrize(
    ("end", "status", "error"),
    [
        ("raise ValueError('boom')", "failed", "ValueError: boom"),
        ("raise KeyboardInterrupt", "interrupted", "KeyboardInterrupt"),
        ("sys.exit(3)", "failed", "SystemExit: 3"),
    ],
)
def test_an_exception_ends_the_session_and_goes_on(tmp_path: Path, end: str, status: str, error: str) -> None:
    assert run(tmp_path, LOOP.replace("END", end)).returncode != 0
    _, summary = session_of(tmp_path)
    assert (summary["status"], summary["error"], summary["steps"]) == (status, error, 34)


@pytest.mark.parametrize(("end", "status"), [("raise KeyError", "failed"), ("pass", "completed")])
def test_a_script_that_never_finishes_its_tracker(tmp_path: Path, end: str, status: str) -> None:
    run(
        tmp_path, f"tracker = TelemetryTracker(settings)\nfor _ in range(15): tracker.step(loss=1.0)\n{end}\n"
    )
    _, summary = session_of(tmp_path)
    assert (summary["status"], summary["steps"]) == (status, 15)


def test_a_kill_leaves_the_last_state(tmp_path: Path) -> None:
    run(tmp_path, LOOP.replace("END", "os.kill(os.getpid(), signal.SIGKILL)"))
    session, summary = session_of(tmp_path)
    assert (summary["status"], summary["steps"]) == ("running", 20)
    assert not session.summary_txt.exists()
    assert "Step   30/100" in session.main_log.read_text(), "each line is written when it is logged"


def test_numbers_that_are_none_are_counted_as_warnings(tmp_path: Path) -> None:
    code = """
tracker = TelemetryTracker(settings)
for step in range(1, 21): tracker.step(loss=math.nan if step in (5, 10) else 2.0, grad_norm=math.inf)
"""
    run(tmp_path, code)
    session, summary = session_of(tmp_path)
    counts = {each["class"]: (each["count"], each["severity"]) for each in summary["warnings"]}
    assert counts == {"num.nan_loss": (2, "error"), "num.nan_grad": (2, "error")}
    assert (summary["final_loss"], summary["final_grad_norm"]) == (2.0, None)
    assert "| WARN  | " in session.main_log.read_text()


def test_slow_steps_are_reported(tmp_path: Path) -> None:
    """Document 002, line 259, on a clock of the test."""
    code = """
now = iter(range(0, 100000, 15))
tracker = TelemetryTracker(settings, clock=lambda: float(next(now)))
for step in range(20): tracker.step()
"""
    run(tmp_path, code)
    session, summary = session_of(tmp_path)
    assert [each["class"] for each in summary["warnings"]] == ["perf.slow_step"]
    warning = "WARNING  | MainProcess  | Slow training detected: 15.0s per step"
    assert warning in session.performance_log.read_text()


def test_in_a_run_of_gpuwatch_the_summary_is_not_ours(tmp_path: Path) -> None:
    folder = create_session_folder(tmp_path / "elsewhere", time.time())
    run(tmp_path, LOOP.replace("END", "pass"), GPUWATCH_RUN_DIR=str(folder.path), GPUWATCH_RUN_ID="a" * 32)
    assert not (tmp_path / "logs").exists()
    assert not folder.summary_json.exists()
    part = json.loads(folder.rank_part(0).read_text())
    assert (part["format"], part["rank"], part["steps"], part["final"]) == (
        "gpuwatch-session-part",
        0,
        40,
        True,
    )
    assert "a" * 32 in folder.main_log.read_text()


def test_timers_alone_write_nothing(tmp_path: Path) -> None:
    """Document 001, lines 209 to 234."""
    code = """
telemetry = TelemetryTracker()
with telemetry.cuda_timer("forward_pass"): pass
with telemetry.timer("backward_pass"): pass
telemetry.log_gpu_memory(); telemetry.record_gpu_temperature()
telemetry.print_summary(); telemetry.print_cross_rank_summary()
"""
    done = run(tmp_path, code, PYTHONIOENCODING="ascii")
    assert done.stdout.startswith("Telemetry Summary (")
    assert "forward_pass:" in done.stdout
    assert "Cross-Rank Statistics:" in done.stdout
    assert list(tmp_path.iterdir()) == []


def test_the_files_of_the_callback(tmp_path: Path) -> None:
    """Document 001, lines 308 to 311, during the run and at its end."""
    code = """
import json, pathlib
settings.performance_log_steps, settings.collect_telemetry_for_all_ranks = 10, True
tracker = TelemetryTracker(settings, logs_dir=None, output_dir="out")
for step in range(1, 16): tracker.step(loss=2.0, accuracy=0.5)
print(sorted(path.name for path in pathlib.Path("out").iterdir()))
tracker.finish()
"""
    done = run(tmp_path, code)
    metrics, rank = "telemetry_callback_metrics_rank0000.json", "telemetry_callback_rank0000.json"
    assert done.stdout.strip() == str([metrics, rank]), "flushed while the training runs"
    everything = {path.name: json.loads(path.read_text()) for path in (tmp_path / "out").iterdir()}
    heat = "telemetry_callback_gpu_temperature_summary.json"
    assert set(everything) == {metrics, rank, "telemetry_callback_all_ranks.json", heat}
    assert (everything[metrics]["loss"], everything[metrics]["accuracy"]) == (2.0, 0.5)
    assert everything[rank]["timers"]["steps"]["count"] == 15
    assert list(everything["telemetry_callback_all_ranks.json"]) == ["rank0000"]
    assert not (tmp_path / "logs").exists()


def test_a_folder_that_cannot_be_made_does_not_end_the_training(tmp_path: Path) -> None:
    (tmp_path / "logs").write_text("a file")
    done = run(
        tmp_path,
        "tracker = TelemetryTracker(settings)\nfor _ in range(50): tracker.step(loss=1.0)\nprint('done')",
    )
    assert done.stdout == "done\n"
    assert len(done.stderr.splitlines()) == 1


def test_a_forked_process_does_not_end_the_session(tmp_path: Path) -> None:
    code = """
tracker = TelemetryTracker(settings)
tracker.step(loss=1.0)
if os.fork() == 0: sys.exit(3)
os.wait()
print(json.loads(tracker.recorder.folder.summary_json.read_text())["status"])
"""
    assert run(tmp_path, "import json\n" + code).stdout == "running\n"
    assert session_of(tmp_path)[1]["status"] == "completed"


def test_a_timeout_of_the_communication_is_a_class_of_its_own(tmp_path: Path) -> None:
    """Document 002, line 266."""
    code = """
with TelemetryTracker(settings) as tracker:
    tracker.step(loss=1.0)
    raise RuntimeError("Watchdog caught collective operation timeout: WorkNCCL(OpType=ALLREDUCE) ran")
"""
    run(tmp_path, code)
    session, summary = session_of(tmp_path)
    assert [each["class"] for each in summary["warnings"]] == ["comm.timeout"]
    assert "| WARNING  | MainProcess  | " in session.multigpu_log.read_text()


def test_a_model_that_cannot_be_counted_and_a_forced_single_gpu(tmp_path: Path) -> None:
    """Document 002, line 90."""
    code = """
class Odd:
    def named_parameters(self): raise ValueError("uninitialized")
sys.argv.append("--force-single-gpu")
tracker = TelemetryTracker(settings); tracker.start(Odd()); tracker.step(loss=1.0)
"""
    assert "uninitialized" in run(tmp_path, code).stderr
    session, summary = session_of(tmp_path)
    assert (summary["steps"], summary["forced_single_gpu"], summary["model"]["parameters"]) == (1, True, None)
    assert "FORCED SINGLE GPU MODE" in session.main_log.read_text()


MODEL = """
class Parameter:
    shape, dtype, requires_grad = (8, 4), "torch.float32", True
    def numel(self): return 32
    def element_size(self): return 4
class Model:
    def named_parameters(self): return [("layers.0.weight", Parameter())]
    def parameters(self): return [Parameter()]
    def __str__(self): return "Model(layers=1)"
with TelemetryTracker(TelemetrySettings(log_model_summary=SUMMARY)) as tracker:
    tracker.start(Model())
    tracker.step(1, loss=1.0)
"""


@pytest.mark.parametrize("summary", [True, False])
def test_the_model_is_logged_where_it_is_asked_for(tmp_path: Path, summary: bool) -> None:
    """Document 001, line 47: log_model_summary."""
    done = run(tmp_path, MODEL.replace("SUMMARY", str(summary)))
    assert (done.returncode, done.stderr) == (0, "")
    session, _ = session_of(tmp_path)
    text = session.main_log.read_text()
    assert ("layers.0.weight" in text, "Model(layers=1)" in text) == (summary, summary)
