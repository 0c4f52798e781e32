"""Reads Chrome traces of torch.profiler, or of tracers that write a section per rank, as columns."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import msgspec

from gpuwatch.plain import plain
from gpuwatch.runs.traces.event_stream import EventStream, NoTraceError
from gpuwatch.runs.traces.kinds import (
    GPU_KINDS,
    KIND_OF_CATEGORY,
    EventKind,
    kernel_kind,
)
from gpuwatch.runs.traces.rank_trace import (
    MAX_EVENTS,
    NO_VALUE,
    EventColumns,
    RankTrace,
    TextNumbers,
    as_events,
)
from gpuwatch.runs.traces.trace_event import EventArguments, TraceEvent

RANK_CATEGORY = re.compile(r"rank_(\d{1,7})")
"""Matches the category that tracers with one section per rank use."""
MAX_DETAIL_BYTES = 400
MAX_TIME_US = 1e17
"""Largest time in microseconds (about 3,000 years); current unix time is 1.8e15."""
MAX_NAME_CHARACTERS = 300
BYTES_OF_TYPE = {
    "byte": 1, "char": 1, "bool": 1, "float8_e4m3fn": 1, "float8_e5m2": 1,
    "half": 2, "bfloat16": 2, "short": 2,
    "int": 4, "float": 4, "long": 8, "double": 8, "complexfloat": 8, "complexdouble": 16,
}  # fmt: skip
"""Bytes per element, by torch's scalar type names."""
PROFILER_SECTIONS = ("ProfilerStep#", "Optimizer.")
"""Sections that torch before 1.11 wrote as operators."""
_numbers = msgspec.json.Decoder(list[Any])
NO_ARGUMENTS = EventArguments()


class _RankColumns:
    """The events of one rank while a file is read."""

    def __init__(self) -> None:
        self.columns, self.names, self.details, self.threads = (
            EventColumns(),
            TextNumbers(),
            TextNumbers(),
            TextNumbers(),
        )
        self.trace = RankTrace("")

    def add(self, event: TraceEvent, kind: EventKind) -> None:
        """Add an event with a duration; an event with an impossible time counts as unreadable."""
        if not (abs(event.ts) < MAX_TIME_US and event.dur < MAX_TIME_US):
            self.trace.unreadable += 1
            return
        args = event.args or NO_ARGUMENTS
        external = args.external if args.external is not None else args.external_old
        if args.module:
            self.trace.modules[plain(args.module)[:MAX_NAME_CHARACTERS]] += 1
        if kind is EventKind.KERNEL:
            kind = kernel_kind(event.name)
        detail, size = self._detail(args, kind, event.name)
        self.columns.add(
            kind,
            self.names.number(plain(event.name)[:MAX_NAME_CHARACTERS]),
            NO_VALUE if kind in GPU_KINDS else self.threads.number((event.pid, event.tid)),
            event.ts,
            event.dur,
            (_joining(external), _joining(args.correlation)),
            detail,
            size,
        )

    def _detail(self, args: EventArguments, kind: EventKind, name: str) -> tuple[int, float]:
        unknown = float("nan")
        if kind is EventKind.MEMORY_COPY:
            return NO_VALUE, args.bytes if args.bytes is not None else unknown
        if kind is EventKind.KERNEL or (kind is EventKind.ANNOTATION and args.collective):
            if args.collective is None:
                return NO_VALUE, unknown
            elements = max(args.in_elements or 0.0, args.out_elements or 0.0)
            width = BYTES_OF_TYPE.get((args.dtype or "").lower().removeprefix("c10::"))
            return self.details.number(plain(args.collective)), elements * width if width else unknown
        if not len(args.dims):
            return NO_VALUE, unknown if args.flops is None else args.flops
        flops = args.flops if args.flops is not None else matrix_flops(name, args.dims)
        text = bytes(args.dims)[:MAX_DETAIL_BYTES].decode("utf-8", "replace")
        return self.details.number(plain(re.sub(r"\s+", "", text))), unknown if flops is None else flops

    def note_memory(self, args: EventArguments) -> None:
        """Raise the peaks of a device to the totals that a `[memory]` event states."""
        device = "CPU" if args.device_type in (0, None) else f"CUDA {args.device_id or 0}"
        for peaks, now in (
            (self.trace.peak_allocated, args.allocated),
            (self.trace.peak_reserved, args.reserved),
        ):
            if now is not None:
                peaks[device] = max(peaks.get(device, 0), now)


def read_chrome_trace(pieces: Iterable[bytes], name: str, rank: int | None) -> list[RankTrace]:
    """Return the trace of each rank in a file: one for torch's files, or several.

    Args:
        pieces: The bytes of the file, unpacked.
        name: The name of the file, for messages.
        rank: The rank in the file's name, or None; a rank stated in the file takes precedence.

    Raises:
        NoTraceError: the file is not a trace, or has too many events.
    """
    stream = EventStream(pieces)
    ranks: dict[int | None, _RankColumns] = {}
    total = 0
    for batch in stream.batches():
        for event in batch:
            total += _take(event, ranks)
        if total > MAX_EVENTS:
            raise NoTraceError(f"more than {MAX_EVENTS:,} operators and kernels: profile fewer steps")
    if not ranks and (stream.unreadable or stream.cut_off):
        raise NoTraceError("damaged: none of its events can be read")
    if not ranks:
        raise NoTraceError("no operator, kernel or section in its events")
    traces = [_finished(each, number, rank, name, stream) for number, each in ranks.items()]
    return sorted(traces, key=lambda trace: -1 if trace.rank is None else trace.rank)


def _take(event: TraceEvent, ranks: dict[int | None, _RankColumns]) -> int:
    """Store an event; return the number of rows used: 1, or 0 if it is not measured."""
    if event.ph == "X":
        kind = KIND_OF_CATEGORY.get(event.cat.lower())
        of_rank = None
        if kind is EventKind.OPERATOR and event.name.startswith(PROFILER_SECTIONS):
            kind = EventKind.ANNOTATION
        if kind is None:
            if event.cat == "python_function":
                return 0
            stated = RANK_CATEGORY.fullmatch(event.cat)
            if stated is None:
                return 0
            kind, of_rank = EventKind.ANNOTATION, int(stated[1])
        _of(ranks, of_rank).add(event, kind)
        return 1
    if event.ph == "i" and event.name == "[memory]" and event.args is not None:
        _of(ranks, None).note_memory(event.args)
    return 0


def _of(ranks: dict[int | None, _RankColumns], rank: int | None) -> _RankColumns:
    found = ranks.get(rank)
    if found is None:
        found = ranks[rank] = _RankColumns()
    return found


def _finished(
    gathered: _RankColumns, of_rank: int | None, by_name: int | None, file: str, stream: EventStream
) -> RankTrace:
    trace, known = gathered.trace, stream.metadata
    job = known.get("distributedInfo")
    job = job if isinstance(job, dict) else {}
    devices = known.get("deviceProperties") or known.get("computeProperties")
    trace.file = file
    stated = of_rank if of_rank is not None else _integer(job.get("rank"))
    trace.rank = stated if stated is not None else by_name
    trace.world_size = _integer(job.get("world_size"))
    trace.backend = _text(job.get("backend"))
    trace.host = _text(known.get("host_name"))
    if isinstance(devices, list) and devices and isinstance(devices[0], dict):
        trace.gpu = _text(devices[0].get("name"))
    trace.names, trace.details = gathered.names.texts, gathered.details.texts
    trace.events = as_events(gathered.columns)
    trace.unreadable += stream.unreadable
    trace.cut_off = stream.cut_off
    return trace


def matrix_flops(name: str, dims: msgspec.Raw) -> float | None:
    """Return the FLOP (multiplications and additions) of a matrix product by its input shapes; None: unknown.

    Matrix products dominate a training; torch's own `with_flops` table is not in a trace.
    """
    first = {"aten::mm": 0, "aten::bmm": 0, "aten::addmm": 1, "aten::baddbmm": 1}.get(name)
    if first is None:
        return None
    try:
        left, right = _numbers.decode(dims)[first : first + 2]
        batch = left[0] if len(left) == 3 else 1
        return float(2 * batch * left[-2] * left[-1] * right[-1])
    except (ValueError, TypeError, IndexError, OverflowError):
        return None


def _joining(number: int | None) -> int:
    """Return a correlation number reduced to 63 bits, because some traces have unsigned 64-bit numbers.

    `NO_VALUE` for None.
    """
    return NO_VALUE if number is None else number & 0x7FFF_FFFF_FFFF_FFFF


def _integer(value: object) -> int | None:
    return value if isinstance(value, int) and 0 <= value < 1 << 31 else None


def _text(value: object) -> str | None:
    return plain(value)[:MAX_NAME_CHARACTERS] if isinstance(value, str) and value else None
