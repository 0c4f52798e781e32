"""The values of the job's GPUs around a moment, as CSV."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterator, Sequence
from datetime import datetime, timezone
from itertools import islice

from gpuwatch.fleet.fleet import Fleet
from gpuwatch.fleet.nodes.history import GPU_SERIES
from gpuwatch.fleet.nodes.node import Gpu, Node
from gpuwatch.plain import plain

BEFORE_S, AFTER_S = 300, 120
"""The period of the values: seconds before and after the moment, in one-second resolution."""
FINE_S = 900
"""Seconds for which a history has one-second values; older values are means over 2 minutes."""
BUCKET_S, BUCKETS = 120, 30
MAX_ROWS = 100_000
"""Most CSV rows; with more GPUs, a row covers more seconds."""
COLUMNS = {
    "util": "utilization_pct",
    "mem": "memory_pct",
    "power": "power_w",
    "temp": "temperature_c",
    "smclk": "sm_clock_mhz",
    "tensor": "tensor_activity_pct",
    "throttle": "slowdown_pct",
    "pcie": "pcie_bytes_per_s",
    "nvlink": "nvlink_bytes_per_s",
}

GPU_VALUES = "gpus/values.csv"
UNKNOWN = "unknown; in a recording, play up to that time: a jump skips values"


def first_value(fleet: Fleet, nodes: Sequence[str], at: float, now: float, wall: float) -> str | None:
    """Return the earliest time in the CSV as text; None if it is empty. Arguments as for `gpu_values`."""
    texts = islice(gpu_values(fleet, nodes, at, now, wall), 1, None)
    return min((row.partition(",")[0] for text in texts for row in text.splitlines()), default=None)


def gpu_values(fleet: Fleet, nodes: Sequence[str], at: float, now: float, wall: float) -> Iterator[str]:
    """Yield the text of the CSV: its header, then a piece per node; a row for each interval with a value.

    The intervals are so long that there are at most MAX_ROWS rows.

    Args:
        fleet: Contains the histories.
        nodes: The nodes whose GPUs are listed.
        at: The moment (unix seconds).
        now: Monotonic seconds.
        wall: Unix seconds of the same instant.
    """
    gpus = sum(len(fleet.nodes[name].gpus) for name in nodes)
    end = min(wall, at + AFTER_S)
    seconds, points = float(BUCKET_S * BUCKETS), BUCKETS
    if at - BEFORE_S >= wall - FINE_S:
        points = max(1, int(end - at + BEFORE_S))
        seconds = float(points)
    points = max(1, min(points, MAX_ROWS // max(1, gpus)))
    yield ",".join(["time", "node", "gpu", "uuid", "rank", *(COLUMNS[name] for name in GPU_SERIES)]) + "\n"
    for name in nodes:
        out = io.StringIO()
        rows = csv.writer(out, lineterminator="\n")
        node = fleet.nodes[name]
        for gpu in node.gpu_list():
            series = [gpu.history.series(each, seconds, points, now - (wall - end)) for each in GPU_SERIES]
            place = [plain(node.name), gpu.info.index, plain(gpu.info.uuid), _rank(node, gpu)]
            for index in range(points):
                values = [float(each[index]) for each in series]
                if not all(map(math.isnan, values)):
                    moment = end - seconds + (index + 0.5) * seconds / points
                    rows.writerow([stamp_text(moment), *place, *(_number(value) for value in values)])
        yield out.getvalue()


def stamp_text(moment: float) -> str:
    """Return unix time in the CSV's sortable format: `2026-03-01T12:03:11Z`."""
    return datetime.fromtimestamp(moment, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def _rank(node: Node, gpu: Gpu) -> int | str:
    ranks = [
        process.rank
        for process in node.processes
        if process.rank is not None and any(hold.uuid == gpu.info.uuid for hold in process.gpus)
    ]
    return ranks[0] if len(ranks) == 1 else " ".join(map(str, sorted(ranks) or gpu.last_ranks))


def _number(value: float) -> str:
    return "" if math.isnan(value) else f"{value:.6g}"
