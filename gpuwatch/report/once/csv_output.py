"""`once` as CSV: one row per GPU, units in the header names. Safe to open in a spreadsheet."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterator

from gpuwatch.report.once.json_output import Facts

NODE_COLUMNS = ("node", "node_state", "node_age_s", "node_error")
GPU_COLUMNS = (
    "index",
    "uuid",
    "name",
    "state",
    "reason",
    "age_s",
    "stuck_in",
    "stuck_s",
    "utilization_pct",
    "memory_utilization_pct",
    "memory_used_bytes",
    "memory_total_bytes",
    "temperature_c",
    "memory_temperature_c",
    "power_w",
    "power_limit_w",
    "energy_j",
    "sm_clock_mhz",
    "memory_clock_mhz",
    "throttle",
    "sm_activity_pct",
    "sm_occupancy_pct",
    "tensor_activity_pct",
    "dram_activity_pct",
    "fp32_activity_pct",
    "pcie_rx_bps",
    "pcie_tx_bps",
    "nvlink_rx_bps",
    "nvlink_tx_bps",
    "pcie_gen",
    "pcie_width",
    "performance_state",
    "encoder_pct",
    "decoder_pct",
    "fan_pct",
    "ecc_corrected",
    "ecc_uncorrected",
    "remapped_correctable",
    "remapped_uncorrectable",
    "remap_pending",
    "remap_failed",
    "retired_pages",
    "retired_pending",
    "pcie_replays",
    "nvlink_active",
    "recovery_action",
    "bus_id",
)
PROCESS_COLUMNS = ("pids", "ranks", "users")
HEADER = ("time", *NODE_COLUMNS, *GPU_COLUMNS, *PROCESS_COLUMNS)
FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")


def to_csv(facts: Facts) -> str:
    """Return the CSV with its header; a node with unknown GPUs has one row with empty GPU columns."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(HEADER)
    for row in rows(facts):
        writer.writerow([cell(value) for value in row])
    return text.getvalue()


def rows(facts: Facts) -> Iterator[list[object]]:
    """Yield the values of each row in the order of `HEADER`."""
    for node in facts["nodes"]:
        start = [facts["time"], node["name"], node["state"], node["age_s"], node["error"]]
        for gpu in node["gpus"]:
            processes = gpu["processes"]
            yield [
                *start,
                *(gpu[name] for name in GPU_COLUMNS),
                [process["pid"] for process in processes],
                [process["rank"] for process in processes if process["rank"] is not None],
                sorted({process["user"] for process in processes if process["user"]}),
            ]
        if not node["gpus"]:
            yield [*start, *[None] * (len(GPU_COLUMNS) + len(PROCESS_COLUMNS))]


def cell(value: object) -> str:
    """Return the text of a cell: "" for unknown; lists are joined by spaces.

    A quote in front of a spreadsheet formula prevents its evaluation.
    """
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return str(value)
    text = " ".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)
    return f"'{text}" if text.startswith(FORMULA_STARTS) else text
