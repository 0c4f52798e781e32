"""The events of one rank as columns: a few dozen bytes an event, however many there are."""

from __future__ import annotations

from array import array
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from gpuwatch.runs.traces.intervals import Floats
from gpuwatch.runs.traces.kinds import EventKind

MAX_EVENTS = 12_000_000
"""Kept of one file: about 0.7 GB. A trace of 500 MB has one to two million."""
NO_VALUE = -1
"""In the integer columns: the trace does not state it."""


class TextNumbers:
    """Texts by number; a trace repeats a few thousand of them."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self._numbers: dict[Any, int] = {}

    def number(self, text: Any) -> int:  # noqa: ANN401 - a name, or the pid and tid of a thread
        """The number of a text, or of anything that has one."""
        found = self._numbers.get(text)
        if found is None:
            found = self._numbers[text] = len(self.texts)
            self.texts.append(text)
        return found


@dataclass
class EventColumns:
    """Events as columns while a file is read; times in microseconds."""

    kinds: array[int] = field(default_factory=lambda: array("b"))
    names: array[int] = field(default_factory=lambda: array("i"))
    threads: array[int] = field(default_factory=lambda: array("i"))
    """Of the CPU; `NO_VALUE` for events of a GPU."""
    starts: array[float] = field(default_factory=lambda: array("d"))
    durations: array[float] = field(default_factory=lambda: array("d"))
    externals: array[int] = field(default_factory=lambda: array("q"))
    """Kineto's number of the operator that is behind an event."""
    correlations: array[int] = field(default_factory=lambda: array("q"))
    """CUDA's number that joins a launch and its kernel."""
    details: array[int] = field(default_factory=lambda: array("i"))
    """Number of the shapes (operators) or of the collective (kernels) in `RankTrace.details`."""
    sizes: array[float] = field(default_factory=lambda: array("d"))
    """Bytes of a copy or a collective; FLOPs of an operator. Unknown: NaN."""

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
        """Append one event; `joins` are its external and its correlation number."""
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


@dataclass(frozen=True)
class Events:
    """The same for reading, all columns of one length."""

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
        """When each ended."""
        return self.starts + self.durations

    def __len__(self) -> int:
        return len(self.kinds)

    def where(self, chosen: npt.NDArray[Any]) -> Events:
        """The events of a mask or of row numbers."""
        return Events(*(column[chosen] for column in vars(self).values()))


def as_events(columns: EventColumns) -> Events:
    """Columns that are complete, without a copy."""
    kinds = {"b": np.int8, "i": np.int32, "q": np.int64, "d": np.float64}
    return Events(*(np.frombuffer(each, dtype=kinds[each.typecode]) for each in vars(columns).values()))


@dataclass
class RankTrace:
    """What one trace holds of one rank."""

    file: str
    rank: int | None = None
    """None: neither the file nor its name states it."""
    device: int | None = None
    """Of a file with several GPUs: which."""
    world_size: int | None = None
    backend: str | None = None
    host: str | None = None
    gpu: str | None = None
    """The model, as the trace names it."""
    names: list[str] = field(default_factory=list)
    details: list[Any] = field(default_factory=list)
    events: Events = field(default_factory=lambda: as_events(EventColumns()))
    modules: Counter[str] = field(default_factory=Counter)
    """Module (`Linear`, `TransformerBlock`) -> operators that ran in it."""
    peak_allocated: dict[str, int] = field(default_factory=dict)
    """Device (`CPU`, `CUDA 0`) -> most bytes allocated in the trace."""
    peak_reserved: dict[str, int] = field(default_factory=dict)
    python_events: int = 0
    """Python functions of a trace with stacks: counted only."""
    unreadable: int = 0
    cut_off: bool = False
    notes: list[str] = field(default_factory=list)

    @property
    def has_gpu_events(self) -> bool:
        """Whether anything ran on a GPU."""
        return bool(np.any(self.events.kinds >= EventKind.KERNEL))
