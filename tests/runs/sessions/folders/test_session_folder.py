"""Session folders: the logs of document 002 are read, and a partial or broken folder still shows the rest."""

from __future__ import annotations

import json
from pathlib import Path
from typing import get_args

import pytest

from gpuwatch.report.sessions.details import detail_facts, training_rows
from gpuwatch.runs.sessions.find import find_sessions
from gpuwatch.runs.sessions.model.session import TrainingSession
from gpuwatch.runs.sessions.model.summary import SessionProfile, Status
from gpuwatch.telemetry.tracing.profiling import TimeBreakdown
from tests.runs.sessions.written import (
    MAIN,
    MULTI,
    MULTIGPU,
    PERFORMANCE,
    write_documented_pair,
    write_session,
)


def only(logs: Path) -> TrainingSession:
    found = find_sessions((), logs)
    assert len(found.sessions) == 1
    return found.sessions[0]


def logs_of(tmp_path: Path) -> TrainingSession:
    write_session(tmp_path, MULTI, None, main=MAIN, multigpu=MULTIGPU, performance=PERFORMANCE)
    return only(tmp_path)


def test_the_head_of_a_main_log_is_read(tmp_path: Path) -> None:
    """Document 002, lines 24 to 35: session id, mode, GPU count, model, configuration.

    Document 002, line 48.
    """
    one = logs_of(tmp_path).summary
    assert (one.id, one.mode, one.gpu_count, one.world_size) == (MULTI, "multi", 2, 2)
    assert one.model is not None
    assert (one.model.name, one.mixed_precision) == ("unsloth/qwen-7b-qlora", "bf16")
    assert [gpu.memory_total_bytes for gpu in one.gpus or ()] == [24 * 10**9] * 2
    assert {(gpu.name or "").split()[-1] for gpu in one.gpus or ()} == {"4090"}


def test_steps_with_their_metrics_are_curves(tmp_path: Path) -> None:
    """Document 002, lines 37 and 38: step, total, loss, learning rate, speed, step duration, samples/s."""
    session = logs_of(tmp_path)
    points = {
        name: [(each.step, each.value) for each in curves[0].points] for name, curves in session.curves.each()
    }
    assert points["loss"] == [(50, 2.1234), (100, 1.9876)]
    assert points["learning_rate"] == [(50, 1.5e-4), (100, 1.4e-4)]
    assert points["samples_per_s"] == [(50, 5.0), (100, 5.3)]
    one = session.summary
    assert (one.last_step, one.total_steps, one.final_loss) == (100, 1000, 1.9876)
    assert one.step_time_s is not None
    assert one.step_time_s.p50 == pytest.approx(0.39)


def test_evaluation_results_are_kept(tmp_path: Path) -> None:
    """Document 002, lines 40 to 42."""
    session = logs_of(tmp_path)
    assert session.summary.evaluation == {"eval_loss": 1.8765, "eval_perplexity": 6.5432}
    assert [curve.points[0].value for curve in session.curves.named("eval_loss")] == [1.8765]


def test_communication_is_summed_by_operation(tmp_path: Path) -> None:
    """Document 002, lines 48 to 53 and 154: backend, sizes, durations; operations without a size too.

    Document 002, line 150.
    """
    one = logs_of(tmp_path).summary
    start, sync = one.communication or []
    assert one.backend == "nccl"
    assert (start.operation, start.count, start.bytes_total) == ("training_start", 1, None)
    assert (sync.operation, sync.count, sync.bytes_total) == ("gradient_sync", 2, 91_340_000)
    assert sync.bandwidth_avg_bps == pytest.approx(45.67e6 / 12.34e-3)


def test_the_newest_profiled_step_is_kept(tmp_path: Path) -> None:
    profiled = [TimeBreakdown(12.34, 3.21, other).line(step) for step, other in ((10, 1.0), (18, 2.5))]
    added = "".join(f"2024-12-06 14:40:00 | INFO     | MainProcess  | {line}\n" for line in profiled)
    write_session(tmp_path, MULTI, None, main=MAIN, multigpu=MULTIGPU, performance=PERFORMANCE + added)
    session = only(tmp_path)
    rows = dict(training_rows(session.summary))
    assert rows["profiled step"].startswith("18: ")
    assert session.summary.profile == SessionProfile(
        step=18, computation_ms=12.34, communication_ms=3.21, other_ms=2.5
    )


def test_gpu_samples_become_averages_and_peaks(tmp_path: Path) -> None:
    """Document 002, line 198: average and peak utilization, average memory."""
    gpus = logs_of(tmp_path).summary.gpus or []
    assert (gpus[0].utilization_avg_pct, gpus[0].utilization_peak_pct, gpus[0].memory_avg_pct) == (85, 90, 76)
    assert gpus[1].utilization_avg_pct is None


def test_warnings_are_counted_by_class(tmp_path: Path) -> None:
    """Document 002, lines 60, 258, 259, 265 and 266."""
    one = logs_of(tmp_path).summary
    assert {each.class_id: each.count for each in one.warnings or ()} == {
        "comm.init_failed": 1,
        "comm.timeout": 1,
        "perf.gpu_utilization_low": 1,
        "perf.slow_step": 1,
    }


def test_mojibake_is_read_as_the_text_that_it_was(tmp_path: Path) -> None:
    """Document 002 itself is mojibake: what is matched is ASCII."""
    broken = MAIN.encode().decode("mac_roman")
    write_session(tmp_path, MULTI, None, main=broken)
    session = only(tmp_path)
    assert session.summary.evaluation == {"eval_loss": 1.8765, "eval_perplexity": 6.5432}
    assert session.summary.mixed_precision == "bf16"
    assert len(session.curves.named("samples_per_s")[0].points) == 2


def test_times_after_midnight_are_of_the_next_day(tmp_path: Path) -> None:
    text = "23:59:50 | INFO  | TRAINING SESSION STARTED\n00:00:20 | INFO  | TRAINING SESSION ENDED: failed\n"
    write_session(tmp_path, "training_20241206_235950", None, main=text)
    one = only(tmp_path).summary
    assert (one.duration_s, one.status) == (30.0, "failed")


@pytest.mark.parametrize("raw", [b"", b"{", b'{"steps": 10', b"[1]", b"\xff\xfe{}", b"[" * 100_000, b"NaN"])
def test_a_damaged_summary_is_named_and_the_logs_are_shown(tmp_path: Path, raw: bytes) -> None:
    folder = write_session(tmp_path, MULTI, None, main=MAIN)
    (folder / f"{MULTI}_summary.json").write_bytes(raw)
    session = only(tmp_path)
    assert session.summary.final_loss == 1.9876
    assert any(f"{MULTI}_summary.json" in problem for problem in session.problems)


def test_values_of_wrong_types_are_unknown_and_named(tmp_path: Path) -> None:
    facts = {
        "steps": "many",
        "duration_s": [1],
        "gpus": [{"index": "x", "name": "A"}, 7],
        "mode": "both",
        "world_size": 2,
    }
    write_session(tmp_path, MULTI, facts)
    session = only(tmp_path)
    one = session.summary
    assert (one.steps, one.duration_s, one.world_size) == (None, None, 2)
    assert [gpu.name for gpu in one.gpus or ()] == ["A"]
    named = {problem.split(": ")[1] for problem in session.problems if "summary.json" in problem}
    assert named == {"steps", "duration_s", "gpus[0].index", "gpus[1]", "mode"}


def test_impossible_numbers_are_unknown(tmp_path: Path) -> None:
    steps = "1" + "0" * 400
    text = (
        f'{{"steps": {steps}, "duration_s": -5, "start": 1e30, "end": -1e30, "gpu_count": -2,'
        ' "final_loss": "nan", "best_loss": 1e999, "gpus": {"a": 1},'
        ' "communication": [{"operation": "x", "count": 2, "bytes_total": 1e308}]}'
    )
    folder = write_session(tmp_path, MULTI, None, main=MAIN.replace("2.1234", "1e999"))
    (folder / f"{MULTI}_summary.json").write_text(text)
    session = only(tmp_path)
    one = session.summary
    assert (one.steps, one.gpu_count, one.final_loss, one.best_loss) == (100, 2, 1.9876, 1.9876)
    assert one.start is not None
    assert (one.communication or [])[0].bytes_total is None
    assert json.dumps(detail_facts(session), allow_nan=False)


def test_control_characters_do_not_pass(tmp_path: Path) -> None:
    write_session(tmp_path, MULTI, {"name": "\x1b]0;x\x07", "configuration": {"\x1b[2J": "\x1b[1m"}})
    one = only(tmp_path).summary
    assert "\x1b" not in str(one)


def test_secrets_that_others_stored_are_masked(tmp_path: Path) -> None:
    stored = {
        "configuration": {
            "api_key": "sk-abcdefghijklmnopqrst", "db_url": "postgres://u:hunter2secret@h/db", "lr": 0.1,
            "nested": {"password": "hunter2pass"}, "max_tokens": 512,
        },
        "command": ["train.py", "--hf-token", "hunter2arg", "--lr", "0.1"],
        "environment": {"WANDB_API_KEY": "hunter2env", "RANK": "0"},
    }  # fmt: skip
    write_session(tmp_path, MULTI, stored)
    one = only(tmp_path).summary
    assert "hunter2" not in str(one) and "sk-abcdef" not in str(one)
    assert one.configuration is not None and one.environment is not None
    assert (one.configuration["lr"], one.configuration["max_tokens"]) == (0.1, 512)
    assert (one.environment["RANK"], (one.command or [])[-2:]) == ("0", ["--lr", "0.1"])


def test_each_missing_file_is_named(tmp_path: Path) -> None:
    write_session(tmp_path, MULTI, {"steps": 3})
    text = " ".join(only(tmp_path).problems)
    assert [
        kind for kind in ("main", "multigpu", "performance", "summary") if f"{MULTI}_{kind}." in text
    ] == [
        "main",
        "multigpu",
        "performance",
    ]


def test_an_id_a_folder_and_a_renamed_folder_lead_to_a_session(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    write_documented_pair(logs)
    (logs / MULTI).rename(tmp_path / "kept")
    found = find_sessions(("training_20241206_140000", str(tmp_path / "kept"), "nothing"), logs)
    assert [each.name for each in found.sessions] == ["training_20241206_140000", MULTI]
    assert len(found.unknown) == 1


def test_wrong_types_in_a_summary_are_reported_without_python(tmp_path: Path) -> None:
    wrong = {
        "status": "odd",
        "model": 3,
        "gpus": 4,
        "ranks": [5],
        "timers": 6,
        "configuration": 7,
        "steps": "x",
    }
    write_session(tmp_path, MULTI, wrong)
    problems = [each for each in only(tmp_path).problems if "not " in each]
    assert len(problems) == len(wrong)
    assert not [each for each in problems if "typing" in each or "gpuwatch." in each or "class" in each]
    assert any(all(status in each for status in get_args(Status)) for each in problems)
