"""An export of Nsight Systems with the tables and columns of NVIDIA's "SQLite Export Schema Reference"."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from tests.runs.traces.gpu_traces import ALL_REDUCE, GEMM

SCHEMA = """
CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER NOT NULL, end INTEGER NOT NULL,
  deviceId INTEGER NOT NULL, contextId INTEGER NOT NULL, streamId INTEGER NOT NULL, correlationId INTEGER,
  globalPid INTEGER, demangledName INTEGER NOT NULL, shortName INTEGER NOT NULL, gridX INTEGER,
  blockX INTEGER, graphNodeId INTEGER);
CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start INTEGER NOT NULL, end INTEGER NOT NULL,
  deviceId INTEGER NOT NULL, contextId INTEGER NOT NULL, streamId INTEGER NOT NULL, correlationId INTEGER,
  globalPid INTEGER, bytes INTEGER NOT NULL, copyKind INTEGER NOT NULL, srcKind INTEGER, dstKind INTEGER);
CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER NOT NULL, end INTEGER NOT NULL,
  eventClass INTEGER NOT NULL, globalTid INTEGER, correlationId INTEGER, nameId INTEGER NOT NULL,
  returnValue INTEGER NOT NULL);
CREATE TABLE NVTX_EVENTS (start INTEGER NOT NULL, end INTEGER, eventType INTEGER NOT NULL, rangeId INTEGER,
  category INTEGER, color INTEGER, text TEXT, globalTid INTEGER, textId INTEGER, domainId INTEGER);
"""
DEVICES = """CREATE TABLE TARGET_INFO_CUDA_DEVICE (gpuId INTEGER, cudaId INTEGER, pid INTEGER, uuid TEXT,
  numMultiprocessors INTEGER)"""
GRAPHS = """CREATE TABLE CUPTI_ACTIVITY_KIND_GRAPH_TRACE (start INTEGER NOT NULL, end INTEGER NOT NULL,
  deviceId INTEGER NOT NULL, contextId INTEGER NOT NULL, streamId INTEGER NOT NULL, correlationId INTEGER,
  globalPid INTEGER, graphId INTEGER, graphExecId INTEGER)"""


def add_graph(path: Path, begin_us: int, end_us: int) -> None:
    """Add a launch of a CUDA graph to the first process, in microseconds from its start."""
    with closing(sqlite3.connect(path)) as database, database:
        database.execute(GRAPHS)
        times = 5_000_000_000 + 1000 * begin_us, 5_000_000_000 + 1000 * end_us
        row = (*times, 0, 1, 7, 13, 0x1000 << 24, 3, 4)
        insert = "INSERT INTO CUPTI_ACTIVITY_KIND_GRAPH_TRACE VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
        database.execute(insert, row)


def add_copy(path: Path, process: int, device: int) -> None:
    """Add a copy of 1 us on another GPU of a process."""
    with closing(sqlite3.connect(path)) as database, database:
        copy = "INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (?, ?, ?, 1, 13, 14, ?, 4096, 1, 1, 2)"
        database.execute(copy, (5_000_000_000, 5_000_001_000, device, process << 24))


def write_export(
    path: Path, devices: Sequence[int] = (0,), *, renumbered: bool = False, listed: bool = True
) -> Path:
    """For each GPU a process: 400 us of products, a copy of 20, an all-reduce of 100 (40 hidden).

    `renumbered`: CUDA_VISIBLE_DEVICES made each process's GPU its number 0; `listed`: the export has the
    table of devices.
    """
    with closing(sqlite3.connect(path)) as database, database:
        database.executescript(SCHEMA)
        names = [(1, GEMM), (2, ALL_REDUCE), (3, "cudaLaunchKernel"), (4, "gemm"), (5, "backward")]
        database.executemany("INSERT INTO StringIds VALUES (?, ?)", names)
        if listed:
            database.execute(DEVICES)
        for gpu in devices:
            process, device = (0x1000 + gpu) << 24, 0 if renumbered else gpu
            if listed:
                mapped = (gpu, device, 0x1000 + gpu, f"GPU-{gpu}", 132)
                database.execute("INSERT INTO TARGET_INFO_CUDA_DEVICE VALUES (?, ?, ?, ?, ?)", mapped)
            thread, at = process + 77, 5_000_000_000
            kernel = (
                "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (?, ?, ?, 1, 7, ?, ?, ?, 4, 32, 128, NULL)"
            )
            database.execute(kernel, (at + 100_000, at + 500_000, device, 11, process, 1))
            database.execute(kernel, (at + 460_000, at + 560_000, device, 12, process, 2))
            copy = "INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (?, ?, ?, 1, 13, 13, ?, 4096, 1, 1, 2)"
            database.execute(copy, (at + 50_000, at + 70_000, device, process))
            call = "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (?, ?, 0, ?, ?, 3, 0)"
            database.execute(call, (at + 20_000, at + 25_000, thread, 11))
            database.execute(call, (at + 30_000, at + 35_000, thread, 12))
            mark = "INSERT INTO NVTX_EVENTS VALUES (?, ?, 59, NULL, NULL, NULL, ?, ?, ?, 0)"
            database.execute(mark, (at, at + 1_000_000, "step", thread, None))
            database.execute(mark, (at + 18_000, at + 40_000, None, thread, 5))
    return path
