"""Which rows of the machine are of the run: other jobs run and log beside it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from gpuwatch.cli.run.samples import NodeSamples
from gpuwatch.diagnose.model.alert import Alert
from gpuwatch.plain import plain
from gpuwatch.report.dmon.json_stream import Row

MAX_STEPS_KEPT = 100_000


class OwnRows:
    """Takes the rows of `JsonStream` one after the other."""

    def __init__(self, folder: Path, samples: NodeSamples, start: float) -> None:
        """Begin; `start` of the run is in unix seconds."""
        self._folder = str(folder)
        self._samples = samples
        self._start = start
        self._stepped: tuple[set[str | None], set[str | None]] = (set(), set())
        """The jobs of steps of others, and of our own."""

        self._told: dict[tuple[int, int], str | None] = {}
        """Rank and step -> the file that told of it; the newest."""

    def is_first(self, row: Row) -> bool:
        """Whether no other file has told of the step: the library's log and the console tell of the same.

        One file may tell of a step again: after a restart from a checkpoint.
        """
        if row["kind"] != "step":
            return True
        key = (row["rank"] or 0, row["step"])
        if len(self._told) >= MAX_STEPS_KEPT:
            self._told.pop(next(iter(self._told)))
        return bool(self._told.setdefault(key, row["file"]) == row["file"])

    def takes(self, row: Row, alerts: Mapping[str, Alert]) -> bool:
        """Whether a row is of the run; every GPU of the machine is, used or not."""
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
        """Whether an alert is about the run."""
        return self._samples.is_of_run(alert, self._folder, self._start)

    def _has_file(self, file: str | None) -> bool:
        return bool(file) and str(file).startswith(plain(self._folder) + "/")
