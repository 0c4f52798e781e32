"""Parses the dump of one rank's flight recorder: its collectives, with sizes, states and frames.

The format is that of torch's FlightRecorder (versions 2.0 to 2.10 of the format, torch 2.2 to 2.15) for any
backend: nccl, ncclx, nccl2, rccl, xccl, gloo. Fields that a version does not write are None.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, TypeAlias

import msgspec
from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from gpuwatch.plain import plain
from gpuwatch.runs.flight.pickle_reader import NoDumpError, UnreadableDumpError, read_as
from gpuwatch.runs.flight.rank_dump import GroupHistory, GroupInfo, Op, RankDump, State, signature

MAX_ENTRIES = 250_000
"""Most entries of a dump: a ring of 2,000, enlarged a hundredfold."""
ENTRY_KEY = b'"profiling_name"'
MAX_RANKS = 1 << 20
MAX_NAME = 120
MAX_RANK_DIGITS = 7
"""Digits of a rank."""
MAX_DIGITS = 20
_NUMBER = re.compile(r"-?\d+")
NOT_THE_USERS = ("/site-packages/", "/dist-packages/", "/torch/", "/lib/python3", "<frozen", "<string>")
"""Parts of the paths of frames in torch, its launchers and Python itself."""
COALESCED = "coalesced"
_Count: TypeAlias = Annotated[int, msgspec.Meta(ge=-(1 << 62), le=1 << 62)]
"""A counter of torch, which fits into 63 bits; unbounded integers would be expensive to print."""
_Size: TypeAlias = Annotated[tuple[_Count, ...], msgspec.Meta(max_length=64)]
"""The sizes of a tensor, at most as many as a torch tensor can have dimensions."""


class _Frame(msgspec.Struct, gc=False):
    name: str = "?"
    filename: str = "?"
    line: _Count = 0


class _Entry(msgspec.Struct, gc=False):
    profiling_name: str
    record_id: _Count = 0
    pg_id: _Count | None = None
    process_group: tuple[str, str] | str | None = None
    collective_seq_id: _Count | None = None
    seq_id: _Count | None = None
    """Sequence number before version 2.2 of the format."""
    p2p_seq_id: _Count = 0
    is_p2p: bool | None = None
    input_sizes: list[_Size] = []
    output_sizes: list[_Size] = []
    input_dtypes: list[str] | str = []
    output_dtypes: list[str] | str = []
    state: str = "scheduled"
    retired: bool = False
    time_created_ns: _Count | None = None
    timeout_ms: float | None = None
    frames: list[_Frame] = []


class _DumpFile(msgspec.Struct):
    version: str = "?"
    pg_config: dict[str, dict[str, Any]] | UnsetType = UNSET
    pg_status: dict[str, dict[str, Any]] = {}
    entries: list[_Entry] | UnsetType = UNSET


def read_dump(data: bytes, rank: int, file: str) -> RankDump:
    """Parse a dump from the bytes of its file.

    Raises:
        NoDumpError: the bytes are not a dump; the message states why.
    """
    _refuse_too_many(data.count(ENTRY_KEY))  # before any of them takes memory
    found = read_as(data, _DumpFile)
    if found.entries is UNSET and found.pg_config is UNSET:
        raise NoDumpError("contains no flight-recorder dump")
    entries = [] if found.entries is UNSET else found.entries
    _refuse_too_many(len(entries))
    words: dict[str, str] = {}
    ops = tuple(_op(entry, words) for entry in entries)
    backends = [entry.profiling_name.partition(":")[0] for entry in entries[-1:]]
    groups = {} if found.pg_config is UNSET else _groups(found.pg_config)
    nameless = groups.pop("", None)
    return RankDump(
        rank=rank,
        file=file,
        version=_name(found.version),
        backend=_name(backends[0]) if backends else "unknown",
        histories=histories(ops),
        groups=groups,
        enqueued=_enqueued(found.pg_status),
        wrapped=bool(entries) and min(entry.record_id for entry in entries) > 0,
        count=len(ops),
        newest=max(ops, key=lambda op: op.created_s or 0.0, default=None),
        world=nameless.ranks if nameless is not None else (),
    )


def _refuse_too_many(entries: int) -> None:
    if entries > MAX_ENTRIES:
        raise UnreadableDumpError(f"{entries:,} entries, more than the {MAX_ENTRIES:,} that are read")


def histories(ops: Iterable[Op]) -> dict[str, GroupHistory]:
    """Return group -> its history, made from one rank's entries."""
    by_group: dict[str, list[Op]] = {}
    for op in ops:
        by_group.setdefault(op.group, []).append(op)
    return {group: _history(own) for group, own in by_group.items()}


def _history(ops: list[Op]) -> GroupHistory:
    collectives: dict[int, Op] = {}
    batches = {op.p2p_seq: op.state for op in ops if op.p2p and op.name == COALESCED}
    p2p = []
    for op in ops:
        if not op.p2p:
            before = collectives.get(op.seq)
            collectives[op.seq] = op if before is None else _merged(before, op)
        elif op.name != COALESCED and batches.get(op.p2p_seq, op.state) != "completed":
            # the parts of a batch have no state
            p2p.append(replace(op, state=batches.get(op.p2p_seq, op.state)))
    states = any(op.state != "scheduled" for op in ops)
    unfinished = (seq for seq, op in collectives.items() if op.state != "completed")
    return GroupHistory(
        collectives=collectives,
        last=max(collectives, default=0),
        open=min(unfinished, default=None) if states else None,
        has_states=states,
        p2p=tuple(p2p),
    )


def _merged(first: Op, other: Op) -> Op:
    """Return two parts of a coalesced collective as one, with the state of its `coalesced` entry."""
    whole, part = (other, first) if other.name == COALESCED else (first, other)
    name = part.name if whole.name == COALESCED else whole.name
    inputs, outputs = first.inputs + other.inputs, first.outputs + other.outputs
    types = part.signature[3] or whole.signature[3]
    return replace(
        whole,
        name=name,
        inputs=inputs,
        outputs=outputs,
        dtypes=part.dtypes,
        frame=part.frame or whole.frame,
        signature=signature(name, inputs, outputs, types),
    )


def _op(entry: _Entry, words: dict[str, str]) -> Op:
    name = entry.profiling_name.partition(":")[2] or entry.profiling_name
    group = entry.process_group
    named = group[0] if isinstance(group, tuple) else group or str(entry.pg_id or 0)
    seq = entry.collective_seq_id if entry.collective_seq_id is not None else entry.seq_id or 0
    p2p = entry.is_p2p if entry.is_p2p is not None else name.startswith(("send ", "recv "))
    state: State = "scheduled"
    if entry.state in ("started", "completed"):
        state = "completed" if entry.state == "completed" else "started"
    inputs, outputs = tuple(entry.input_sizes), tuple(entry.output_sizes)
    dtypes = _dtypes(entry.input_dtypes, words), _dtypes(entry.output_dtypes, words)
    return Op(
        group=_known(words, named),
        seq=seq,
        p2p_seq=entry.p2p_seq_id,
        name=_known(words, name),
        inputs=inputs,
        outputs=outputs,
        dtypes=dtypes,
        state=state,
        retired=entry.retired,
        created_s=entry.time_created_ns / 1e9 if entry.time_created_ns else None,
        timeout_s=entry.timeout_ms / 1000 if entry.timeout_ms and entry.timeout_ms > 0 else None,
        p2p=p2p,
        pg_id=entry.pg_id,
        frame=_users(entry.frames, words),
        signature=signature(name, inputs, outputs, tuple(sorted({*dtypes[0], *dtypes[1]}))),
    )


def _users(frames: list[_Frame], words: dict[str, str]) -> str | None:
    """Return the innermost frame of user code, else the innermost of torch; None without frames."""
    if not frames:
        return None
    own = (frame for frame in frames if not any(part in frame.filename for part in NOT_THE_USERS))
    frame = next(own, frames[0])
    return _known(words, f"{frame.name} ({frame.filename.rpartition('/')[2]}:{frame.line})")


def _dtypes(named: list[str] | str, words: dict[str, str]) -> tuple[str, ...]:
    return tuple(_known(words, each) for each in ([named] if isinstance(named, str) else named))


def _known(words: dict[str, str], text: str) -> str:
    """Return the sanitized text, as one shared object: a dump repeats few distinct ones."""
    known = words.get(text)
    if known is None:
        known = words[text] = _name(text)
    return known


def _name(text: str) -> str:
    return plain(text)[:MAX_NAME]


def _groups(config: Mapping[str, Mapping[str, Any]]) -> dict[str, GroupInfo]:
    groups = {}
    for key, facts in config.items():
        groups[_name(key)] = GroupInfo(
            _name(key), _name(_text(facts.get("desc"))), _members(facts.get("ranks"))
        )
    return groups


def _members(held: object) -> tuple[int, ...]:
    """Return the ranks in a text such as `[0, 1]`; impossible numbers are dropped."""
    numbers = (found.group() for found in _NUMBER.finditer(_text(held)))
    ranks = (int(each) for each in numbers if len(each) <= MAX_RANK_DIGITS)
    return tuple(itertools.islice((rank for rank in ranks if 0 <= rank < MAX_RANKS), MAX_RANKS))


def _enqueued(status: Mapping[str, Mapping[str, Any]]) -> dict[int, int]:
    found = {}
    for key, facts in status.items():
        last = _text(facts.get("last_enqueued_collective"))
        if key.isdecimal() and last.isdecimal() and len(key) < MAX_DIGITS and len(last) < MAX_DIGITS:
            found[int(key)] = int(last)
    return found


def _text(held: object) -> str:
    """Return a string, a number or a list of numbers as text; empty for deeper values."""
    if isinstance(held, str):
        return held
    numbers = held if isinstance(held, list) else [held]
    if all(isinstance(each, int) and abs(each) < 1 << 63 for each in numbers):
        return ", ".join(map(str, numbers))
    return ""
