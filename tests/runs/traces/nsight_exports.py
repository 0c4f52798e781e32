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


def write_export(path: Path, devices: Sequence[int] = (0,)) -> Path:
    """For each GPU a process: 400 us of products, a copy of 20, an all-reduce of 100 (40 hidden)."""
    with closing(sqlite3.connect(path)) as database, database:
        database.executescript(SCHEMA)
        names = [(1, GEMM), (2, ALL_REDUCE), (3, "cudaLaunchKernel"), (4, "gemm"), (5, "backward")]
        database.executemany("INSERT INTO StringIds VALUES (?, ?)", names)
        for device in devices:
            process = (0x1000 + device) << 24
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
