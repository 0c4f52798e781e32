"""Lines that guides for distributed training name as signs of trouble, each beside a healthy twin."""

from __future__ import annotations

import pytest

from gpuwatch.rules.scoring.score import scan_excerpt
from tests.packs import built_in_rules

STAMP = "2025-03-02 10:00:00"
SIGNS = [
    # (line, class, healthy twin)
    (f"{STAMP} - Rank 0 - rank_0 - ERROR - OOM error occurred", "oom.reported", "OOM errors: 0"),
    ("ERROR: CUDA OOM", "oom.cuda", "INFO: CUDA OOM guard enabled"),
    ("Out of memory error on rank 3", "oom.reported", "no out of memory error on any rank"),
    ("RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB.", "oom.cuda", "allocated 2.00 GiB"),
    (f"{STAMP} | WARNING  | MainProcess  | NCCL communication timeout", "nccl.timeout",
     f"{STAMP} | INFO     | MainProcess  | NCCL communication timeout: 1800 s"),
    ("RuntimeError: NCCL operation timed out", "nccl.timeout", "NCCL operation timeout set to 0:30:00"),
    (f"{STAMP} | ERROR    | MainProcess  | Distributed backend initialization failed", "c10d.init_failed",
     f"{STAMP} | INFO     | MainProcess  | Distributed backend: nccl"),
    ("NCCL error: initialization failed", "nccl.init_failed", "NCCL initialization done"),
    ("RuntimeError: NCCL error: unhandled system error", "nccl.system_error", "NCCL version 2.21.5"),
    ("Configuration errors:\n  - model.hidden_size must be divisible by model.num_heads", "config.invalid",
     "Configuration errors: 0"),
    ("KeyError: 'module.layer.weight'", "ckpt.mismatch", "loaded 'module.layer.weight'"),
    ("RuntimeError: Error(s) in loading state_dict for Decoder:", "ckpt.mismatch", "loading state_dict done"),
    ("ModuleNotFoundError: No module named 'src'", "env.import", "Importing module named 'src'"),
    ("FORCED SINGLE GPU MODE - Using GPU 0 only", "launch.single_gpu", "Mode: MULTI-GPU"),
    (f"{STAMP} | WARNING  | MainProcess  | GPU 1 utilization low: 45.2%", "train.low_utilisation",
     "GPU 1 utilization: 92 %"),
    ("WARNING | Slow training detected: 15.1s per step", "train.slow", "Training speed: 0.4s per step"),
    ("Rank 0 <-> Rank 1: FAILED - Connection reset", "c10d.pair_failed", "Rank 0 <-> Rank 1: OK"),
    ("Rank 0 \u2194 Rank 1: FAILED - timed out", "c10d.pair_failed", "Rank 0 \u2194 Rank 1: OK"),
    ("Rank 2: all_gather - FAILED - invalid usage", "c10d.op_failed", "Rank 2: all_gather - OK"),
    ("\u2717 NCCL working? - Error: invalid usage", "check.failed", "\u2713 NCCL working?"),
    ("Token indices sequence length is longer than the specified maximum sequence length for this model "
     "(700 > 512). Running this sequence through the model will result in indexing errors", "data.too_long",
     "maximum sequence length for this model: 512"),
    ("Gradient norm: inf", "num.grad_nan", "Gradient norm: 0.91"),
    ("Gradient norm: nan", "num.grad_nan", "Gradient norm: 1e-3"),
    ("\u26a0\ufe0f  High communication overhead!", "train.communication_bound",
     "Communication overhead: 0.12x computation"),
    ("Communication overhead: 0.45x computation", "train.communication_bound",
     "Communication: 3.20 ms (12.0%)"),
    ("\u26a0\ufe0f  Significant load imbalance detected!", "train.imbalance", "Load Balance Analysis:"),
    ("\u26a0\ufe0f  Memory imbalance: 34.5%", "train.imbalance", "  Imbalance: 4.0%"),
]  # fmt: skip


@pytest.mark.parametrize(("line", "name", "twin"), SIGNS)
def test_a_sign_of_trouble_is_found_with_its_class_and_its_healthy_counterpart_is_not(
    line: str, name: str, twin: str
) -> None:
    """Document 002, lines 60, 259, 265 and 266; document 004, line 569."""
    found = {finding["rule"]: finding for finding in scan_excerpt(built_in_rules(), line.split("\n"))}
    assert name in found, line
    assert found[name]["severity"] != "info"
    assert {each["rule"] for each in scan_excerpt(built_in_rules(), [twin])} <= {"job.loss_sign"}


def test_the_list_below_a_refused_configuration_belongs_to_the_finding() -> None:
    lines = [
        "Configuration errors:",
        "  - hidden_size must be divisible by num_heads",
        "  - lr is negative",
        "x",
    ]
    (finding,) = [each for each in scan_excerpt(built_in_rules(), lines) if each["rule"] == "config.invalid"]
    assert set(lines[:3]) <= set(finding["lines"])


def test_a_pair_that_fails_names_both_ranks() -> None:
    """Document 004, line 473."""
    (finding,) = scan_excerpt(built_in_rules(), ["Rank 4 <-> Rank 6: FAILED - Connection reset"])
    assert (finding["rank"], finding["fields"]["peer_rank"]) == (4, 6)
