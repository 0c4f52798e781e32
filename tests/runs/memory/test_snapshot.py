"""Snapshots: what is allocated, what held the peak, what is fragmented; nothing of a pickle is executed."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

from gpuwatch.diagnose.traces.memory_verdict import judge_memory
from gpuwatch.runs.memory.memory_files import gather_memory
from gpuwatch.runs.memory.rank_memory import MemoryHolder
from gpuwatch.runs.memory.snapshot import UNKNOWN_PLACE
from tests.counted_calls import calls_of
from tests.runs.memory.snapshots import LOSS, MIB, MODEL, action, block, snapshot, write

RECORDED = Path(__file__).parent / "recorded"
"""By torch 2.13 on a CPU: `torch.cuda._memory_viz._profile_to_snapshot` of a profile with memory."""


def test_a_snapshot_tells_sizes_peak_and_holders(tmp_path: Path) -> None:
    """Document 004, line 343."""
    (memory,) = gather_memory([write(tmp_path / "rank_5.pickle", snapshot())]).ranks
    assert (memory.rank, memory.device, memory.source) == (5, 0, "snapshot")
    assert (memory.allocated, memory.reserved) == (40 * MIB, 120 * MIB)
    assert memory.peak == 100 * MIB
    assert memory.requested == 40 * MIB - 512
    assert (memory.unusable, memory.largest_free) == (60 * MIB, 60 * MIB)
    assert memory.fragmentation == 0.5
    assert not memory.is_whole_history
    assert memory.holders == [
        MemoryHolder("loss.py:7 loss", 50 * MIB, 1),
        MemoryHolder("train.py:42 build", 40 * MIB, 1),
        MemoryHolder(UNKNOWN_PLACE, 10 * MIB, 1),
    ]
    assert [flag.code for flag in judge_memory([memory]).flags] == ["memory.fragmented"]


def test_a_block_that_another_stream_still_uses_is_part_of_the_peak(tmp_path: Path) -> None:
    """60 MiB of weights, 10 whose free is not completed, and 120 that were freed: the peak is 190."""
    base = 0x7F0000000000
    made = snapshot()
    made["segments"][0]["blocks"] = [
        block(base, 60, "active_allocated", MODEL),
        block(base + 60 * MIB, 10, "active_pending_free", LOSS),
    ]
    sizes = ((0, 60, MODEL), (60, 10, LOSS), (70, 120, LOSS))
    made["device_traces"] = [
        [
            *(action("alloc", base + at * MIB, size, stack) for at, size, stack in sizes),
            action("free_requested", base + 70 * MIB, 120, []),
            action("free_completed", base + 70 * MIB, 120, []),
            action("free_requested", base + 60 * MIB, 10, []),
        ]
    ]
    (memory,) = gather_memory([write(tmp_path / "s.pickle", made)]).ranks
    assert (memory.allocated, memory.peak) == (60 * MIB, 190 * MIB)
    assert sum(holder.size for holder in memory.holders) == memory.peak
    assert memory.is_whole_history


def test_segments_alone_are_a_snapshot_without_history(tmp_path: Path) -> None:
    (memory,) = gather_memory([write(tmp_path / "s.pickle", snapshot()["segments"])]).ranks
    assert memory.peak == memory.allocated == 40 * MIB
    assert memory.holders == [MemoryHolder("train.py:42 build", 40 * MIB, 1)]


def test_a_failed_request_is_flagged(tmp_path: Path) -> None:
    failed = action("oom", 0, 4096, [])
    (memory,) = gather_memory([write(tmp_path / "s.pickle", snapshot([failed], device=1))]).ranks
    assert (memory.device, memory.out_of_memory, memory.failed_request) == (1, 1, 4096 * MIB)
    assert "memory.out_of_memory" in [flag.code for flag in judge_memory([memory]).flags]


def test_a_snapshot_of_torch_itself_is_read() -> None:
    (memory,) = gather_memory([RECORDED]).ranks
    assert (memory.rank, memory.allocated, memory.peak) == (0, 12_601_360, 21_000_220)
    assert memory.reserved is None  # a profile has no segments of a device
    assert sum(holder.size for holder in memory.holders) == memory.peak


class Evil:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, ("executed",)


@pytest.mark.parametrize("what", [Evil(), {"segments": [Evil()]}, {"segments": 3}, {}, [], {"segments": []}])
def test_what_is_no_snapshot_is_refused(
    what: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    found = gather_memory([write(tmp_path / "s.pickle", what)])
    assert found.ranks == []
    assert found.skipped[0].unreadable
    assert not (tmp_path / "executed").exists()


def test_a_cut_snapshot_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "s.pickle"
    whole = pickle.dumps(snapshot())
    for size in (2, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:size])
        assert gather_memory([path]).ranks == []


@pytest.mark.long
def test_the_installed_torch_writes_what_is_read(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    program = (
        "import pickle, sys, torch\n"
        "from torch.profiler import ProfilerActivity, profile\n"
        "from torch.cuda._memory_viz import _profile_to_snapshot\n"
        "model = torch.nn.Linear(512, 1024)\n"
        "with profile(activities=[ProfilerActivity.CPU], profile_memory=True, record_shapes=True,"
        " with_stack=True) as made:\n"
        "    for _ in range(2): model(torch.randn(256, 512)).sum().backward()\n"
        "pickle.dump(_profile_to_snapshot(made), open(sys.argv[1], 'wb'))\n"
    )
    path = tmp_path / "rank1.pickle"
    subprocess.run([sys.executable, "-c", program, str(path)], check=True, timeout=100)
    (memory,) = gather_memory([path]).ranks
    assert memory.rank == 1
    assert memory.peak is not None
    assert memory.peak >= 256 * 1024 * 4 + 512 * 1024 * 4  # the output and the weight


CPP = {"name": "torch::cuda::gather_with_cpp()", "filename": "memory_snapshot.cpp", "line": 0}
LIBRARY = {"name": "adam", "filename": "/x/site-packages/torch/optim/adam.py", "line": 971}
OWN = {"name": "train_step", "filename": "/home/ml/train.py", "line": 41}
GRADIENT = {"name": "torch::autograd::generated::AddmmBackward0::apply(x)", "filename": "??", "line": 0}


@pytest.mark.parametrize(
    ("frames", "place"),
    [
        ([CPP, LIBRARY, OWN], "train.py:41 train_step"),
        ([CPP, LIBRARY], "adam.py:971 adam"),
        ([CPP, GRADIENT], "torch::autograd::generated::AddmmBackward0::apply(x)"),
        ([CPP], "memory_snapshot.cpp:0 torch::cuda::gather_with_cpp()"),
    ],
)
def test_the_holder_of_memory_is_the_program_and_not_torch_s_recorder(
    tmp_path: Path, frames: list[dict[str, object]], place: str
) -> None:
    """Frames as torch 2.11 records them on an H200."""
    made = snapshot([action("alloc", 0x7F0020000000, 900, frames)])
    (memory,) = gather_memory([write(tmp_path / "rank_0.pickle", made)]).ranks
    assert memory.holders[0].where == place


def test_the_work_for_many_devices_grows_with_their_number(tmp_path: Path) -> None:
    def work(devices: int) -> int:
        held = snapshot()
        held["segments"] = [
            {**held["segments"][0], "device": number, "blocks": []} for number in range(devices)
        ]
        (tmp_path / f"{devices}").mkdir()
        file = write(tmp_path / f"{devices}" / "rank_5.pickle", held)
        return calls_of(lambda: gather_memory([file]))

    assert work(2_000) < 5 * work(500)
