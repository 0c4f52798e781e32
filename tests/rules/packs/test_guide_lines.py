"""The lines that the guides print, read as the agent reads them."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from gpuwatch.agent.logs.scanning.scanner import Scanner
from tests.packs import dialects

NOW = 1_733_495_445.0
WORKER = "2024-12-06 14:30:45 | INFO     | MainProcess  | "
METRICS = """\
{
    'loss': 2.1234,
    'learning_rate': 5e-5,
    'epoch': 1.0,
    'tokens_per_second': 156.7,  # Tokens/second
}"""
LINES: dict[str, tuple[str, dict[str, Any]]] = {
    "001 19": (
        "Epoch 1/3: 100%|██████████| 1000/1000 [00:45<00:00, 22.22it/s]",
        {"step": 1000, "total_steps": 1000, "step_time_s": 1 / 22.22, "eta_s": 0, "epoch": 1},
    ),
    "001 20": (METRICS, {"loss": 2.1234, "lr": 5e-5, "epoch": 1.0, "tokens_per_s": 156.7}),
    "002 37": (
        "Step   50/1000 ( 5.0%) | Loss: 2.1234 | LR: 1.50e-04 | Speed: 2.5 steps/s | ETA: 6.3min",
        {"step": 50, "total_steps": 1000, "loss": 2.1234, "lr": 1.5e-4, "step_time_s": 0.4, "eta_s": 378},
    ),
    "002 38": (
        "  └─ Metrics: step_duration: 0.400, samples_per_second: 5.0",
        {"step_time_s": 0.4, "samples_per_s": 5.0},
    ),
    "002 52": (
        f"{WORKER}Multi-GPU Step 20 | Processes: 2 | Local rank: 0 | Process index: 0",
        {"step": 20, "rank": 0},
    ),
    "002 53": (
        f"{WORKER}Communication | gradient_sync | Rank 0 | Size: 45.67MB | Duration: 12.34ms"
        " | Bandwidth: 3701.46MB/s",
        {"rank": 0, "gradient_sync": 0.01234},
    ),
    "002 59": (
        f"{WORKER}Performance | Step 100 | Avg step time: 0.380s | Throughput: 10.5 samples/s"
        " | Total batch size: 4",
        {"step": 100, "step_time_s": 0.38, "samples_per_s": 10.5},
    ),
}
"""Document and line -> the line, and the numbers in it, timers in seconds."""


@pytest.mark.parametrize("line", LINES)
def test_a_line_of_the_guides_is_read(line: str) -> None:
    """Document 001, lines 19 and 20; document 002, lines 37, 38, 52, 53 and 59."""
    text, expected = LINES[line]
    scanner = Scanner(dialects(), "/logs/a.log", itertools.count(1).__next__, None)
    scanner.feed(f"{text}\n".encode(), 0, NOW)
    scanner.end()
    found: dict[str, Any] = {}
    for frame in scanner.progress():
        found.update(frame["fields"] | frame.get("phases_s", {}))
        found.update({name: frame[name] for name in ("rank",) if name in frame})
    assert found == pytest.approx(expected)
