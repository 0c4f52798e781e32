"""What a scan comes to: findings with their nodes, the files, and where the ranks ran."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias

from gpuwatch.fleet.jobs.places import Places
from gpuwatch.runs.files.files import Skipped
from gpuwatch.runs.placement.epochs import EpochSpan
from gpuwatch.runs.placement.step_series import (
    StepSeries,
)
from gpuwatch.runs.placement.unfinished import Unfinished
from gpuwatch.wire import Finding

Engine: TypeAlias = Literal["agent", "hyperscan"]


@dataclass(frozen=True)
class LogScan:
    """What came of one file."""

    name: str
    path: Path
    size: int
    packing: str | None
    """gzip, zstd, xz, bzip2; None: plain."""
    node: str | None
    rank: int | None
    attempt: int | None
    kernel: bool
    findings: int
    trouble: str | None
    """Why not all of it was read."""
    grew: bool = False
    """It was written to while it was scanned."""
    mtime: float = 0.0
    """When it was last written (unix seconds)."""
    last_time: float | None = None
    """The last time that a line carries (unix seconds)."""
    series: tuple[StepSeries, ...] = ()
    """The steps that ranks logged in it."""
    last_lines: tuple[str, ...] = ()
    epochs: EpochSpan | None = None
    """Those that lines near its beginning and its end name."""


@dataclass(frozen=True)
class ScanFinding:
    """A finding, and the node of its file as far as it is known."""

    node: str | None
    finding: Finding


@dataclass(frozen=True)
class Scan:
    """The whole result."""

    located: tuple[ScanFinding, ...]
    """File by file, in the order of the files."""
    places: Places
    files: tuple[LogScan, ...]
    skipped: tuple[Skipped, ...]
    bytes: int
    """Of text that was looked at."""
    engine: Engine
    left_out: int = 0
    """Matches over a bound, of which only the number is known."""
    suspended: dict[str, str] = field(default_factory=dict)
    """Rules that took too long for one line, and were searched for no more."""
    saves: tuple[float, ...] = ()
    """When checkpoints were written (unix seconds)."""
    checkpoints: tuple[tuple[str, bool, float, bool], ...] = ()
    """Lines about checkpoints, as `checkpoint_line` gives them."""
    stopped: bool = False
    """It was ended before it was through."""
    unfinished: Unfinished | None = None
    """What one rank began and did not end, by its lines."""
