"""Selects the records to apply for a seek: those that later ones replace are left out."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

import msgspec
from msgspec import structs

from gpuwatch.decode_errors import DECODE_ERRORS
from gpuwatch.link.recording.records import StreamRecord
from gpuwatch.link.recording.tee import MICRO

TAKEN_S = 6.0
"""Seconds before the position whose samples are looked at: they contain every GPU's 5 s tier."""
KEPT_PROGRESS = 2
"""Per writer and file."""
NEWEST = frozenset(("ranks", "logs", "clock"))
"""Kinds of which a node's newest record replaces older ones."""
_RARE = (b'"slow":{', b'"missing":{', b'"disks":[')
"""Starts of the sample parts that only samples before the last 6 s may contain."""
_TIERS = ("fast", "medium", "slow", "missing")
_DISKS = b'"disks":['
"""Start of the disks in a sample's JSON; a sample that contains it is applied as a whole."""
GpuParts: TypeAlias = dict[bytes, dict[str, msgspec.Raw]]
"""UUID of a GPU, as JSON -> the fields of its readings."""
Writer: TypeAlias = tuple[int, str, int | None, int | None, int | None, str | None]
"""Node number, file, rank, local rank, pid and host."""


class _StepLine(msgspec.Struct):
    """The writer of a progress record's lines; nothing else of the record is decoded."""

    file: str = ""
    rank: int | None = None
    local_rank: int | None = None
    pid: int | None = None
    host: str | None = None
    past: msgspec.Raw = msgspec.Raw()


class _Pid(msgspec.Struct):
    pid: int = 0


class _Path(msgspec.Struct):
    path: str = ""


class _Listed(msgspec.Struct):
    """The processes or log files that a record lists."""

    processes: list[_Pid] = []
    files: list[_Path] = []


_decoder = msgspec.json.Decoder(_StepLine)
_list_decoder = msgspec.json.Decoder(_Listed)
_sample_decoder = msgspec.json.Decoder(dict[str, msgspec.Raw])
_gpus_decoder = msgspec.json.Decoder(list[dict[str, msgspec.Raw]])
_encoder = msgspec.json.Encoder()


def thinned(
    key_frame: Iterable[StreamRecord], records: Iterable[StreamRecord], position: int
) -> list[StreamRecord]:
    """Return the records that determine the state at a position, in order.

    Args:
        key_frame: The records of the key frame before the position.
        records: The records after it.
        position: Microseconds of recorded time.
    """
    kept: list[StreamRecord] = []
    newest: dict[tuple[int, str], StreamRecord] = {}
    progress: dict[Writer, deque[StreamRecord]] = {}
    samples: dict[int, list[StreamRecord]] = {}
    for one in records:
        if one.kind == "sample":
            if one.at >= position - TAKEN_S * MICRO or any(part in one.body for part in _RARE):
                samples.setdefault(one.node, []).append(one)
        elif one.kind in NEWEST:
            newest[one.node, one.kind] = one
        elif (writer := _writer(one)) is not None:
            progress.setdefault(writer, deque(maxlen=KEPT_PROGRESS)).append(one)
        else:
            kept.append(one)
    kept.extend(newest.values())
    for own in samples.values():
        kept.extend(one for one in own[:-1] if _DISKS in one.body)
        kept.append(_merged(own))
    kept.extend(one for steps in progress.values() for one in steps)
    kept.sort(key=lambda one: one.at)
    counts = Counter({writer: len(steps) for writer, steps in progress.items()})
    return [*_not_replaced(list(key_frame), counts, newest), *kept]


def _merged(samples: Sequence[StreamRecord]) -> StreamRecord:
    """Return the newest sample of a node, completed by tiers of its GPUs that only older samples have.

    A tier states its own time, so that its age stays.
    """
    found: GpuParts = {}
    for one in samples:
        for gpu in _gpus(one):
            known = found.get(bytes(gpu.get("uuid", b"")), {})
            older = {name: known[name] for name in _TIERS if name in known}
            found[bytes(gpu.get("uuid", b""))] = {**older, **gpu}
    try:
        newest = _sample_decoder.decode(samples[-1].body)
    except DECODE_ERRORS:
        return samples[-1]  # the session counts it as damaged
    newest["gpus"] = msgspec.Raw(_encoder.encode(list(found.values())))
    return structs.replace(samples[-1], body=_encoder.encode(newest))


def _gpus(one: StreamRecord) -> list[dict[str, msgspec.Raw]]:
    """Return the GPUs' readings in a sample record as JSON fields; empty if the record is damaged."""
    try:
        sample = _sample_decoder.decode(one.body)
        return _gpus_decoder.decode(sample["gpus"]) if "gpus" in sample else []
    except DECODE_ERRORS:
        return []


def _not_replaced(
    key_frame: Sequence[StreamRecord],
    later: Counter[Writer],
    newest: Mapping[tuple[int, str], StreamRecord],
) -> list[StreamRecord]:
    """Return the records of a key frame that are still needed, given the later ones.

    Args:
        key_frame: All of its records.
        later: Writer -> number of its later steps.
        newest: Node and kind -> the later list of processes or files.
    """
    kept: list[StreamRecord] = []
    for one in reversed(key_frame):
        again = newest.get((one.node, one.kind))
        if again is not None and one.kind != "clock" and _listed(again) == _listed(one) is not None:
            continue
        writer = _writer(one)
        if writer is not None:
            later[writer] += 1
            if later[writer] > KEPT_PROGRESS:
                continue
        kept.append(one)
    return kept[::-1]


def _listed(one: StreamRecord) -> _Listed | None:
    """Return the processes or files that a record lists; None if it is damaged."""
    try:
        return _list_decoder.decode(one.body)
    except DECODE_ERRORS:
        return None


def _writer(one: StreamRecord) -> Writer | None:
    """Return the writer of a progress record; None: another record, a backlog's step, not decodable."""
    if one.kind != "progress":
        return None
    try:
        who = _decoder.decode(one.body)
    except DECODE_ERRORS:
        return None
    if len(bytes(who.past)) > len("[]"):
        return None
    return one.node, who.file, who.rank, who.local_rank, who.pid, who.host
