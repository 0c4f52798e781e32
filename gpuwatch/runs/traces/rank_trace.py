"""The events of one rank as columns, at a few dozen bytes per event."""

from __future__ import annotations

from array import array
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct
from msgspec.structs import astuple

from gpuwatch.runs.traces.intervals import Floats
from gpuwatch.runs.traces.kinds import EventKind

MAX_EVENTS = 12_000_000
"""Most events that are kept of one file (about 0.7 GB). A trace of 500 MB has one to two million."""
NO_VALUE = -1
"""Marks an unknown value in integer columns."""


class TextNumbers:
    """Assigns numbers to distinct texts; a trace repeats a few thousand of them."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self._numbers: dict[Any, int] = {}

    def number(self, text: Any) -> int:  # noqa: ANN401 - a name, or the pid and tid of a thread
        """Return the number of a text (or other hashable value); a new text gets the next number."""
        found = self._numbers.get(text)
        if found is None:
            found = self._numbers[text] = len(self.texts)
            self.texts.append(text)
        return found


@dataclass
class EventColumns:
    """Event columns while a file is read; times in microseconds."""

    kinds: array[int] = field(default_factory=lambda: array("b"))
    names: array[int] = field(default_factory=lambda: array("i"))
    threads: array[int] = field(default_factory=lambda: array("i"))
    """CPU thread; `NO_VALUE` for GPU events."""
    starts: array[float] = field(default_factory=lambda: array("d"))
    durations: array[float] = field(default_factory=lambda: array("d"))
    externals: array[int] = field(default_factory=lambda: array("q"))
    """Kineto's number of the operator behind an event."""
    correlations: array[int] = field(default_factory=lambda: array("q"))
    """CUDA's number that joins a launch with its kernel."""
    details: array[int] = field(default_factory=lambda: array("i"))
    """Number of the shapes (operators) or collective (kernels) in `RankTrace.details`."""
    sizes: array[float] = field(default_factory=lambda: array("d"))
    """Bytes of a copy or collective; FLOPs of an operator. Unknown: NaN."""

    def add(
        self,
        kind: EventKind,
        name: int,
        thread: int,
        start: float,
        duration: float,
        joins: tuple[int, int] = (NO_VALUE, NO_VALUE),
        detail: int = NO_VALUE,
        size: float = float("nan"),
    ) -> None:
        """Append an event; `joins` are its external and correlation numbers."""
        self.kinds.append(kind)
        self.names.append(name)
        self.threads.append(thread)
        self.starts.append(start)
        self.durations.append(max(0.0, duration))
        self.externals.append(joins[0])
        self.correlations.append(joins[1])
        self.details.append(detail)
        self.sizes.append(size)

    def __len__(self) -> int:
        return len(self.kinds)


class Events(Struct, frozen=True):
    """The event columns of a read file; all have the same length, times are in microseconds."""

    kinds: npt.NDArray[np.int8]
    names: npt.NDArray[np.int32]
    threads: npt.NDArray[np.int32]
    starts: Floats
    durations: Floats
    externals: npt.NDArray[np.int64]
    correlations: npt.NDArray[np.int64]
    details: npt.NDArray[np.int32]
    sizes: Floats

    @property
    def ends(self) -> Floats:
        """End time of each event."""
        return self.starts + self.durations

    def __len__(self) -> int:
        return len(self.kinds)

    def where(self, chosen: npt.NDArray[Any]) -> Events:
        """Return the events selected by a mask or by row numbers."""
        return Events(*(column[chosen] for column in astuple(self)))


def as_events(columns: EventColumns) -> Events:
    """Return complete columns as `Events`, without a copy."""
    kinds = {"b": np.int8, "i": np.int32, "q": np.int64, "d": np.float64}
    return Events(*(np.frombuffer(each, dtype=kinds[each.typecode]) for each in vars(columns).values()))


@dataclass
class RankTrace:
    """The trace of one rank."""

    file: str
    rank: int | None = None
    """The rank; None: neither the file nor its name states one."""
    device: int | None = None
    """Number of the GPU on its node, for a file with several GPUs; else None."""
    process: int | None = None
    """Process id, for a file in which several processes use one GPU; else None."""
    world_size: int | None = None
    backend: str | None = None
    host: str | None = None
    gpu: str | None = None
    """GPU model as named in the trace."""
    names: list[str] = field(default_factory=list)
    details: list[Any] = field(default_factory=list)
    events: Events = field(default_factory=lambda: as_events(EventColumns()))
    modules: Counter[str] = field(default_factory=Counter)
    """Module (`Linear`, `TransformerBlock`) -> number of operators in the module."""
    peak_allocated: dict[str, int] = field(default_factory=dict)
    """Device (`CPU`, `CUDA 0`) -> highest allocation in bytes."""
    peak_reserved: dict[str, int] = field(default_factory=dict)
    unreadable: int = 0
    cut_off: bool = False
    notes: list[str] = field(default_factory=list)

    @property
    def has_gpu_events(self) -> bool:
        """True if the trace has GPU events."""
        return bool(np.any(self.events.kinds >= EventKind.KERNEL))
