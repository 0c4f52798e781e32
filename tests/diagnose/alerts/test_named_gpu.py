"""The GPU that a rank's own line calls its device."""

from __future__ import annotations

import msgspec
import pytest

from gpuwatch.diagnose.alerts.placement.named_gpu import named_gpu
from gpuwatch.fleet.jobs.places import RankPlace
from gpuwatch.wire import Finding


def finding_of(line: str, file: str, rank: int | None) -> Finding:
    known = {"rule": "cuda.unknown", "severity": "error", "id": 1, "offset": 0, "at": 0.0, "t": 0.0, "seq": 1}
    return msgspec.convert({**known, "file": file, "lines": [line], "rank": rank}, Finding)


@pytest.mark.parametrize(
    ("line", "file", "rank", "gpu"),
    [
        ("[worker 6 | cuda:6] CUDA error", "a.log", 6, 6),
        ("Rank 11, node n3, device 3, iteration 2300", "a.log", 11, 3),
        ("CUDA error", "train_device3_rank11.log", 11, 3),
        ("NPU out of memory (NPU 5; 60.97 GiB", "a.log", 13, 5),
        ("CUDA error on device 0", "a.log", 8, None),
        ("CUDA error on device 2", "a.log", 5, None),
        ("copy from cuda:1 to cuda:5", "a.log", 5, None),
        ("CUDA error on device 2", "a.log", None, None),
    ],
)
def test_a_device_that_fits_the_rank_is_its_gpu(
    line: str, file: str, rank: int | None, gpu: int | None
) -> None:
    assert named_gpu(finding_of(line, file, rank), None, live=False) == gpu
    assert named_gpu(finding_of(line, file, rank), None, live=True) is None


def test_a_local_rank_of_another_number_disproves_it() -> None:
    finding = finding_of("CUDA error on device 3", "a.log", 11)
    assert named_gpu(finding, RankPlace(11, "n1", local_rank=5), live=False) is None
