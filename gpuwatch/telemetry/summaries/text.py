"""Formats the two printed layouts: the summary of a rank, and the statistics across ranks. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

MIB = 2**20
CROSS_RANK_KEYS = ("mean", "std_dev", "min", "max")
INDEX_OF = {"min": "min_index", "max": "max_index"}


def seconds(value: float) -> str:
    """Return seconds as text: `3600.0s`, `897.5s`, `0.18s`, `0.000123s`.

    One decimal from 100 s on, three significant digits below; `1.23e-05s` below 0.0001 s.
    """
    return f"{value:.1f}s" if value >= 100 else f"{value:.3g}s"


def short_seconds(value: float) -> str:
    """Return seconds as text with three decimals: `0.096s`; small times with three significant digits."""
    return f"{value:.3f}s" if value >= 0.01 or value == 0 else f"{value:.3g}s"


def degrees(value: float) -> str:
    """Return degrees Celsius: `75.2C`."""
    return f"{value:.1f}C"


def rank_summary(summary: Mapping[str, Any]) -> str:
    """Return the summary of one rank as text, the largest timers first."""
    lines = [
        f"Telemetry Summary ({summary['hostname']}):",
        f"Total time: {summary['total_time']:.1f} seconds",
    ]
    for heading, key in (("CPU Timers", "timers"), ("CUDA Timers", "cuda_timers")):
        timers = {name: each for name, each in summary[key].items() if each["count"]}
        if timers:
            lines += ["", f"{heading}:"]
        for name in sorted(timers, key=lambda name: -float(timers[name]["total"])):
            each = timers[name]
            lines += [
                f"    {name}:",
                f"        Total: {each['total']:.1f}s Mean: {seconds(each['mean'])}",
                f"        Count: {each['count']} Percentage of total time: {each['percentage']:.2f}%",
            ]
    foot = []
    peak = summary.get("gpu_memory_peak") or {}
    if peak.get("allocated") is not None:
        foot.append(f"Peak GPU memory usage: {peak['allocated'] * MIB / 1e9:.1f} GB")
    heat = summary.get("gpu_temperature") or {}
    if heat.get("count"):
        foot.append(f"GPU temperature: Mean: {heat['mean']:.0f}°C Max: {heat['max']:.0f}°C")
    return "\n".join([*lines, "", *foot] if foot else lines)


def cross_rank_summary(statistics: Mapping[str, Any], ranks: int) -> str:
    """Return the statistics across `ranks` ranks as text; minimum and maximum are followed by their rank."""
    lines = ["Cross-Rank Statistics:"]
    heat = statistics.get("gpu_temperature")
    if heat:
        lines.append("GPU Temperature:")
        for name, each in heat.items():
            lines += [f"    {name}:", *_rows(each, degrees, 8)]
    for heading, key in (("Timers", "timers"), ("CUDA Timers", "cuda_timers")):
        if not statistics.get(key):
            continue
        lines += [""] * (len(lines) > 1) + [f"{heading}:"]
        for timer, by_name in statistics[key].items():
            lines.append(f"    {timer}:")
            for name, each in by_name.items():
                lines += [f"        {name}:", *_rows(each, short_seconds, 12)]
    if len(lines) == 1:
        lines.append(f"    nothing was measured on {ranks} ranks")
    return "\n".join(lines)


def _rows(statistics: Mapping[str, float], form: Any, indent: int) -> list[str]:
    rows = []
    for key in CROSS_RANK_KEYS:
        row = f"{' ' * indent}{key}: {form(statistics[key])}"
        index = statistics.get(INDEX_OF.get(key, ""))
        rows.append(row if index is None else f"{row}  # rank {index:.0f}")
    return rows
