"""Memory in logs, as DeepSpeed (its issue 4700), Megatron-LM (its pull request 5662) and torch write it."""

from __future__ import annotations

import io
from collections import defaultdict
from pathlib import Path

import pytest

from gpuwatch.diagnose.traces.memory_verdict import judge_memory
from gpuwatch.report.trace.memory import print_memory
from gpuwatch.runs.memory.log_lines import GIB, MIB, MemoryLines
from gpuwatch.runs.memory.memory_files import FoundMemory, gather_memory
from gpuwatch.runs.memory.rank_memory import RankMemory

DEEPSPEED = """\
[2023-11-17 11:03:46,600] [INFO] [utils.py:802:see_memory_usage] DeepSpeedZeRoOffload initialize [begin]
[2023-11-17 11:03:46,601] [INFO] [utils.py:803:see_memory_usage] MA 26.38 GB         Max_MA 26.38 GB         CA 26.71 GB         Max_CA 27 GB
[2023-11-17 11:03:46,602] [INFO] [utils.py:810:see_memory_usage] CPU Virtual Memory:  used = 322.57 GB, percent = 17.1%
Parameter Offload: Total persistent parameters: 483840 in 105 params
[2023-11-17 11:04:06,576] [INFO] [utils.py:802:see_memory_usage] DeepSpeedZeRoOffload initialize [end]
[2023-11-17 11:04:06,577] [INFO] [utils.py:803:see_memory_usage] MA 0.58 GB         Max_MA 26.38 GB         CA 26.71 GB         Max_CA 27 GB
[2023-11-17 11:04:27,162] [INFO] [stage3.py:479:_setup_for_real_optimizer] optimizer state initialized
Rank: 0 partition count [1] and sizes[(6049700000, False)]
"""  # noqa: E501 - as they are written
MEGATRON = (
    "[Rank {rank}] (after 20 iterations) memory (MB) | allocated: 3270.16 | max allocated: {peak} "
    "| reserved: 6406.00 | max reserved: 6406.00"
)


def read(text: str, rank: int | None = None) -> list[RankMemory]:
    lines = MemoryLines("log", rank)
    lines.read(text.splitlines())
    return lines.found


def test_deepspeed_lines_give_the_last_sizes_the_peak_and_zero() -> None:
    (memory,) = read(DEEPSPEED, 0)
    assert (memory.rank, memory.source) == (0, "deepspeed")
    assert memory.allocated == round(0.58 * GIB)
    assert memory.peak == round(26.38 * GIB)
    assert memory.peak_at == "DeepSpeedZeRoOffload initialize [begin]"
    assert memory.peak_reserved == 27 * GIB
    assert memory.host_used == round(322.57 * GIB)
    assert len(memory.zero) == 3


PARTITION = "Rank: {} partition count [{}] and sizes[({}, False), (1024, False)] \n"


def test_partitions_of_the_optimizer_state_are_equal(tmp_path: Path) -> None:
    """Document 000, line 99. The line is that of DeepSpeed's stage_1_and_2.py."""
    for ranks, codes in (
        ([("4, 4", 312_500_000)] * 4, []),
        ([("4, 4", 312_500_000)] * 3 + [("4, 4", 400_000_000)], [("memory.partition", 3)]),
        ([("4, 4", 312_500_000)] * 3 + [("8, 4", 312_500_000)], [("memory.partition", 3)]),
    ):
        path = tmp_path / "train.log"
        path.write_text(DEEPSPEED + "".join(PARTITION.format(n, *each) for n, each in enumerate(ranks)))
        found = gather_memory([path])
        assert [(each.rank, each.elements) for each in found.partitions][1:2] == [(1, (312_500_000, 1024))]
        flags = judge_memory(found.ranks, found.partitions).flags
        assert [(flag.code, flag.rank) for flag in flags] == codes
    out = io.StringIO()
    print_memory(found, judge_memory(found.ranks, found.partitions), out)
    assert "312,500,000" in out.getvalue()


def test_a_message_belongs_to_the_next_sizes_of_its_rank() -> None:
    sizes = "[rank{}]: MA {} GB         Max_MA {} GB         CA 9.0 GB         Max_CA 9 GB"
    said = "[rank{}]: [2024-01-01 00:00:00,000] [INFO] [utils.py:802:see_memory_usage] {}"
    lines = [
        said.format(0, "after step"),
        said.format(1, "before step"),
        sizes.format(1, 5, 6),
        sizes.format(0, 3, 4),
    ]
    lines += [sizes.format(0, 7, 8)]  # nothing was announced
    found = {each.rank: (each.peak_at, each.peak) for each in read("\n".join(lines))}
    assert found == {0: (None, 8 * GIB), 1: ("before step", 6 * GIB)}


@pytest.mark.parametrize("digits", [5_000, 4_200, 16, 15])
def test_numbers_beyond_any_machine_are_unknown(digits: int) -> None:
    number = "9" * digits
    head = "|                  PyTorch CUDA memory summary, device ID 0                 |"
    rows = [f"| Allocated memory      | {number} {unit} | {number} {unit} |" for unit in ("KiB", "PiB")]
    counts = f"|            CUDA OOMs: {number}            |        cudaMalloc retries: {number}         |"
    for each in read("\n".join([head, *rows, counts]), 0):
        assert each.allocated is None or each.allocated < 1 << 61
        assert each.out_of_memory is None or each.out_of_memory < 10**15
    assert read(DEEPSPEED.replace("26.38", "9" * 20), 0)[0].peak in (None, round(0.58 * GIB))


def test_many_ranks_are_reported_in_a_bounded_text() -> None:
    found = FoundMemory(read("\n".join(MEGATRON.format(rank=rank, peak=5000) for rank in range(1_000))))
    out = io.StringIO()
    print_memory(found, judge_memory(found.ranks), out)
    assert len(found.ranks) == 1_000
    assert len(out.getvalue().splitlines()) < 600


def test_megatron_lines_name_their_ranks_and_unequal_peaks_are_flagged() -> None:
    """Document 004, line 365."""
    found = read("\n".join(MEGATRON.format(rank=rank, peak=5000 + 1000 * rank) for rank in range(3)))
    assert [(each.rank, each.peak) for each in found] == [(0, 5000 * MIB), (1, 6000 * MIB), (2, 7000 * MIB)]
    (flag,) = judge_memory(found).flags
    assert (flag.code, flag.rank) == ("memory.imbalance", 2)
    assert flag.value == pytest.approx(2000 / 6000)


def test_the_table_of_the_guides_is_read() -> None:
    """Document 004, line 355."""
    rows = "  Rank    Allocated     Reserved         Peak\n" + "-" * 48 + "\n"
    rows += "     0        12.31        15.20        14.00\n"
    rows += "     1         1.00         2.00         3.00\nend\n 7 1 1 1"
    found = read(rows)
    assert [(each.rank, each.peak) for each in found] == [(0, 14_000_000_000), (1, 3_000_000_000)]


def summary(**stats: int) -> str:
    """Printed by torch itself, from made up statistics."""
    memory = pytest.importorskip("torch.cuda.memory")
    known: dict[str, int] = defaultdict(int)
    known.update({name.replace("__", "."): value for name, value in stats.items()})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(memory, "memory_stats", lambda device=None: known)  # noqa: ARG005 - torch's signature
        return str(memory.memory_summary(1))


@pytest.mark.long
def test_torch_s_own_summary_is_read() -> None:
    text = summary(
        allocated_bytes__all__current=3 << 30,
        allocated_bytes__all__peak=5 << 30,
        reserved_bytes__all__current=8 << 30,
        reserved_bytes__all__peak=9 << 30,
        inactive_split_bytes__all__current=2 << 30,
        num_ooms=1,
        num_alloc_retries=4,
    )
    (memory,) = read("\n".join(f"[rank3]: {line}" for line in text.splitlines()))
    assert (memory.rank, memory.device) == (3, 1)
    assert (memory.allocated, memory.peak) == (3 * GIB, 5 * GIB)
    assert (memory.reserved, memory.peak_reserved) == (8 * GIB, 9 * GIB)
    assert (memory.out_of_memory, memory.retries) == (1, 4)
    assert memory.fragmentation == 0.25


SUMMARY = """\
|                  PyTorch CUDA memory summary, device ID 0                 |
|            CUDA OOMs: 1            |        cudaMalloc retries: 4         |
| Allocated memory      |   3072 MiB |   5120 MiB |      0 B   |      0 B   |
|       from large pool |      9 MiB |      9 MiB |      0 B   |      0 B   |
| GPU reserved memory   |   8192 MiB |   9216 MiB |      0 B   |      0 B   |
| Non-releasable memory |   2048 MiB |      0 B   |      0 B   |      0 B   |
"""


def test_summaries_of_ranks_that_write_at_a_time_are_kept_apart() -> None:
    other = SUMMARY.replace("5120", "6144")
    pairs = zip(SUMMARY.splitlines(), other.splitlines(), strict=True)
    found = read("\n".join(f"[rank0]: {one}\n[rank1]: {two}" for one, two in pairs))
    assert [(each.rank, each.peak, each.fragmentation) for each in found] == [
        (0, 5120 * MIB, 0.25),
        (1, 6144 * MIB, 0.25),
    ]


def test_a_log_without_memory_is_reported_and_long_lines_cost_little(tmp_path: Path) -> None:
    path = tmp_path / "train.log"
    path.write_bytes(b"loss 2.3\n" * 10 + b"MA memory | " * 500_000)
    found = gather_memory([path])
    assert (found.ranks, len(found.skipped)) == ([], 1)


@pytest.mark.parametrize("lines", [1, 2, 3, 5])
def test_a_summary_that_is_cut_off_is_unknown_and_not_healthy(lines: int) -> None:
    text = SUMMARY.replace("OOMs: 1 ", "OOMs: 0 ").replace("retries: 4", "retries: 0")
    found = read("\n".join(text.splitlines()[:lines]), 2)
    assert [(flag.code, flag.rank) for flag in judge_memory(found).flags] == [("memory.incomplete", 2)]


def test_a_log_that_states_zero_alone_tells_of_no_size() -> None:
    found = read("DeepSpeed ZeRO stage 3 initialized", 0)
    assert [flag.code for flag in judge_memory(found).flags] == ["memory.incomplete"]


def test_the_rank_in_front_of_a_line_is_no_place_of_the_peak() -> None:
    line = MEGATRON.format(rank=3, peak=5000)
    (with_step,) = read(line)
    (without,) = read(line[: line.index("]") + 1] + line[line.index(" memory (MB)") :])
    assert (with_step.rank, without.rank, without.peak_at) == (3, 3, None)
    assert "Rank" not in (with_step.peak_at or "")
