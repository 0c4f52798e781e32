"""Exports a recording as Parquet tables for DuckDB and pandas: `gpuwatch record --parquet`."""

# ruff: noqa: PLC0415  pyarrow is an extra, and large

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TypeAlias

from gpuwatch.link.recording.reader import Recording
from gpuwatch.link.recording.records import BOOK, StreamRecord, content
from gpuwatch.link.recording.tee import MICRO
from gpuwatch.whole_file import own_target, replaced_whole
from gpuwatch.wire import Event, Finding, FrameError, GpuInfo, Hello, Process, Progress, Ranks, Sample

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

Row: TypeAlias = dict[str, Any]
BATCH_ROWS = 50_000
TABLES: Mapping[str, Mapping[str, str]] = {
    "gpus": {
        "time": "time", "node": "text", "gpu": "int", "uuid": "text", "model": "text", "job": "text",
        "user": "text", "rank": "int", "state": "text", "utilization_pct": "real", "memory_used_bytes": "int",
        "memory_total_bytes": "int", "temperature_c": "real", "power_w": "real", "sm_clock_mhz": "real",
        "throttle": "text", "throttle_pct": "real", "power_cap_pct": "real", "interval_s": "real",
    },
    "steps": {
        "time": "time", "node": "text", "file": "text", "job": "text", "rank": "int", "step": "real",
        "loss": "real", "grad_norm": "real", "lr": "real", "step_time_s": "real", "tokens_per_s": "real",
    },
    "events": {
        "time": "time", "node": "text", "gpu": "int", "code": "text", "severity": "text", "job": "text",
        "rank": "int", "text": "text", "file": "text", "count": "int",
    },
    "incidents": {
        "number": "int", "first": "time", "seen": "time", "severity": "text", "headline": "text",
    },
}  # fmt: skip
"""Table -> column -> type.

`throttle_pct` is the highest share of a reason; the power cap alone has `power_cap_pct`; `interval_s` is the
seconds that a sample represents.
"""
FAST_FIELDS = (
    "utilization_pct", "memory_used_bytes", "memory_total_bytes", "temperature_c", "power_w", "sm_clock_mhz",
)  # fmt: skip
STEP_FIELDS = ("step", "loss", "grad_norm", "lr", "step_time_s", "tokens_per_s")


class TablesError(Exception):
    """Raised if a table cannot be written."""


def write_tables(recording: Recording, folder: Path) -> dict[str, int]:
    """Write all tables into a folder, made if missing; return the number of rows of each table.

    Raises:
        TablesError: pyarrow is not installed, or the folder cannot be written.
    """
    try:
        import pyarrow.parquet
    except ImportError as error:
        raise TablesError("--parquet needs pyarrow: pip install 'gpuwatch-cluster[parquet]'") from error
    del pyarrow
    counts = dict.fromkeys(TABLES, 0)
    try:
        folder = own_target(folder)
        folder.mkdir(parents=True, exist_ok=True)
        with contextlib.ExitStack() as stack:
            writers = {name: stack.enter_context(_table(folder, name)) for name in TABLES}
            for name, row in rows_of(recording):
                writers[name].add(row)
                counts[name] += 1
    except OSError as error:
        raise TablesError(f"{folder}: {error.strerror or error}") from error
    return counts


@contextlib.contextmanager
def _table(folder: Path, name: str) -> Iterator[_Table]:
    """Yield a table to fill; its file gets the final name when complete."""
    with replaced_whole(folder / f"{name}.parquet") as file:
        table = _Table(file, TABLES[name])
        try:
            yield table
            table.flush()
        finally:
            table.writer.close()


class _Table:
    """The Parquet file of one table; rows are written in batches."""

    def __init__(self, file: BinaryIO, columns: Mapping[str, str]) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        types = {
            "text": pa.string(),
            "int": pa.int64(),
            "real": pa.float64(),
            "time": pa.timestamp("us", "UTC"),
        }
        self._columns = columns
        self._rows: list[Row] = []
        self._schema: pa.Schema = pa.schema([(name, types[what]) for name, what in columns.items()])
        self.writer: pq.ParquetWriter = pq.ParquetWriter(file, self._schema, compression="zstd")

    def add(self, row: Row) -> None:
        """Add a row; missing columns are null."""
        self._rows.append(row)
        if len(self._rows) >= BATCH_ROWS:
            self.flush()

    def flush(self) -> None:
        """Write the buffered rows."""
        import pyarrow as pa

        if self._rows:
            columns = {name: [row.get(name) for row in self._rows] for name in self._columns}
            self.writer.write_table(pa.table(columns, schema=self._schema))
        self._rows = []


def rows_of(recording: Recording) -> Iterator[tuple[str, Row]]:
    """Yield (name of a table, row of it), in the order of recorded time; the incidents are last."""
    nodes = {number: _NodeRows(name, recording.plan.interval_s) for number, name in recording.nodes.items()}
    for shift, record in _records(recording):
        node = nodes.get(record.node)
        if node is None or record.kind == BOOK:
            continue
        try:
            what = content(record)
        except FrameError:
            continue
        at = _time((record.at + shift) / MICRO)
        match what:
            case Hello():
                node.take_hello(what)
            case Ranks():
                node.take_processes(what.processes)
            case Sample():
                yield from (("gpus", row) for row in node.gpu_rows(what, at))
            case Progress() if what.fields:
                yield "steps", node.step_row(what, at)
            case Event() | Finding():
                yield "events", node.event_row(what, at)
    for mark in recording.incidents():
        yield "incidents", {
            "number": mark.number, "first": _time(mark.first), "seen": _time(mark.at / MICRO),
            "severity": mark.severity, "headline": mark.headline,
        }  # fmt: skip


def _records(recording: Recording) -> Iterator[tuple[int, StreamRecord]]:
    """Yield (wall clock minus recorded time in microseconds, record).

    The records of the first key frame come first.
    """
    _, _, records = recording.key_frame(recording.first)
    shift = recording.wall_shift(recording.first)
    yield from ((shift, record) for record in records)
    yield from ((block.wall, record) for block, record in recording.all_records())


def _time(at: float) -> datetime:
    return datetime.fromtimestamp(min(max(at, 0.0), 1.0e11), timezone.utc)


class _NodeRows:
    """Makes the rows of one node; keeps its GPUs and processes."""

    def __init__(self, name: str, interval_s: float) -> None:
        self._name, self._interval_s = name, interval_s
        self._gpus: dict[str, GpuInfo] = {}
        self._holders: dict[str, Process] = {}
        """GPU -> the rank on it, else another process that holds it."""

    def take_hello(self, hello: Hello) -> None:
        """Store the GPUs and the interval of a hello."""
        self._interval_s = hello.interval_s
        self._gpus = {gpu.uuid: gpu for gpu in hello.gpus}

    def take_processes(self, processes: Sequence[Process]) -> None:
        """Store which process uses which GPU; of several, one with a rank."""
        self._holders = {}
        for process in sorted(processes, key=lambda each: each.rank is not None):
            self._holders.update((held.uuid, process) for held in process.gpus)

    def gpu_rows(self, sample: Sample, at: datetime) -> Iterator[Row]:
        """Yield a row for each GPU that has new values or a problem."""
        for gpu in sample.gpus:
            fast, info, holder = gpu.fast, self._gpus.get(gpu.uuid), self._holders.get(gpu.uuid)
            if fast is None and gpu.state == "ok":
                continue
            row: Row = {
                "time": at, "node": self._name, "gpu": info and info.index, "uuid": gpu.uuid,
                "model": info and info.name, "job": holder and holder.job, "user": holder and holder.user,
                "rank": holder and holder.rank, "state": gpu.state, "interval_s": self._interval_s,
            }  # fmt: skip
            if fast is not None:
                row.update((name, getattr(fast, name)) for name in FAST_FIELDS)
                shares = dict(fast.throttle_pct or {})
                row["power_cap_pct"] = shares.pop("power_cap", None)
                row["throttle"] = None if fast.throttle is None else ",".join(fast.throttle)
                row["throttle_pct"] = max(shares.values(), default=None)
            yield row

    def step_row(self, progress: Progress, at: datetime) -> Row:
        """Return a row for what a rank logged."""
        values = {name: progress.fields.get(name) for name in STEP_FIELDS}
        found = {name: float(value) if value is not None else None for name, value in values.items()}
        return {
            "time": at, "node": self._name, "file": progress.file, "job": progress.job,
            "rank": progress.rank, **found,
        }  # fmt: skip

    def event_row(self, what: Event | Finding, at: datetime) -> Row:
        """Return a row for an event of driver or kernel, or for a line that a rule matched."""
        info = self._gpus.get(what.gpu or "")
        row: Row = {
            "time": at, "node": self._name, "gpu": info and info.index, "severity": what.severity,
            "count": what.count,
        }  # fmt: skip
        if isinstance(what, Finding):
            text = what.key_line
            return {
                **row,
                "code": what.rule,
                "job": what.job,
                "rank": what.rank,
                "text": text,
                "file": what.file,
            }
        return {
            **row,
            "code": what.event if what.code is None else f"{what.event} {what.code}",
            "text": what.title,
        }
