"""Titles and steps name the kind of accelerator that the line is about, not NVIDIA's."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gpuwatch.diagnose.model.device_kind import device_kind, steps_for
from gpuwatch.rules.load import load_packs
from tests.runs.ended_logs import report

OF_NVIDIA = re.compile(r"nvidia|(?<!torch\.)CUDA(?!_VISIBLE)|\bXid", re.IGNORECASE)
LINES = {
    "TPU": (
        "XlaRuntimeError: RESOURCE_EXHAUSTED: XLA:TPU compile permanent error. Ran out of memory in memory "
        "space hbm. Used 17.34G of 15.48G hbm.",
        "RuntimeError: TPU out of memory",
    ),
    "HPU": (
        "RuntimeError: [Rank:2] FATAL ERROR :: MODULE:PT_DEVMEM Allocation failed for size::469762048",
        "RuntimeError: HPU out of memory",
    ),
    "NPU": ("RuntimeError: NPU out of memory. Tried to allocate 2.00 GiB (NPU 3; 60.97 GiB total capacity)",),
    "XPU": (
        "torch.OutOfMemoryError: XPU out of memory. Tried to allocate 2.00 GiB. ",
        "RuntimeError: Native API failed. Native API returns: 40 (UR_RESULT_ERROR_OUT_OF_DEVICE_MEMORY)",
    ),
    "HIP": (
        "torch.OutOfMemoryError: HIP out of memory. Tried to allocate 48.00 GiB.",
        "RuntimeError: HIP error: out of memory",
        "RuntimeError: HIP error: invalid device function",
    ),
    "Neuron": ("1:2 [17] ERROR  TDRV:dmem_alloc_internal   Failed to alloc DEVICE memory: 3221225472",),
    "MPS": ("RuntimeError: MPS backend out of memory (MPS allocated: 17.2 GB). Tried to allocate 2.1 GB",),
}  # fmt: skip


@pytest.mark.parametrize(("kind", "line"), [(kind, line) for kind, lines in LINES.items() for line in lines])
def test_an_incident_names_the_kind_of_its_device(tmp_path: Path, kind: str, line: str) -> None:
    (tmp_path / "rank_3.log").write_text(f"2026-03-04 10:00:00 INFO step 1\n{line}\n")
    (incident,) = report(tmp_path).incidents
    assert incident.cause is not None
    for text in (incident.cause.title, *incident.do, *incident.settle):
        assert not OF_NVIDIA.search(text), text
    assert kind in incident.cause.title or "CUDA" not in load_packs().by_id[incident.code].title
    assert not OF_NVIDIA.search(incident.headline.partition(kind)[0])


@pytest.mark.parametrize(
    "line",
    [
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 3",
        "RuntimeError: CUDA error: out of memory (HIP_VISIBLE_DEVICES is not set)",
        "No GPU/TPU found, falling back to CPU",
        "CUDA MPS server is out of memory",
        "the ship hipped",
    ],
)
def test_other_lines_keep_the_words_of_their_rule(line: str) -> None:
    assert device_kind(line) is None


def test_no_rule_gives_a_step_of_nvidia_for_another_device() -> None:
    kinds = [
        kind for line in (lines[0] for lines in LINES.values()) if (kind := device_kind(line)) is not None
    ]
    assert {kind.name for kind in kinds} == set(LINES)
    rules = [rule for rule in load_packs().by_id.values() if rule.id.startswith(("oom.", "cuda."))]
    for rule in rules:
        for kind in kinds:
            for step in steps_for(rule.do, kind):
                assert not OF_NVIDIA.search(step), (rule.id, kind.name, step)
