"""Reads Nsight Systems reports exported to SQLite (`nsys export --type sqlite`) as columns.

Tables and columns follow NVIDIA's "SQLite Export Schema Reference"; a table exists only if it has rows.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

from gpuwatch.plain import plain
from gpuwatch.runs.traces.event_stream import NoTraceError
from gpuwatch.runs.traces.kinds import EventKind, kernel_kind
from gpuwatch.runs.traces.rank_trace import (
    MAX_EVENTS,
    NO_VALUE,
    EventColumns,
    RankTrace,
    TextNumbers,
    as_events,
)

SQLITE_BEGINS = b"SQLite format 3\0"
ROWS_AT_ONCE = 10_000
MAX_STRINGS = 2_000_000
COPY_KINDS = {1: "HtoD", 2: "DtoH", 8: "DtoD", 10: "PtoP"}
"""CUPTI's number of a copy kind -> its name, for the kinds that a training uses."""
KERNELS, COPIES = "CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_MEMCPY"
FILLS, CALLS, RANGES = "CUPTI_ACTIVITY_KIND_MEMSET", "CUPTI_ACTIVITY_KIND_RUNTIME", "NVTX_EVENTS"
GRAPHS = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"
"""Name of the table of CUDA graph launches.

Without `--cuda-graph-trace=node` these replace the rows of the kernels in the graphs.
"""
DEVICES = "TARGET_INFO_CUDA_DEVICE"
READ_TABLES = frozenset((KERNELS, COPIES, FILLS, GRAPHS, CALLS, RANGES, DEVICES, "StringIds"))
CUDA_GRAPH = "CUDA graph"
GRAPHS_NOTE = (
    "CUDA graphs count as computation as a whole; nsys --cuda-graph-trace=node records their kernels"
)
MAX_TRACES = 4_096
"""Most processes and GPUs of one report; a node has 16 at most."""
MAX_VALUE_BYTES = 16 << 20
"""Most bytes of one value; a name of a kernel has a few kilobytes."""
MINOR_SHARE = 0.01
"""Busy time of a GPU, as a share of the process's busiest GPU, below which the GPU is left out."""
MAX_NOTES = 8
NVTX_RANGES = (59, 60)
"""Event types of NVTX push-pop and start-end ranges."""


class _Export:
    """An open export of Nsight Systems."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database
        rows = database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        self._tables = {str(name) for (name,) in rows}
        self._refuse_computed()
        self.names = TextNumbers()
        self._strings: dict[int, int] = {}
        if "StringIds" in self._tables:
            for count, (number, text) in enumerate(self.rows("SELECT id, value FROM StringIds")):
                if count >= MAX_STRINGS:
                    raise NoTraceError(f"more than {MAX_STRINGS:,} names")
                self._strings[number] = self.names.number(plain(str(text))[:300])

    def _refuse_computed(self) -> None:
        """Raise an error if a table has computed columns, since such a column is a program.

        Raises:
            NoTraceError: a table has one.
        """
        for table in self._tables & READ_TABLES:
            if any(row[6] > 1 for row in self._database.execute(f'PRAGMA table_xinfo("{table}")')):
                raise NoTraceError(f"not written by nsys: a column of {table} is computed")

    def has(self, table: str) -> bool:
        return table in self._tables

    def columns(self, table: str) -> set[str]:
        """Return the columns of a table, which differ between versions of nsys."""
        return {str(row[1]) for row in self._database.execute(f'PRAGMA table_info("{table}")')}

    def rows(self, query: str) -> Iterator[tuple[int, ...]]:
        cursor = self._database.execute(query)
        while rows := cursor.fetchmany(ROWS_AT_ONCE):
            yield from rows

    def name(self, number: int | None) -> int:
        found = self._strings.get(number) if number is not None else None
        return self.names.number("unnamed") if found is None else found


def read_nsight(path: Path, name: str, rank: int | None) -> list[RankTrace]:
    """Return the trace of each process and GPU in an export.

    Raises:
        NoTraceError: the file is not an export with GPU events, or is damaged.
    """
    uri = f"file:{quote(str(path.absolute()))}?mode=ro&immutable=1"
    try:
        with closing(sqlite3.connect(uri, uri=True)) as database:
            database.execute("PRAGMA trusted_schema = OFF")
            if hasattr(database, "setlimit"):  # from Python 3.11 on
                database.setlimit(getattr(sqlite3, "SQLITE_LIMIT_LENGTH", 0), MAX_VALUE_BYTES)
            return _read(_Export(database), name, rank)
    except NoTraceError:
        raise
    except (sqlite3.Error, OverflowError) as error:
        raise NoTraceError(f"not readable as SQLite: {plain(str(error))[:120]}") from error
    except (TypeError, ValueError) as error:  # SQLite keeps text, bytes and nothing in any column
        raise NoTraceError("damaged: a time or number in it is of another type") from error


def _read(export: _Export, file: str, rank: int | None) -> list[RankTrace]:
    if not any(export.has(table) for table in (KERNELS, COPIES, CALLS, RANGES)):
        raise NoTraceError(
            "an SQLite file, but not an Nsight Systems export: none of the expected tables exists"
        )
    of_device: dict[tuple[int, int], EventColumns] = {}
    details = TextNumbers()
    total = 0
    for device, process, event in _gpu_rows(export):
        total += 1
        of_device.setdefault((process, device), EventColumns()).add(*event)
        _refuse_more(total)
    callers = {process for process, _ in of_device}
    on_cpu: dict[int, EventColumns] = {}
    for process, call in _cpu_rows(export):
        total += 1
        on_cpu.setdefault(process if process in callers else NO_VALUE, EventColumns()).add(*call)
        _refuse_more(total)
    if len(of_device) > MAX_TRACES:
        raise NoTraceError(f"more than {MAX_TRACES:,} processes with a GPU")
    if not of_device:
        raise NoTraceError("it holds no GPU kernels or copies: profile with `nsys profile --trace=cuda`")
    physical = _physical_gpus(export)
    notes = _without_minor_gpus(of_device)
    notes += [GRAPHS_NOTE] if export.has(GRAPHS) else []
    gpu_of = {key: physical.get((pid_of(key[0]), key[1]), key[1]) for key in of_device}
    uses = Counter(gpu_of.values())
    traces = []
    for (process, device), columns in sorted(of_device.items()):
        for of_cpu in _rows_of(on_cpu.get(process)):
            columns.add(*of_cpu)
        trace = RankTrace(file, rank if len(callers) == 1 else None)
        if len(of_device) > 1:
            trace.device = gpu_of[process, device]
            trace.process = pid_of(process) if uses[trace.device] > 1 else None
        trace.names, trace.details = export.names.texts, details.texts
        trace.events = as_events(columns)
        trace.notes = list(notes)
        traces.append(trace)
    return traces


def _physical_gpus(export: _Export) -> dict[tuple[int, int], int]:
    """Return (pid, device number in the process) -> number of the GPU on its node.

    CUDA_VISIBLE_DEVICES renumbers the GPUs of a process from 0 on. Empty: the export does not list them.
    """
    if not export.has(DEVICES) or not {"gpuId", "cudaId", "pid"} <= export.columns(DEVICES):
        return {}
    rows = export.rows(f"SELECT pid, cudaId, gpuId FROM {DEVICES} LIMIT {MAX_TRACES}")  # noqa: S608 - names of our own
    return {
        (int(pid), int(cuda)): int(gpu)
        for pid, cuda, gpu in rows
        if pid is not None and cuda is not None and gpu is not None
    }


def _without_minor_gpus(of_device: dict[tuple[int, int], EventColumns]) -> list[str]:
    """Remove from each process the GPUs on which it did next to nothing; return at most `MAX_NOTES` notes.

    A process that opens a context on GPU 0 beside its own GPU leaves a few copies there, which are no rank.
    """
    busy_us = {key: sum(columns.durations) for key, columns in of_device.items()}
    most: dict[int, float] = {}
    for (process, _), busy in busy_us.items():
        most[process] = max(most.get(process, 0.0), busy)
    notes = []
    for (process, device), busy in busy_us.items():
        if busy < MINOR_SHARE * most[process]:
            del of_device[process, device]
            notes.append(f"process {pid_of(process)} is busy {busy / 1e3:.3f} ms on GPU {device}: left out")
    return notes[:MAX_NOTES]


def _rows_of(
    columns: EventColumns | None,
) -> Iterator[tuple[EventKind, int, int, float, float, tuple[int, int]]]:
    if columns is None:
        return
    for row in range(len(columns)):
        yield (
            EventKind(columns.kinds[row]),
            columns.names[row],
            columns.threads[row],
            columns.starts[row],
            columns.durations[row],
            (NO_VALUE, columns.correlations[row]),
        )


def _refuse_more(total: int) -> None:
    if total > MAX_EVENTS:
        raise NoTraceError(f"more than {MAX_EVENTS:,} events: profile fewer steps")


def _gpu_rows(
    export: _Export,
) -> Iterator[tuple[int, int, tuple[EventKind, int, int, float, float, tuple[int, int], int, float]]]:
    """Yield device, process and event of each kernel, copy, fill and launch of a CUDA graph."""
    for table in (KERNELS, COPIES, FILLS, GRAPHS):
        if not export.has(table):
            continue
        known = export.columns(table)
        process = "globalPid" if "globalPid" in known else "0"
        label = "copyKind" if table == COPIES else "NULL"
        if table == KERNELS:
            label = "demangledName" if "demangledName" in known else "shortName"
        size = "bytes" if "bytes" in known else "NULL"
        query = f'SELECT start, "end", deviceId, {process}, correlationId, {label}, {size} FROM {table}'  # noqa: S608 - our own names
        for start, end, device, of_process, correlation, named, nbytes in export.rows(query):
            if table == KERNELS:
                name = export.name(named)
                kind = kernel_kind(export.names.texts[name])
            elif table == GRAPHS:
                name, kind = export.names.number(CUDA_GRAPH), EventKind.KERNEL
            else:
                text = "Memset" if table == FILLS else f"Memcpy {COPY_KINDS.get(named, 'other')}"
                name, kind = export.names.number(text), EventKind.MEMORY_COPY
            yield (
                int(device or 0),
                int(of_process or 0),
                (
                    kind,
                    name,
                    NO_VALUE,
                    start / 1e3,
                    (end - start) / 1e3,
                    (NO_VALUE, NO_VALUE if correlation is None else correlation),
                    NO_VALUE,
                    float("nan") if nbytes is None else float(nbytes),
                ),
            )


def _cpu_rows(
    export: _Export,
) -> Iterator[tuple[int, tuple[EventKind, int, int, float, float, tuple[int, int]]]]:
    """Yield process and event of each CUDA runtime call and NVTX range."""
    threads = TextNumbers()
    if export.has(CALLS):
        query = f'SELECT start, "end", globalTid, correlationId, nameId FROM {CALLS} WHERE "end" IS NOT NULL'  # noqa: S608 - names of our own
        for start, end, thread, correlation, name in export.rows(query):
            joins = (NO_VALUE, NO_VALUE if correlation is None else correlation)
            yield (
                process_of(thread),
                (
                    EventKind.RUNTIME,
                    export.name(name),
                    threads.number(thread),
                    start / 1e3,
                    (end - start) / 1e3,
                    joins,
                ),
            )
    if export.has(RANGES):
        query = (
            f'SELECT start, "end", globalTid, text, textId FROM {RANGES} WHERE "end" IS NOT NULL'  # noqa: S608 - names of our own
            f" AND eventType IN {NVTX_RANGES}"
        )
        for start, end, thread, text, number in export.rows(query):
            name = export.names.number(plain(str(text))[:300]) if text is not None else export.name(number)
            yield (
                process_of(thread),
                (
                    EventKind.ANNOTATION,
                    name,
                    threads.number(thread),
                    start / 1e3,
                    (end - start) / 1e3,
                    (NO_VALUE, NO_VALUE),
                ),
            )


def pid_of(global_process: int) -> int:
    """Return the process id in a `globalPid`: the 24 bits over the lowest 24."""
    return global_process >> 24 & 0xFFFFFF


def process_of(global_thread: int | None) -> int:
    """Return the `globalPid` of a `globalTid`, whose lowest 24 bits are the thread; 0 for None."""
    return 0 if global_thread is None else global_thread >> 24 << 24
