"""The result of a scan: findings with nodes, files, and where ranks ran."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, TypeAlias

from msgspec import Struct, field

from gpuwatch.fleet.jobs.places import Places
from gpuwatch.runs.files.files import Skipped
from gpuwatch.runs.steps.epochs import EpochSpan
from gpuwatch.runs.steps.step_series import StepSeries
from gpuwatch.runs.steps.unfinished import Unfinished
from gpuwatch.wire import Finding

Engine: TypeAlias = Literal["agent", "hyperscan"]


class LogScan(Struct, frozen=True):
    """The result for one file."""

    name: str
    path: Path
    size: int
    packing: str | None
    """The packing of the file: gzip, zstd, xz, bzip2; None: plain."""
    node: str | None
    rank: int | None
    attempt: int | None
    kernel: bool
    findings: int
    trouble: str | None
    """Why the file was not read completely; None: it was."""
    grew: bool = False
    """True if the file was written to during the scan."""
    mtime: float = 0.0
    """Modification time (unix seconds)."""
    last_time: float | None = None
    """The last timestamp in a line (unix seconds)."""
    series: tuple[StepSeries, ...] = ()
    """The steps that ranks logged in the file."""
    last_lines: tuple[str, ...] = ()
    epochs: EpochSpan | None = None
    """The epochs that lines near the beginning and end of the file name."""


class ScanFinding(Struct, frozen=True):
    """A finding, with the node of its file if known."""

    node: str | None
    finding: Finding


class Scan(Struct, frozen=True):
    """The result of a scan."""

    located: tuple[ScanFinding, ...]
    """The findings, in the order of the files."""
    places: Places
    files: tuple[LogScan, ...]
    skipped: tuple[Skipped, ...]
    bytes: int
    """Bytes of text searched."""
    engine: Engine
    left_out: int = 0
    """Number of matches over the limit, which no finding counts."""
    suspended: dict[str, str] = field(default_factory=dict)
    """Rule that took too long for one line, and was not searched further -> the reason."""
    saves: tuple[float, ...] = ()
    """Times at which checkpoints were written (unix seconds)."""
    checkpoints: tuple[tuple[str, bool, float, bool], ...] = ()
    """Lines about checkpoints, as from `checkpoint_line`."""
    stopped: bool = False
    """True if the scan was stopped early."""
    unfinished: Unfinished | None = None
    """The operation that one rank began and did not finish, by its lines; None: there is none."""
    folders: dict[str, Scan] = field(default_factory=dict)
    """Folder -> the result for its files and files outside of such folders, if each has steps of one rank.

    Such folders may be those of several jobs, or hold different logs of one.
    """
