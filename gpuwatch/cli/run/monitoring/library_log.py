"""Reads the steps that `gpuwatch.telemetry` writes into the main log of a run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gpuwatch.plain import plain
from gpuwatch.report.dmon.json_stream import EMPTY_STEP, Row
from gpuwatch.report.once.jobs import finite
from gpuwatch.runs.sessions.folders.log_text import MAX_LINE_CHARS
from gpuwatch.runs.sessions.folders.main_log import METRICS, PAIR, PART, STEP

MAX_READ = 4 << 20
"""Maximum number of bytes per read; the rest is read by the next call."""
KEY_OF = {
    "loss": "loss",
    "lr": "learning_rate",
    "learning_rate": "learning_rate",
    "grad_norm": "grad_norm",
    "step_duration": "step_time_s",
    "samples_per_second": "samples_per_s",
    "tokens_per_second": "tokens_per_s",
    "mfu": "mfu",
    "epoch": "epoch",
}
"""Name in the log -> key of a step's row."""


class LibraryLog:
    """Reads the main log from where the last read ended.

    The node's log reader does not follow it: without the library it contains gpuwatch's own warnings, which
    would become findings again.
    """

    def __init__(self, path: Path, node: str) -> None:
        """Create the reader; the file need not exist yet."""
        self._path = path
        self._node = node
        self._offset = 0
        self._open: Row | None = None

    def new_steps(self, time: float) -> Iterator[Row]:
        """Yield the rows of the steps that the log has completed since the last call.

        `time` (unix seconds) becomes the time of every row. Yields nothing if the log cannot be read. Reads
        at most 4 MiB per call.
        """
        try:
            with self._path.open("rb") as file:
                file.seek(self._offset)
                data = file.read(MAX_READ)
        except OSError:
            return
        end = data.rfind(b"\n") + 1 or (len(data) if len(data) == MAX_READ else 0)
        self._offset += end
        for line in data[:end].split(b"\n"):
            for row in self._take(plain(line[: 4 * MAX_LINE_CHARS].decode(errors="replace"))):
                yield {**row, "time": time}

    def _take(self, line: str) -> Iterator[Row]:
        step, metrics = STEP.search(line), METRICS.search(line)
        if step:
            yield from self._close()
            self._open = {
                **EMPTY_STEP,
                "kind": "step",
                "node": self._node,
                "file": plain(str(self._path)),
                "rank": 0,
                "step": int(step["step"]),
                "total_steps": int(step["total"]) if step["total"] else None,
            }
            self._add({part["name"].lower(): float(part["value"]) for part in PART.finditer(step["parts"])})
        elif metrics and self._open is not None:
            self._add(
                {pair["name"].lower(): float(pair["value"]) for pair in PAIR.finditer(metrics["pairs"])}
            )
            yield from self._close()

    def _add(self, values: dict[str, Any]) -> None:
        if self._open is None:
            return
        self._open.update({KEY_OF[name]: finite(value) for name, value in values.items() if name in KEY_OF})
        eta_min = finite(values.get("eta"))
        if eta_min is not None:
            self._open["eta_s"] = 60 * eta_min

    def _close(self) -> Iterator[Row]:
        if self._open is not None:
            yield self._open
        self._open = None
