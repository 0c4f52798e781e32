"""Sessions from what other tools leave: Oumi, HF Trainer, TensorBoard, W&B, torchrun and Slurm logs."""

from __future__ import annotations

import json
import math
import os
import struct
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from gpuwatch.report.sessions.comparison import session_facts
from gpuwatch.runs.sessions.find import find_sessions
from gpuwatch.runs.sessions.model.session import TrainingSession
from gpuwatch.runs.sessions.model.summary import SessionProfile
from gpuwatch.runs.sessions.sources.rank_logs import read_rank_logs
from tests.cli.running import environment
from tests.runs.sessions.written import event, field, wandb_file

TIMER = {
    "count": 100,
    "mean": 0.5,
    "median": 0.4,
    "std_dev": 0.1,
    "min": 0.3,
    "max": 0.9,
    "total": 50.0,
    "percentage": 50.0,
}
STATE = {
    "global_step": 30,
    "max_steps": 60,
    "epoch": 1.5,
    "train_batch_size": 4,
    "log_history": [
        {"step": 10, "epoch": 0.5, "loss": 2.0, "grad_norm": 1.5, "learning_rate": 1e-4},
        {"step": 20, "epoch": 1.0, "loss": 1.5, "grad_norm": 1.2, "learning_rate": 5e-5},
        {"step": 20, "eval_loss": 1.7, "eval_runtime": 3.0},
        {"step": 30, "train_runtime": 15.0, "train_samples_per_second": 8.0, "train_loss": 1.75},
    ],
}


def one(path: Path) -> TrainingSession:
    (session,) = find_sessions((str(path),), path / "none").sessions
    return session


def points(session: TrainingSession, name: str, writer: int = 0) -> list[tuple[int | None, float]]:
    return [(point.step, point.value) for point in session.curves.named(name)[writer].points]


def write(path: Path, facts: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(facts if isinstance(facts, str) else json.dumps(facts))


def oumi_summary(step_mean: float) -> dict[str, Any]:
    return {
        "hostname": "gpu-001",
        "total_time": 100.0,
        "timers": {"steps": {**TIMER, "mean": step_mean}, "microsteps": TIMER},
        "cuda_timers": {"forward": TIMER},
        "gpu_memory": [{"allocated": 1024.0, "reserved": 2048.0}, {"allocated": 512.0, "reserved": 2048.0}],
    }


def test_an_oumi_output_folder_is_a_session(tmp_path: Path) -> None:
    """Document 001, lines 96 to 100 and 307 to 323: logs/, telemetry/ and the telemetry callback's files."""
    run = tmp_path / "my_run"
    metrics = {"loss": 1.25, "learning_rate": 5e-5, "epoch": 1.0, "train_step_mfu": 0.41, "train_mfu": 0.35}
    metrics |= {"step": 100, "total_steps": 400}
    write(run / "telemetry" / "telemetry_callback_metrics_rank0000.json", metrics)
    write(
        run / "telemetry" / "telemetry_callback_all_ranks.json",
        {"rank0000": oumi_summary(0.5), "rank0001": oumi_summary(0.7)},
    )
    write(run / "telemetry" / "telemetry_callback_gpu_temperature_summary.json", {"rank0000": {}})
    write(run / "logs" / "rank_0000.log", "nothing of interest\n")
    summary = one(run).summary
    assert (summary.id, summary.mode, summary.world_size) == ("my_run", "multi", 2)
    assert (summary.final_loss, summary.mfu_step, summary.mfu_overall) == (1.25, 0.41, 0.35)
    assert (summary.last_step, summary.total_steps, summary.best_loss) == (100, 400, None)
    assert (summary.steps, summary.duration_s, summary.steps_per_s) == (100, 100.0, 1.0)
    assert [rank.step_time_mean_s for rank in summary.ranks or ()] == [0.5, 0.7]
    assert (summary.ranks or [])[0].peak_memory_bytes == 1 << 30
    assert {name: timer.kind for name, timer in (summary.timers or {}).items()} == {
        "steps": "cpu",
        "microsteps": "cpu",
        "forward": "cuda",
    }


def test_the_last_trainer_state_is_read(tmp_path: Path) -> None:
    """Document 001, lines 28 to 30: the trainer's own files in its output_dir."""
    write(tmp_path / "checkpoint-9" / "trainer_state.json", {"global_step": 9, "log_history": []})
    write(tmp_path / "checkpoint-30" / "trainer_state.json", STATE)
    session = one(tmp_path)
    summary = session.summary
    assert (summary.steps, summary.total_steps, summary.duration_s, summary.status) == (
        30,
        60,
        15.0,
        "completed",
    )
    assert points(session, "loss") == [(10, 2.0), (20, 1.5)]
    assert points(session, "learning_rate") == [(10, 1e-4), (20, 5e-5)]
    assert (summary.evaluation, summary.samples_per_s) == ({"eval_loss": 1.7, "eval_runtime": 3.0}, 8.0)


@pytest.mark.parametrize(
    "raw", ["", "[]", '{"log_history": 7}', '{"log_history": [1, {"step": "x", "loss": "nan"}]}']
)
def test_a_damaged_trainer_state_breaks_nothing(tmp_path: Path, raw: str) -> None:
    write(tmp_path / "trainer_state.json", raw)
    assert one(tmp_path).problems


def test_torchrun_folders_are_those_of_ranks(tmp_path: Path) -> None:
    """Document 000 to 004: `logs/rank_0`; torchrun --log-dir."""
    for rank in range(2):
        lines = [f"[rank{rank}]: step {step}/5 loss: {3 - step / 2 + rank}" for step in range(1, 6)]
        write(tmp_path / "none_x1" / "attempt_0" / str(rank) / "stdout.log", "\n".join(lines) + "\n")
    session = one(tmp_path)
    assert [curve.writer for curve in session.curves.named("loss")] == ["rank 0", "rank 1"]
    assert (session.summary.world_size, session.summary.last_step, session.summary.mode) == (2, 5, "multi")


def test_a_slurm_log_is_a_session(tmp_path: Path) -> None:
    log = tmp_path / "slurm-4711.out"
    lines = [f"2024-12-06 14:30:{step:02} step {step}/9 loss: {3 - step / 4}" for step in range(1, 10)]
    lines.append("Profiler | step 5 | computation: 12.340 ms | communication: 3.210 ms | other: 1.000 ms")
    write(log, "\n".join(lines) + "\n")
    session = one(log)
    assert (session.name, session.summary.last_step, session.summary.final_loss) == ("slurm-4711", 9, 0.75)
    assert session.summary.profile == SessionProfile(
        step=5, computation_ms=12.34, communication_ms=3.21, other_ms=1.0
    )
    assert session.summary.duration_s == 8.0


@pytest.mark.long
def test_event_files_of_tensorboard_are_read(tmp_path: Path) -> None:
    """Document 004, lines 663 to 675: runs/rank_N, Loss/train, GPU/utilization, Communication/time."""
    pytest.importorskip("tensorboard")
    writer_of = pytest.importorskip("torch.utils.tensorboard").SummaryWriter
    for rank in range(2):
        writer = writer_of(str(tmp_path / f"rank_{rank}"))
        for step in range(3):
            writer.add_scalar("Loss/train", 2.0 - step + rank, step)
            writer.add_scalar("GPU/utilization", 90.0 + step, step)
            writer.add_scalar("Communication/time", 0.25, step)
        writer.close()
    session = one(tmp_path)
    assert [curve.writer for curve in session.curves.named("loss")] == ["rank 0", "rank 1"]
    assert points(session, "loss", 1) == [(0, 3.0), (1, 2.0), (2, 1.0)]
    assert points(session, "gpu_utilization_pct") == [(0, 90.0), (1, 91.0), (2, 92.0)]
    assert points(session, "communication_s") == [(step, 0.25) for step in range(3)]


def test_an_event_file_that_is_cut_off_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    raw = b"".join(event(step, "train/loss", 3.0 - step) for step in range(3))
    for size in range(len(raw)):
        (tmp_path / "events.out.tfevents.1.host").write_bytes(raw[:size])
        curves = one(tmp_path).curves.named("loss")
        values = [point.value for point in curves[0].points] if curves else []
        assert values == [3.0, 2.0, 1.0][: len(values)]
        assert len(values) >= size // (len(raw) // 3)
    (tmp_path / "events.out.tfevents.1.host").write_bytes(raw + b"\xff" * 64)
    assert points(one(tmp_path), "loss") == [(0, 3.0), (1, 2.0), (2, 1.0)]


WANDB = """\
import wandb
run = wandb.init(project="p", name="n", config={"lr": 0.1, "batch": {"size": 8}, "api_key": 1})
for step in range(3):
    wandb.log({"train/loss": 2.0 - step, "train/learning_rate": 0.1, "eval/loss": 3.0}, step=step)
wandb.finish()
"""


@pytest.mark.long
def test_an_offline_run_of_wandb_is_read(tmp_path: Path) -> None:
    """Document 001, lines 53 to 60: enable_wandb."""
    pytest.importorskip("wandb")
    env = environment(WANDB_MODE="offline", WANDB_SILENT="true", WANDB_DIR=str(tmp_path))
    subprocess.run([sys.executable, "-c", WANDB], cwd=tmp_path, env=env, check=True, timeout=100)
    session = one(tmp_path / "wandb" if (tmp_path / "wandb").exists() else tmp_path)
    summary = session.summary
    assert (summary.name, summary.status, summary.last_step) == ("n", "completed", 2)
    assert points(session, "loss") == [(0, 2.0), (1, 1.0), (2, 0.0)]
    assert (summary.configuration or {})["batch"] == {"size": 8}
    whole = next(tmp_path.rglob("*.wandb"))
    raw = whole.read_bytes()
    for size in range(0, len(raw), max(1, len(raw) // 60)):
        whole.write_bytes(raw[:size])
        one(tmp_path)
    whole.write_bytes(os.urandom(4096))
    assert one(tmp_path).problems


@pytest.mark.parametrize("at", [math.inf, -math.inf, math.nan, 1e308, -1e308])
def test_times_that_no_clock_shows_are_unknown(tmp_path: Path, at: float) -> None:
    raw = event(1, "train/loss", 3.0).replace(struct.pack("<d", 1e9 + 1), struct.pack("<d", at))
    (tmp_path / "events.out.tfevents.1.host").write_bytes(raw)
    (tmp_path / "run-a.wandb").write_bytes(wandb_file([{"_step": 1, "_timestamp": at, "train/loss": 2.0}]))
    json.dumps(session_facts(one(tmp_path)), allow_nan=False)


def test_cuda_timers_alone_are_timers(tmp_path: Path) -> None:
    write(tmp_path / "telemetry_callback_rank0000.json", {"cuda_timers": {"steps": TIMER}})
    statistics = one(tmp_path).summary.step_time_s
    assert statistics is not None
    assert statistics.mean == 0.5


def test_keys_of_wandb_in_each_other_are_read_to_a_depth(tmp_path: Path) -> None:
    deep = field(1, field(2, b"a") * 10_000 + field(16, b"1"))
    flat = field(1, field(2, b"lr") + field(16, b"0.1"))
    secret = field(1, field(2, b"hf_token") + field(16, b'"hunter2"'))
    record = field(5, deep + flat + secret)
    raw = b":W&B" + struct.pack("<HB", 0xBEE1, 0) + struct.pack("<IHB", 0, len(record), 1) + record
    (tmp_path / "run-a.wandb").write_bytes(raw)
    assert one(tmp_path).summary.configuration == {"lr": 0.1, "hf_token": "***"}


def test_pieces_of_a_wandb_record_without_an_end_are_read_once(tmp_path: Path) -> None:
    piece = struct.pack("<IHB", 0, 0, 3)
    block = piece * (32_768 // len(piece)) + b"\0" * (32_768 % len(piece))
    costs = []
    for blocks in (2, 16):
        raw = b":W&B" + struct.pack("<HB", 0xBEE1, 0) + block[7:] + block * blocks
        (tmp_path / "run-a.wandb").write_bytes(raw)
        began = time.process_time()
        one(tmp_path)
        costs.append(time.process_time() - began)
    assert costs[1] < 12 * costs[0] + 0.05


@pytest.mark.parametrize("name", ["train/global_step", "trainer/global_step", "global_step"])
def test_the_trainers_own_step_counts_in_wandb(tmp_path: Path, name: str) -> None:
    """Document 001, line 53: HF Trainer and Lightning log some steps only; W&B counts calls of `log`."""
    rows: list[dict[str, Any]] = [
        {"_step": call, "_timestamp": 1e9 + call, "train/loss": 2.0 - call, name: 10 * (call + 1)}
        for call in range(3)
    ]
    rows.append({"_step": 3, "_timestamp": 1e9 + 4, "eval/loss": 1.5})
    (tmp_path / "run-a.wandb").write_bytes(wandb_file(rows))
    session = one(tmp_path)
    assert points(session, "loss") == [(10, 2.0), (20, 1.0), (30, 0.0)]
    assert points(session, "eval_loss") == [(30, 1.5)]
    assert (session.summary.steps, session.summary.last_step) == (30, 30)


def test_logs_of_wandb_itself_are_no_logs_of_ranks(tmp_path: Path) -> None:
    (tmp_path / "run-a.wandb").write_bytes(wandb_file([{"_step": 1, "train/loss": 1.0}]))
    for name in ("debug.log", "debug-core.log", "debug-internal.log", "debug-cli.root.log"):
        write(tmp_path / "logs" / name, "RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB\n")
    assert not one(tmp_path).summary.warnings
    write(tmp_path / "files" / "output.log", "RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB\n")
    assert [each.class_id for each in one(tmp_path).summary.warnings or ()] == ["oom.cuda"]


def test_signs_of_progress_are_no_warnings(tmp_path: Path) -> None:
    """The end that HF Trainer logs is a sign that the job has finished, of severity info."""
    end = "{'train_runtime': '5.788', 'train_loss': '2.444', 'epoch': '2.4'}"
    write(tmp_path / "rank_0.log", f"step 1/1 loss: 2.5\n{end}\n")
    assert not one(tmp_path).summary.warnings


def test_evaluations_that_a_trainer_prints_are_kept(tmp_path: Path) -> None:
    """Document 002, lines 40 to 42, and what HF Trainer prints, with its bar and quoted numbers."""
    bar = "\r 50%|#####     | 30/60 [00:03<00:03, 9.80it/s]"
    lines = [
        f"{bar}                    {{'loss': '2.5', 'learning_rate': '0.005', 'epoch': '1'}}",
        f"{bar}\x1b[A{{'eval_loss': '2.25', 'eval_accuracy': 0.5, 'eval_runtime': '0.04', 'epoch': '1'}}\r",
        "Step   60/60 (100.0%) | Loss: 2.0 | LR: 1.00e-04 | Speed: 2.5 steps/s | ETA: 0.0min",
        "EVALUATION RESULTS:",
        "  * eval_loss: 1.8765",
        "  * eval_perplexity: 6.5432",
        "done",
    ]
    write(tmp_path / "rank_0.log", "\n".join(lines) + "\n")
    session = one(tmp_path)
    found = [(each.step, each.results) for each in session.summary.evaluations or ()]
    assert found == [
        (30, {"eval_loss": 2.25, "eval_accuracy": 0.5, "eval_runtime": 0.04}),
        (60, {"eval_loss": 1.8765, "eval_perplexity": 6.5432}),
    ]
    assert session.summary.evaluation == found[-1][1]
    assert points(session, "eval_loss") == [(30, 2.25), (60, 1.8765)]
    assert points(session, "learning_rate") == [(30, 0.005), (60, 0.0001)]


@pytest.mark.parametrize("text", ["'eval_" * 50_000, "EVALUATION RESULTS\n" * 20_000, "{'eval_x': 'nan'}\n"])
def test_what_only_looks_like_an_evaluation_is_none(tmp_path: Path, text: str) -> None:
    write(tmp_path / "rank_0.log", f"step 1/1 loss: 1.0\n{text}")
    assert not one(tmp_path).summary.evaluations


@pytest.mark.parametrize(
    ("text", "size"),
    [("", None), ("Rank: 0 | Local rank: 0 | World size: 8 | Host: a", 8), ("World size: 1", 1)],
)
def test_a_log_of_rank_0_alone_is_no_single_gpu_session(tmp_path: Path, text: str, size: int | None) -> None:
    """Document 002, lines 48 and 66: most trainers log on rank 0 only."""
    write(tmp_path / "rank_0.log", f"{text}\nstep 1/5 loss: 2.5\nstep 2/5 loss: 2.0\n")
    summary = one(tmp_path).summary
    assert (summary.world_size, [each.rank for each in summary.ranks or ()]) == (size, [0])
    assert summary.mode == {None: None, 1: "single", 8: "multi"}[size]


def test_a_folder_without_a_training_is_reported(tmp_path: Path) -> None:
    (tmp_path / "a.bin").write_bytes(b"\0")
    found = find_sessions((str(tmp_path),), tmp_path)
    assert (found.sessions, len(found.unknown)) == ([], 1)


def test_a_nan_loss_and_the_error_that_came_first_are_reported(tmp_path: Path) -> None:
    (tmp_path / "console_a.log").write_text(
        "step 1/5 loss: 2.5\nstep 2/5 loss: nan\nstep 3/5 loss: nan\n"
        "[rank0]: Traceback (most recent call last):\n"
        '[rank0]:   File "/x/t.py", line 7, in <module>\n'
        "[rank0]: RuntimeError: [pair.cc:534] Connection closed by peer [127.0.0.1]:3456\n"
        "[rank1]: Traceback (most recent call last):\n"
        '[rank1]:   File "/x/t.py", line 9, in <module>\n'
        "[rank1]: RuntimeError: boom\n"
    )
    summary = read_rank_logs([tmp_path], tmp_path).summary
    assert (summary.final_loss, summary.non_finite_loss_step, summary.best_loss) == (None, 2, 2.5)
    assert summary.error == "RuntimeError: boom"
