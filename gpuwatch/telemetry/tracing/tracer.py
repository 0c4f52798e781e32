"""`DistributedTracer`: named code sections of all ranks in one file for chrome://tracing or Perfetto."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..base.json_files import write_json
from ..base.ranks import all_gather, identify

MAX_SECTIONS = 200_000
"""Maximum sections per rank; later ones are counted in `dropped`."""


class DistributedTracer:
    """Traces code sections of this rank; times are unix seconds of this node's clock.

    Durations are measured with a monotonic clock.
    """

    def __init__(self, *, enabled: bool = True) -> None:
        self.rank = identify().rank
        self.enabled = enabled
        self.traces: list[dict[str, Any]] = []
        """One section each: `rank`, `name`, `start`, `end` (unix s), `duration` (s)."""
        self.dropped = 0
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def trace(self, name: str) -> Iterator[None]:
        """Return a context manager that records the times of a section of code, also if it raises."""
        if not self.enabled:
            yield
            return
        start, began = time.time(), time.perf_counter()
        try:
            yield
        finally:
            duration = time.perf_counter() - began
            section = {"rank": self.rank, "name": name, "start": start}
            section.update(end=start + duration, duration=duration)
            with self._lock:
                if len(self.traces) < MAX_SECTIONS:
                    self.traces.append(section)
                else:
                    self.dropped += 1

    def chrome_events(self) -> list[dict[str, Any]]:
        """Return the sections as complete events of the Chrome trace format.

        `ts` and `dur` in microseconds.
        """
        with self._lock:
            sections = list(self.traces)
        return [
            {
                "name": each["name"],
                "cat": f"rank_{each['rank']}",
                "ph": "X",
                "ts": each["start"] * 1e6,
                "dur": each["duration"] * 1e6,
                "pid": each["rank"],
                "tid": 0,
            }
            for each in sections
        ]

    def export_traces(
        self, filename: str | os.PathLike[str] = "traces.json", *, all_ranks: bool = True
    ) -> Path | None:
        """Write the sections as JSON; return the file that this rank has written, or None.

        Args:
            filename: The file.
            all_ranks: True: one file of all ranks, written by rank 0 (a collective). Else each rank writes
                its own: `traces_rank0001.json` beside the one of rank 0.

        Raises:
            OSError: it cannot be written.
        """
        events = self.chrome_events()
        path = Path(filename)
        if all_ranks:
            events = [event for each in all_gather(events) for event in each]
            if self.rank != 0:
                return None
        elif self.rank != 0:
            path = path.with_name(f"{path.stem}_rank{self.rank:04d}{path.suffix}")
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, sorted(events, key=lambda event: event["ts"]))
        return path
