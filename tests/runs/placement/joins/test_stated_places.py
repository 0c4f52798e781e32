"""Ranks, nodes and GPUs that a line states beside the words of its failure."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.corpus.score import scanned

STEPS = [
    f"2026-10-12 03:{n // 20:02}:{n * 3 % 60:02} INFO step {n}/900 loss {4 / n:.4f}" for n in range(1, 200)
]
OOM = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU {} has a total capacity of"
    " 79.11 GiB of which 1.10 GiB is free."
)
OLD_XID = "Oct 11 20:10:11 cn7 kernel: NVRM: Xid (PCI:0000:1b:00): 31, pid=99120, name=python, Ch 00000008"


def place(folder: Path, files: dict[str, list[str]]) -> tuple[int | None, str | None, int | None]:
    """Return rank, node and GPU of the first incident."""
    for name, lines in files.items():
        (folder / name).write_text("\n".join(lines) + "\n")
    first = scanned(folder)["incidents"][0]
    return first["rank"], first["node"], first["gpu"]


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (["04:09:47 13/11/26 R12/16 FATAL cusolverDnSgesvd failed: CUSOLVER_STATUS_INTERNAL_ERROR",
          "04:09:52 13/11/26 R00/16 ERROR peer closed the connection",
          "04:09:52 13/11/26 R03/16 ERROR peer closed the connection"], (12, None, None)),
        (["(Worker[rank=10] pid=8810, ip=10.6.0.5) RuntimeError: CUDA error: an illegal instruction was"
          " encountered"],
         (10, "10.6.0.5", None)),
        (["CRITICAL local rank 3 (global 11) on cn5: torch.AcceleratorError: CUDA error: all CUDA-capable"
          " devices are busy or unavailable"], (11, "cn5", None)),
        (["MPI Rank 3: EXCEPTION occurred: CUDA failure 2: out of memory ; GPU=3 ; hostname=phl41"],
         (3, "phl41", 3)),
        (["Training failed on worker rank 5 (ip=10.0.0.4, pid=950): ValueError: Input contains NaN"],
         (5, "10.0.0.4", None)),
        (["flux-shell[1]: task 5 (host cn21) Killed", "terminate called after throwing 'std::runtime_error'",
          "what():  CUDA error: out of memory", "flux-shell[1]: task 5 (host cn21) Killed"],
         (5, "cn21", None)),
    ],
)  # fmt: skip
def test_a_line_states_its_place(
    tmp_path: Path, lines: list[str], expected: tuple[int | None, str | None, int | None]
) -> None:
    assert place(tmp_path, {"train.log": [*STEPS, *lines]}) == expected


@pytest.mark.parametrize(("device", "gpu"), [(3, 3), (5, None), (0, None)])
def test_the_device_of_a_joined_rank_is_its_gpu_if_it_fits(
    tmp_path: Path, device: int, gpu: int | None
) -> None:
    lines = [
        *STEPS,
        "Uncaught exception on rank 11.",
        "Traceback (most recent call last):",
        OOM.format(device),
    ]
    assert place(tmp_path, {"train.log": lines}) == (11, None, gpu)


def test_the_end_of_an_earlier_jobs_process_explains_nothing(tmp_path: Path) -> None:
    lines = [*STEPS, "[rank2]: Traceback (most recent call last):", "[rank2]: KeyError: 'lr'"]
    assert place(tmp_path, {"train.log": lines, "kern.log": [OLD_XID]})[0] == 2
