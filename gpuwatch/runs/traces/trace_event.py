"""The types of a Chrome trace's events; unused fields are skipped without decoding."""

from __future__ import annotations

import msgspec


class EventArguments(msgspec.Struct, gc=False):
    """The arguments of an event that torch's profiler (Kineto) writes, under their trace names."""

    external: int | None = msgspec.field(default=None, name="External id")
    external_old: int | None = msgspec.field(default=None, name="external id")
    correlation: int | None = None
    stream: int | None = None
    device: int | None = None
    dims: msgspec.Raw = msgspec.field(default=msgspec.Raw(), name="Input Dims")
    """The input shapes as raw JSON; empty if missing."""
    module: str | None = msgspec.field(default=None, name="Module Hierarchy")
    flops: float | None = None
    collective: str | None = msgspec.field(default=None, name="Collective name")
    in_elements: float | None = msgspec.field(default=None, name="In msg nelems")
    out_elements: float | None = msgspec.field(default=None, name="Out msg nelems")
    group_size: int | None = msgspec.field(default=None, name="Group size")
    dtype: str | None = None
    bytes: float | None = None
    """Bytes of a memory copy."""
    allocation: int | None = msgspec.field(default=None, name="Bytes")
    """Bytes allocated (negative: freed) by a `[memory]` event."""
    allocated: int | None = msgspec.field(default=None, name="Total Allocated")
    reserved: int | None = msgspec.field(default=None, name="Total Reserved")
    device_type: int | None = msgspec.field(default=None, name="Device Type")
    """0: CPU, 1: CUDA."""
    device_id: int | None = msgspec.field(default=None, name="Device Id")


class EventWithoutArguments(msgspec.Struct, gc=False):
    """An event whose arguments have other types than torch writes, and are ignored."""

    ph: str = ""
    cat: str = ""
    name: str = ""
    ts: float = 0.0
    dur: float = 0.0
    pid: int | str = 0
    tid: int | str = 0


class TraceEvent(EventWithoutArguments, gc=False):
    """An event of a Chrome trace; `ts` and `dur` in microseconds."""

    args: EventArguments | None = None
