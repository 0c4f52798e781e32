"""Starts the process that monitors a run, exchanges messages with it, and waits for its end."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
from collections.abc import Mapping
from typing import Any

from gpuwatch.own_process import module_command

FINISH_S = 60.0
"""Maximum seconds to wait for the monitor's end: the summary of a run with large logs takes some time."""


class MonitorProcess:
    """The monitor process behind two pipes.

    It never delays the command; if it dies, the run goes on without it.
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        """Start the monitor; `config` holds the settings that `monitor.main` reads."""
        self._process = subprocess.Popen(
            module_command("gpuwatch.cli.run.monitoring.monitor"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL if not os.environ.get("GPUWATCH_DEBUG") else None,
            start_new_session=True,  # Ctrl-C is meant for the command
        )
        assert self._process.stdin is not None  # noqa: S101 - of a pipe
        assert self._process.stdout is not None  # noqa: S101 - opened with a pipe
        os.set_blocking(self._process.stdout.fileno(), False)
        self._buffer = b""
        self.title = ""
        self.final: dict[str, Any] | None = None
        """Its final message with `text`; None: it has not finished, or died."""
        self.tell(config)

    def tell(self, facts: Mapping[str, Any]) -> None:
        """Send the monitor one JSON object; does nothing if it has died."""
        stream = self._process.stdin
        with contextlib.suppress(OSError, ValueError):
            if stream is not None:
                stream.write(json.dumps(facts).encode() + b"\n")
                stream.flush()

    def poll(self) -> None:
        """Read what the monitor has written into `title` and `final`, without waiting."""
        stream = self._process.stdout
        try:
            data = b"" if stream is None else os.read(stream.fileno(), 1 << 16)
        except (BlockingIOError, OSError):
            return
        self._take(data)

    def _take(self, data: bytes) -> None:
        *lines, self._buffer = (self._buffer + data).split(b"\n")
        for line in lines:
            with contextlib.suppress(ValueError):
                facts = json.loads(line)
                self.title = facts.get("title", self.title)
                self.final = facts.get("final", self.final)

    def finish(self, end: Mapping[str, Any]) -> bool:
        """Send how the command ended and wait up to 60 s; return True if the monitor wrote the summary.

        A monitor that does not end in time is killed.
        """
        self.tell({"end": end})
        stream = self._process.stdout
        if stream is not None:
            os.set_blocking(stream.fileno(), True)
        try:
            data, _ = self._process.communicate(timeout=FINISH_S)
            self._take(data or b"")
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()
        except (OSError, ValueError):
            self._process.kill()
        return self.final is not None
