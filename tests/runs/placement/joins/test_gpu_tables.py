"""Which GPU a rank uses, from the tables that tools print and from what processes see."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuwatch.runs.placement.joins.gpu_tables import gpu_table
from tests.runs.placement.joins.places import STEPS, place

SMI_PROCESSES = [
    "| Processes:                                                                            |",
    "|  GPU   GI   CI        PID   Type   Process name                            GPU Memory |",
    "|=======================================================================================|",
    *(
        f"|    {gpu}   N/A  N/A     {pid}      C   python                                    7012MiB |"
        for gpu, pid in ((0, 33181), (1, 33100), (3, 33154))
    ),
]
ROCM_BUSES = [f"GPU[{n}]\t\t: PCI Bus: 0000:{bus}:00.0" for n, bus in enumerate(("1B", "3D", "9D", "DD"))]
AMD = "Nov  9 03:04:31 mi7 kernel: amdgpu 0000:9d:00.0: amdgpu: GPU reset begin!"


@pytest.mark.parametrize(
    ("lines", "name", "index"),
    [
        (ROCM_BUSES, "0000:9d:00", 2),
        (["|   3  NVIDIA A100-SXM4-80GB   On  | 00000000:4C:00.0 Off |    2 |"], "0000:4c:00", 3),
        (["GPU 1: NVIDIA H100 80GB HBM3 (UUID: GPU-5a1e0c3e-9c0b-1111-2222-333344445555)"],
         "GPU-5a1e0c3e-9c0b-1111-2222-333344445555", 1),
        (["index, name, pci.bus_id", "0, NVIDIA L4, 00000000:00:03.0", "1, NVIDIA L4, 00000000:00:04.0"],
         "0000:00:04", 1),
        (["GPU: 4", "    BDF: 0000:9d:00.0", "    UUID: 04ff74a1"], "0000:9d:00", 4),
        (["| 6      | Name: NVIDIA H100     |", "|        | PCI Bus ID: 00000000:DA:00.0 |"],
         "0000:da:00", 6),
        (["| 5     910B3    | OK   | 96.1 |", "| 0              | 0000:C1:00.0 | 0  |", "NPU"],
         "0000:c1:00", 5),
    ],
)  # fmt: skip
def test_tools_list_gpus_by_address(lines: list[str], name: str, index: int) -> None:
    table = gpu_table([line.encode() for line in lines])
    assert table is not None
    assert table.addresses[name] == index


@pytest.mark.parametrize(
    "lines",
    [
        ["step 1 loss 2.0"], ["GPU 3 is hot"], ["| 3 | 4 | GPU |"], ["GPU[0] : Temperature: 40"],
        ["gpu_index, name, pci.bus_id", "0, NVIDIA L4, 00000000:00:03.0"],  # no column has the name `index`
        ["pci.bus_id, name, an index of it", "00000000:00:03.0, NVIDIA L4, 0"],
        ["index, x.pci.bus_id, name", "0, 00000000:00:03.0, NVIDIA L4"],
        ["index, pci.bus_id", f"{'1' * 250}, 00000000:00:03.0"],
    ],
)  # fmt: skip
def test_other_lines_list_none(lines: list[str]) -> None:
    assert gpu_table([line.encode() for line in lines]) is None


def test_the_processes_of_a_tool_give_a_rank_its_gpu(tmp_path: Path) -> None:
    banners = [f"I am rank {4 + n} (pid {33100 + 27 * n}) of 8 on hop2" for n in range(4)]
    killed = "Nov  9 03:04:31 hop2 kernel: python[33154]: segfault at 10 ip 00007f1 sp 00007f2 error 4"
    files = {"train.log": [*banners, *STEPS], "smi.txt": SMI_PROCESSES, "kern.log": [killed]}
    assert place(tmp_path, files) == (6, "hop2", 3)


def test_a_process_on_two_gpus_has_none() -> None:
    rows = [*SMI_PROCESSES, SMI_PROCESSES[-1].replace("    3   N/A", "    5   N/A")]
    table = gpu_table([line.encode() for line in rows])
    assert table is not None
    assert table.processes == {33181: 0, 33100: 1}


@pytest.mark.parametrize(
    ("devices", "expected"),
    [
        (["0", "1", "2", "3"], (2, "mi7", 2)),
        (["3", "2", "1", "0"], (1, "mi7", 2)),
        (["0", "0", "0", "0"], (None, "mi7", 2)),  # as containers number them
    ],
)
def test_the_address_of_a_kernel_line_leads_to_the_rank_that_sees_the_gpu(
    tmp_path: Path, devices: list[str], expected: tuple[int | None, str, int | None]
) -> None:
    banners = [f"rank {n}/4 on mi7: HIP_VISIBLE_DEVICES={devices[n]}" for n in range(4)]
    files = {"train.log": [*banners, *STEPS], "rocm.txt": ROCM_BUSES, "kern.log": [AMD]}
    assert place(tmp_path, files) == expected
