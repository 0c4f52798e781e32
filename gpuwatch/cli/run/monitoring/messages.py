"""The messages between `gpuwatch run` and the process that monitors the run: one JSON object per line."""

from __future__ import annotations

import contextlib
import json
import os
import select
import sys
from typing import Any


def say(facts: dict[str, Any]) -> None:
    """Send `gpuwatch run` one JSON line on stdout; do nothing if it has ended."""
    with contextlib.suppress(OSError):
        sys.stdout.write(json.dumps(facts) + "\n")
        sys.stdout.flush()


class MonitorInput:
    """Reads the JSON objects that `gpuwatch run` sends on stdin, one per line."""

    def __init__(self) -> None:
        self._buffer = b""
        self._more: list[dict[str, Any]] = []

    def first(self) -> dict[str, Any]:
        first, *self._more = self.new(None)
        return first

    def new(self, wait_s: float | None) -> list[dict[str, Any]]:
        """Return the objects received within `wait_s` seconds; at the input's end an "interrupted" `end`.

        `wait_s`: None waits for the next input. Empty if no whole line has come.
        """
        if self._more:
            found, self._more = self._more, []
            return found
        ready, _, _ = select.select([0], [], [], wait_s)
        if not ready:
            return []
        data = os.read(0, 65_536)
        if not data:
            return [{"end": {"status": "interrupted", "exit_code": None, "exit_signal": None}}]
        *lines, self._buffer = (self._buffer + data).split(b"\n")
        return [json.loads(line) for line in lines]
