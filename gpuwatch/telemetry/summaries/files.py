"""The files of `TelemetryTracker` and the callbacks, each written atomically."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..base.json_files import write_json
from .cross_rank import TEMPERATURE_NAMES, cross_rank_statistics

PREFIX = "telemetry_callback"


class TelemetryFiles:
    """Writes the four kinds of files into an output folder, which is created when the first is written."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def write_metrics(self, rank: int, metrics: Mapping[str, Any]) -> None:
        """Write the newest training metrics: `telemetry_callback_metrics_rank0000.json`."""
        self._write(f"metrics_rank{rank:04d}", metrics)

    def write_summary(self, rank: int, summary: Mapping[str, Any]) -> None:
        """Write the timing statistics of a rank: `telemetry_callback_rank0000.json`."""
        self._write(f"rank{rank:04d}", summary)

    def write_all_ranks(self, summaries: Sequence[Mapping[str, Any]]) -> None:
        """Write the summaries by rank, and the temperatures across ranks."""
        self._write("all_ranks", {f"rank{rank:04d}": summary for rank, summary in enumerate(summaries)})
        names = {"gpu_temperature": TEMPERATURE_NAMES}
        self._write("gpu_temperature_summary", cross_rank_statistics(summaries, names))

    def _write(self, name: str, value: Mapping[str, Any]) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        write_json(self.folder / f"{PREFIX}_{name}.json", value)


def timer_metrics(summary: Mapping[str, Any], rank: int) -> dict[str, float]:
    """Return the timers and temperatures as metrics of a logger: `rank000_steps_mean`."""
    found: dict[str, float] = {}
    heat = summary.get("gpu_temperature") or {}
    parts = {**summary["timers"], **summary["cuda_timers"], "gpu_temperature": heat}
    for name, statistics in parts.items():
        for key in ("mean", "median", "std_dev", "min", "max", "count"):
            if key in statistics:
                found[f"rank{rank:03d}_{name}_{key}"] = float(statistics[key])
    return found
