"""The log lines of document 002, lines 24 to 60, character by character."""

from __future__ import annotations

import pytest

from gpuwatch.telemetry.session import lines

FACTS = {
    "id": "training_20241206_143022", "mode": "multi", "gpu_count": 2, "world_size": 2,
    "mixed_precision": "bf16",
    "model": {"name": "unsloth/qwen-7b-qlora"},
    "gpus": [{"index": n, "name": "NVIDIA RTX 4090", "memory_total_bytes": 24.0e9} for n in (0, 1)],
}  # fmt: skip


def test_the_header() -> None:
    document = [
        "14:30:22 | INFO  | 🚀 TRAINING SESSION STARTED",
        "14:30:22 | INFO  | Session ID: training_20241206_143022",
        "14:30:22 | INFO  | Mode: MULTI-GPU",
        "14:30:22 | INFO  | GPU Count: 2",
        "14:30:22 | INFO  | Model: unsloth/qwen-7b-qlora",
    ]
    assert [lines.main_record("14:30:22", "INFO", text) for text in lines.header(FACTS)] == document
    forced = "FORCED SINGLE GPU MODE - Using GPU 0 only"
    assert forced in lines.header({"mode": "single", "forced_single_gpu": True})


def test_the_configuration() -> None:
    document = [
        "",
        "📡 MULTI-GPU CONFIGURATION:",
        "  • Accelerator processes: 2",
        "  • Current process rank: 0",
        "  • Mixed precision: bf16",
        "  • GPU 0: NVIDIA RTX 4090 (24.0GB)",
        "  • GPU 1: NVIDIA RTX 4090 (24.0GB)",
        "",
    ]
    assert lines.configuration_block(FACTS, 0) == document


@pytest.mark.parametrize(
    ("values", "line"),
    [
        (
            {
                "step": 50,
                "total_steps": 1000,
                "loss": 2.1234,
                "learning_rate": 1.5e-4,
                "steps_per_s": 2.5,
                "eta_s": 378,
            },
            "Step   50/1000 ( 5.0%) | Loss: 2.1234 | LR: 1.50e-04 | Speed: 2.5 steps/s | ETA: 6.3min",
        ),
        ({"step": 7, "loss": float("nan")}, "Step    7 | Loss: nan"),
        ({"step": 7, "steps_per_s": 0.0123}, "Step    7 | Speed: 0.0123 steps/s"),
    ],
)
def test_a_step(values: dict[str, float], line: str) -> None:
    assert lines.step_line(values) == line


def test_metrics_of_a_step() -> None:
    metrics = {"step_duration": 0.4, "samples_per_second": 5.0, "grad_norm": None}
    assert lines.metrics_line(metrics) == "  └─ Metrics: step_duration: 0.400, samples_per_second: 5.0"
    assert lines.metrics_line({"loss": 2.123456789}) == "  └─ Metrics: loss: 2.123456789"


def test_an_evaluation() -> None:
    assert lines.evaluation_block({"eval_loss": 1.8765, "eval_perplexity": 6.5432})[1:-1] == [
        "📊 EVALUATION RESULTS:",
        "  • eval_loss: 1.8765",
        "  • eval_perplexity: 6.5432",
    ]


def test_records_of_the_two_other_logs() -> None:
    text = lines.communication_line("gradient_sync", 0, size_bytes=45.67e6, duration_s=12.34e-3)
    assert lines.worker_record("2024-12-06 14:30:45", "INFO", 0, text) == (
        "2024-12-06 14:30:45 | INFO     | MainProcess  | "
        "Communication | gradient_sync | Rank 0 | Size: 45.67MB | Duration: 12.34ms | Bandwidth: 3700.97MB/s"
    )  # the document's 3701.46 comes from an unrounded size
    small = lines.communication_line("all_reduce", 0, size_bytes=4, duration_s=0.02)
    assert small.endswith("Size: 0.000004MB | Duration: 20.00ms | Bandwidth: 0.000200MB/s")
    assert lines.communication_line("training_start", 1, extra="Processes: 2") == (
        "Communication | training_start | Rank 1 | Processes: 2"
    )
    performance = lines.performance_line(100, 0.38, 10.5, 4)
    document = (
        "2024-12-06 14:32:15 | INFO     | MainProcess  | Performance | Step 100 | Avg step time: 0.380s | "
        "Throughput: 10.5 samples/s | Total batch size: 4"
    )
    assert lines.worker_record("2024-12-06 14:32:15", "INFO", 0, performance) == document
    assert lines.worker_record("2024-12-06 14:32:15", "WARNING", 3, "x") == (
        "2024-12-06 14:32:15 | WARNING  | Rank 3       | x"
    )


def test_a_reading_of_a_gpu() -> None:
    sample = {"index": 0, "utilization_pct": 85.2, "memory_pct": 78.3, "temperature_c": 71, "power_w": None}
    assert lines.gpu_line(sample, "gpu-003") == (
        "GPU 0 | Utilization: 85.2% | Memory: 78.3% | Temperature: 71C | Node: gpu-003"
    )
