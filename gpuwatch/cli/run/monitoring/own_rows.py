"""Selects the rows of this machine that belong to the run: other jobs run and log on it too."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from gpuwatch.cli.run.monitoring.samples import NodeSamples
from gpuwatch.diagnose.model.alert import Alert
from gpuwatch.plain import plain
from gpuwatch.report.dmon.json_stream import Row

MAX_STEPS_KEPT = 100_000


class OwnRows:
    """Selects the rows of a `JsonStream` that belong to one run; drops steps that a second file repeats."""

    def __init__(self, folder: Path, samples: NodeSamples, start: float) -> None:
        """Create the filter; `start` of the run is in unix seconds."""
        self._folder = str(folder)
        self._samples = samples
        self._start = start
        self._stepped: tuple[set[str | None], set[str | None]] = (set(), set())
        """The jobs of other steps, and of our own."""

        self._first_file: dict[tuple[int, int], str | None] = {}
        """(rank, step) -> the file that reported it; the newest."""

    def is_first(self, row: Row) -> bool:
        """Return True for a step that no other file has reported, and for every row that is not a step.

        The library's log and the console report the same steps. One file may report a step again, after a
        restart from a checkpoint.
        """
        if row["kind"] != "step":
            return True
        key = (row["rank"] or 0, row["step"])
        if len(self._first_file) >= MAX_STEPS_KEPT:
            self._first_file.pop(next(iter(self._first_file)))
        return bool(self._first_file.setdefault(key, row["file"]) == row["file"])

    def takes(self, row: Row, alerts: Mapping[str, Alert]) -> bool:
        """Return True if a row belongs to the run.

        GPU rows always do, as every GPU of the machine is watched.
        """
        if row["kind"] == "gpu":
            return True
        if row["kind"] == "step":
            is_own = row["job"] in self._samples.jobs or self._has_file(row["file"])
            self._stepped[is_own].add(row["job"])
            return is_own
        if row["kind"] == "job":
            others, own = self._stepped
            return row["job"] in self._samples.jobs or row["job"] in own - others
        alert = alerts.get(row["id"])
        return alert is not None and self.has_alert(alert)

    def has_alert(self, alert: Alert) -> bool:
        """Return True if an alert is about the run (see `NodeSamples.is_of_run`)."""
        return self._samples.is_of_run(alert, self._folder, self._start)

    def _has_file(self, file: str | None) -> bool:
        return bool(file) and str(file).startswith(plain(self._folder) + "/")
