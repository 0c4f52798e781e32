"""Session folders as document 002 prints them."""

# ruff: noqa: E501  lines as the document prints them

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

MAIN = """\
14:30:22 | INFO  | 🚀 TRAINING SESSION STARTED
14:30:22 | INFO  | Session ID: training_20241206_143022
14:30:22 | INFO  | Mode: MULTI-GPU
14:30:22 | INFO  | GPU Count: 2
14:30:22 | INFO  | Model: unsloth/qwen-7b-qlora

📡 MULTI-GPU CONFIGURATION:
  • Accelerator processes: 2
  • Current process rank: 0
  • Mixed precision: bf16
  • GPU 0: NVIDIA RTX 4090 (24.0GB)
  • GPU 1: NVIDIA RTX 4090 (24.0GB)

Step   50/1000 ( 5.0%) | Loss: 2.1234 | LR: 1.50e-04 | Speed: 2.5 steps/s | ETA: 6.3min
  └─ Metrics: step_duration: 0.400, samples_per_second: 5.0
Step  100/1000 (10.0%) | Loss: 1.9876 | LR: 1.40e-04 | Speed: 2.5 steps/s | ETA: 6.0min
  └─ Metrics: step_duration: 0.380, samples_per_second: 5.3

📊 EVALUATION RESULTS:
  • eval_loss: 1.8765
  • eval_perplexity: 6.5432
"""
MULTIGPU = """\
2024-12-06 14:30:25 | INFO     | MainProcess  | Distributed backend: nccl
2024-12-06 14:30:25 | INFO     | MainProcess  | World size: 2
2024-12-06 14:30:25 | INFO     | MainProcess  | Local rank: 0

2024-12-06 14:30:26 | INFO     | MainProcess  | Communication | training_start | Rank 0
2024-12-06 14:30:45 | INFO     | MainProcess  | Multi-GPU Step 20 | Processes: 2 | Local rank: 0 | Process index: 0
2024-12-06 14:30:45 | INFO     | MainProcess  | Communication | gradient_sync | Rank 0 | Size: 45.67MB | Duration: 12.34ms | Bandwidth: 3701.46MB/s
2024-12-06 14:30:46 | INFO     | MainProcess  | Communication | gradient_sync | Rank 0 | Size: 45.67MB | Duration: 12.34ms | Bandwidth: 3701.46MB/s
2024-12-06 14:31:46 | ERROR    | MainProcess  | Distributed backend initialization failed
2024-12-06 14:31:47 | WARNING  | MainProcess  | NCCL communication timeout
"""
PERFORMANCE = """\
2024-12-06 14:32:15 | INFO     | MainProcess  | Performance | Step 100 | Avg step time: 0.380s | Throughput: 10.5 samples/s | Total batch size: 4
2024-12-06 14:32:15 | INFO     | MainProcess  | GPU 0 | Utilization: 90.0% | Memory: 75.0% | Temperature: 71C | Power: 320.0W
2024-12-06 14:32:25 | INFO     | MainProcess  | GPU 0 | Utilization: 80.0% | Memory: 77.0% | Temperature: 73C | Power: 310.0W
2024-12-06 14:32:15 | WARNING  | MainProcess  | GPU 1 utilization low: 45.2%
2024-12-06 14:32:16 | WARNING  | MainProcess  | Slow training detected: 15.1s per step
"""
SINGLE, MULTI = "training_20241206_140000", "training_20241206_143022"


def write_session(logs: Path, name: str, summary: dict[str, Any] | None = None, **kinds: str) -> Path:
    """A session folder with a summary and the logs that are given by their kind."""
    folder = logs / name
    folder.mkdir(parents=True, exist_ok=True)
    if summary is not None:
        facts = {"format": "gpuwatch-session", "version": 1, "id": name, **summary}
        (folder / f"{name}_summary.json").write_text(json.dumps(facts))
    for kind, text in kinds.items():
        (folder / f"{name}_{kind}.log").write_text(text)
    return folder


def gpu(index: int, average: float, peak: float, memory: float) -> dict[str, Any]:
    return {
        "index": index,
        "utilization_avg_pct": average,
        "utilization_peak_pct": peak,
        "memory_avg_pct": memory,
    }


def write_documented_pair(logs: Path) -> None:
    """The two sessions that document 002 compares (lines 191 to 208)."""
    write_session(
        logs,
        SINGLE,
        {
            "mode": "single",
            "gpu_count": 1,
            "duration_s": 1200.5,
            "steps": 1000,
            "final_loss": 1.2345,
            "gpus": [gpu(0, 85.2, 98.1, 78.3)],
        },
    )
    write_session(
        logs,
        MULTI,
        {
            "mode": "multi",
            "gpu_count": 2,
            "world_size": 2,
            "duration_s": 650.2,
            "steps": 1000,
            "final_loss": 1.2340,
            "gpus": [gpu(0, 82.1, 95.2, 75.1), gpu(1, 81.8, 94.8, 74.9)],
            "communication": [
                {
                    "operation": "gradient_sync",
                    "count": 45,
                    "bytes_total": 3_025_350_000,
                    "bytes_avg": 67_230_000,
                    "time_total_s": 6.502,
                    "ranks": [0],
                },
                {"operation": "training_start", "count": 1},
            ],
        },
    )


def event(step: int, tag: str, value: float) -> bytes:
    """A record as a writer of version 2 writes it: the scalar is a tensor."""
    tensor = b"\x08\x01" + b"\x22\x04" + struct.pack("<f", value)
    inner = b"\x0a" + bytes([len(tag)]) + tag.encode() + b"\x42" + bytes([len(tensor)]) + tensor
    summary = b"\x0a" + bytes([len(inner)]) + inner
    message = (
        b"\x09"
        + struct.pack("<d", 1e9 + step)
        + b"\x10"
        + bytes([step])
        + b"\x2a"
        + bytes([len(summary)])
        + summary
    )
    return struct.pack("<QI", len(message), 0) + message + b"\0" * 4


def wandb_file(rows: Sequence[dict[str, Any]]) -> bytes:
    """A `.wandb` file with these rows of history, each in one whole record of less than 64 kB."""
    found = b":W&B" + struct.pack("<HB", 0xBEE1, 0)
    for row in rows:
        items = b"".join(
            field(1, field(2, name.encode()) + field(16, json.dumps(value).encode()))
            for name, value in row.items()
        )
        record = field(2, items)
        found += struct.pack("<IHB", 0, len(record), 1) + record
    return found


def field(number: int, data: bytes) -> bytes:
    """A field of a protobuf message with a length."""
    return varint(number << 3 | 2) + varint(len(data)) + data


def varint(value: int) -> bytes:
    found = b""
    while value > 0x7F:
        found += bytes([value & 0x7F | 0x80])
        value >>= 7
    return found + bytes([value])
