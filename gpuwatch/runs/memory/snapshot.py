"""Parses torch's memory snapshots (`torch.cuda.memory._dump_snapshot`): current and peak allocations.

The format is torch's `Snapshot` (torch/cuda/memory.py): segments of the caching allocator with their blocks,
and a ring of recent actions per device (`_record_memory_history`). Without history, the current state counts
as the peak.
"""

from __future__ import annotations

from collections import Counter

import msgspec

from gpuwatch.plain import plain
from gpuwatch.runs.flight.pickle_reader import UnreadableDumpError, read_as
from gpuwatch.runs.memory.rank_memory import MemoryHolder, RankMemory

MAX_SNAPSHOT_BYTES = 512 << 20
"""Largest snapshot in bytes.

A ring of 100,000 actions with stacks is about 100 MB and takes ten times that in memory.
"""
MAX_HOLDERS = 10
LIBRARY_PARTS = ("/torch/", "site-packages", "dist-packages", "??", "<string>", "<frozen")
"""Parts of the paths of library frames; a holder is named by the program's own frame if one is known."""
UNKNOWN_PLACE = "allocated before the recorded history"
ALLOCATED, INACTIVE = "active_allocated", "inactive"
"""States of a block: in use, and free. A block freed while another stream uses it has neither."""


class SnapshotFrame(msgspec.Struct, gc=False):
    """A frame of the allocating stack."""

    filename: str = ""
    line: int = 0
    name: str = ""


class SnapshotBlock(msgspec.Struct, gc=False):
    """A block within a segment."""

    size: int = 0
    state: str = ""
    requested_size: int | None = None
    address: int | None = None
    frames: list[SnapshotFrame] = []


class SnapshotSegment(msgspec.Struct, gc=False):
    """Memory that the allocator obtained from the driver."""

    device: int = 0
    address: int = 0
    total_size: int = 0
    segment_type: str | None = None
    """Type of the segment; None: torch's profiler made it from its events, so it is no device memory."""
    blocks: list[SnapshotBlock] = []


class AllocatorAction(msgspec.Struct, gc=False):
    """An entry of the allocator's history."""

    action: str = ""
    addr: int | None = None
    size: int = 0
    frames: list[SnapshotFrame] = []
    category: str | None = None


class Snapshot(msgspec.Struct):
    """A whole snapshot; older torch versions write only the list of segments."""

    segments: list[SnapshotSegment]
    device_traces: list[list[AllocatorAction]] = []


def read_snapshot(data: bytes, file: str, rank: int | None) -> list[RankMemory]:
    """Return the memory of each device with segments in a snapshot.

    Raises:
        NoDumpError: the data is no snapshot, or has no segments; nothing in a pickle is executed.
    """
    what = "a memory snapshot of torch"
    try:
        snapshot = read_as(data, Snapshot, what, MAX_SNAPSHOT_BYTES)
    except UnreadableDumpError:
        snapshot = Snapshot(read_as(data, list[SnapshotSegment], what, MAX_SNAPSHOT_BYTES))
    segments: dict[int, list[SnapshotSegment]] = {}
    for segment in snapshot.segments:
        segments.setdefault(segment.device, []).append(segment)
    if not segments:
        raise UnreadableDumpError(
            "a memory snapshot without segments: nothing is allocated, or no GPU was used"
        )
    found = []
    for device in sorted(segments):
        actions = snapshot.device_traces[device] if 0 <= device < len(snapshot.device_traces) else []
        found.append(_of_device(segments[device], actions, RankMemory(file, "snapshot", rank, device)))
    return found


def _of_device(
    segments: list[SnapshotSegment], actions: list[AllocatorAction], memory: RankMemory
) -> RankMemory:
    blocks = _placed(segments)
    active = {address: block for address, block in blocks if block.state != INACTIVE}
    allocated = [block for block in active.values() if block.state == ALLOCATED]
    memory.allocated = sum(block.size for block in allocated)
    memory.requested = sum(
        block.size if block.requested_size is None else block.requested_size for block in allocated
    )
    failed = [each for each in actions if each.action == "oom"]
    memory.out_of_memory, memory.failed_request = len(failed), failed[-1].size if failed else None
    if all(segment.segment_type is not None for segment in segments):
        _add_reserved(memory, segments)
    _find_peak(memory, actions, active)
    return memory


def _add_reserved(memory: RankMemory, segments: list[SnapshotSegment]) -> None:
    memory.reserved = sum(segment.total_size for segment in segments)
    free = [(segment, block) for segment in segments for block in segment.blocks if block.state == INACTIVE]
    used = {id(segment) for segment in segments if any(block.state != INACTIVE for block in segment.blocks)}
    memory.unusable = sum(block.size for segment, block in free if id(segment) in used)
    memory.largest_free = max((block.size for _, block in free), default=0)


def _placed(segments: list[SnapshotSegment]) -> list[tuple[int, SnapshotBlock]]:
    """Return each block with its address; older torch versions give only the segment's address."""
    found = []
    for segment in segments:
        address = segment.address
        for block in segment.blocks:
            found.append((address if block.address is None else block.address, block))
            address += block.size
    return found


def _find_peak(memory: RankMemory, actions: list[AllocatorAction], active: dict[int, SnapshotBlock]) -> None:
    """Find the highest allocation in the history, and its holders, and set them in `memory`.

    A block counts until its free is completed: until then no other request can have it.
    """
    changes = [_change(each) for each in actions]
    level = sum(block.size for block in active.values()) - sum(changes)
    memory.is_whole_history = level <= 0
    peak, at = level, -1
    for index, change in enumerate(changes):
        level += change
        if level > peak:
            peak, at = level, index
    memory.peak = peak
    memory.peak_at = f"action {at + 1} of {len(actions)}" if actions else None
    held: Counter[str] = Counter()
    blocks: Counter[str] = Counter()
    for place, size in _held_at(at, actions, active):
        held[place] += size
        blocks[place] += 1
    memory.holders = [
        MemoryHolder(place, size, blocks[place]) for place, size in held.most_common(MAX_HOLDERS)
    ]


def _change(action: AllocatorAction) -> int:
    if action.action == "alloc":
        return action.size
    return -action.size if action.action == "free_completed" else 0


def _held_at(
    at: int, actions: list[AllocatorAction], active: dict[int, SnapshotBlock]
) -> list[tuple[str, int]]:
    """Return (place, size) of each allocation that was live after action number `at`."""
    alive: dict[int | None, tuple[str, int]] = {}
    for action in actions[: at + 1]:
        if action.action == "alloc":
            alive[action.addr] = _place(action.frames, action.category), action.size
        elif action.action == "free_completed":
            alive.pop(action.addr, None)
    allocated_in_history = {each.addr for each in actions if each.action == "alloc"}
    for address, block in active.items():
        if address not in allocated_in_history:
            alive[address] = _place(block.frames, None), block.size
    seen: set[int | None] = set()
    for action in actions[at + 1 :]:
        if action.action == "free_completed" and action.addr not in seen and action.addr not in alive:
            alive[action.addr] = UNKNOWN_PLACE, action.size
        if action.action in ("alloc", "free_completed"):
            seen.add(action.addr)
    return list(alive.values())


BACKWARD = "::autograd::generated::"
"""Part of the names of C++ frames that compute a gradient.

Example: `torch::autograd::generated::AddmmBackward0::apply`.
"""


def _place(frames: list[SnapshotFrame], category: str | None) -> str:
    """Return the place of an allocation as text: a frame of the program, else of a library, else any.

    With CUDA, torch also records C++ frames, those of its recorder first. A backward function comes after
    library frames.
    """
    named = [each for each in frames if each.name or each.filename]
    python = [each for each in named if each.filename.endswith(".py") or each.filename.startswith("<")]
    own = [each for each in python if not any(part in each.filename for part in LIBRARY_PARTS)]
    backward = [each for each in named if BACKWARD in each.name]
    chosen = next(iter(own or python or backward or named), None)
    if chosen is None:
        return category or UNKNOWN_PLACE
    file = (
        ""
        if chosen.filename in ("", "none", "??")
        else f"{chosen.filename.rsplit('/', 1)[-1]}:{chosen.line} "
    )
    return plain(f"{file}{chosen.name}")[:160]
