"""Limits of the values in a frame; a frame with a value outside of them is refused."""

from __future__ import annotations

from typing import Annotated, TypeAlias, TypeVar

from msgspec import Meta

T = TypeVar("T")

MAX_RANKS = 1_000_000
"""Ranks of a job; a larger number in an environment or a log line is not a rank."""

FIRST_OWN_FINDING = 1 << 40
"""Ids of findings from here on are of the session's own sources (Kubernetes events); no node may use them."""

Moment: TypeAlias = Annotated[float, Meta(ge=0.0, le=1.0e11)]
"""Unix seconds up to the year 5138, which every `datetime` can show."""
Real: TypeAlias = Annotated[float, Meta(ge=-1.0e18, le=1.0e18)]
"""A measured value; agents never send a number of 1e18 or more (`agent/logs/progress/quantities.py`)."""
Whole: TypeAlias = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
"""A counter or identifier of 64 bits."""
Count: TypeAlias = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Rank: TypeAlias = Annotated[int, Meta(ge=0, lt=MAX_RANKS)]
WorldSize: TypeAlias = Annotated[int, Meta(ge=0, le=MAX_RANKS)]
GpuIndex: TypeAlias = Annotated[int, Meta(ge=0, lt=1024)]

Name: TypeAlias = Annotated[str, Meta(max_length=4096)]
"""A name, identifier or path; Linux's PATH_MAX."""
Text: TypeAlias = Annotated[str, Meta(max_length=64 * 1024)]
"""A sentence or a log line; agents cut lines at 16 KiB."""

Line: TypeAlias = Annotated[str, Meta(max_length=16 * 1024)]
"""A line of the kernel log or an explanation that is stored for a long time."""

Few: TypeAlias = Annotated[list[T], Meta(max_length=1024)]
"""GPUs, network ports, disks and other items of which a node has few."""
Many: TypeAlias = Annotated[list[T], Meta(max_length=20_000)]
"""Processes, log files, lines."""
Table: TypeAlias = Annotated[dict[Name, T], Meta(max_length=1024)]
