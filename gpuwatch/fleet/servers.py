"""Inference servers: the last 15 minutes of their `/metrics` or their logs."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from gpuwatch.fleet.logs.progress import RankProgress
from gpuwatch.link.serving.server_reading import ServerReading

KEPT_READINGS = 200
"""Number of readings kept of one server: more than 15 minutes at one per 5 s."""
MAX_SERVERS = 256
LOG_EVERY_S = 4.0
"""A log that reports more often is sampled once in this many seconds."""
WAITING = "requests_waiting"
"""The progress field that marks its writer as an inference server."""


@dataclass
class InferenceServer:
    """One inference server: its readings of the last 15 minutes, oldest first, and why it cannot be read."""

    name: str
    readings: deque[ServerReading] = field(default_factory=lambda: deque(maxlen=KEPT_READINGS))
    error: str | None = None
    """Why the last attempt to read it failed."""
    failing_since: float | None = None
    """When it began to fail (our monotonic clock)."""
    node: str | None = None
    file: str | None = None
    """The log that reports it; None: `/metrics`."""
    offset: int | None = None
    """Offset of its newest line in bytes."""


class FleetServers:
    """All inference servers by name; `version` increases with every report."""

    def __init__(self) -> None:
        self.servers: dict[str, InferenceServer] = {}
        self.version = 0

    def expect(self, names: Iterable[str]) -> None:
        """Add the servers whose `/metrics` will be read; those over MAX_SERVERS are ignored."""
        for name in names:
            self._server(name)

    @property
    def is_waiting(self) -> bool:
        """Return True if a server has neither answered nor failed yet."""
        return any(not server.readings and server.error is None for server in self.servers.values())

    def take(self, name: str, answer: ServerReading | str, at: float) -> None:
        """Store a reading of a server's `/metrics`, or why it failed. `at`: our monotonic clock.

        New servers over MAX_SERVERS are ignored.
        """
        server = self._server(name)
        if server is None:
            return
        self.version += 1
        if isinstance(answer, str):
            server.error = answer
            server.failing_since = at if server.failing_since is None else server.failing_since
            return
        server.error = server.failing_since = None
        server.readings.append(answer)

    def take_logged(self, writer: RankProgress) -> None:
        """Store what the newest line of a server's log reports; other writers are ignored."""
        waiting = writer.values.get(WAITING)
        if waiting is None or not waiting.sure:
            return
        server = self._server(f"{writer.node} {writer.file.rpartition('/')[2]}")
        if server is None or (server.readings and waiting.at - server.readings[-1].at < LOG_EVERY_S):
            return
        server.node, server.file, server.offset = writer.node, writer.file, writer.offset
        self.version += 1
        server.readings.append(
            ServerReading(
                at=waiting.at,
                engine=ENGINE_OF.get(writer.dialect, "log"),
                running=writer.value("requests_running"),
                waiting=waiting.value,
                cache_share=writer.value("cache_share"),
                tokens_per_s=writer.value("tokens_per_s"),
            )
        )

    def _server(self, name: str) -> InferenceServer | None:
        if name not in self.servers and len(self.servers) >= MAX_SERVERS:
            return None
        return self.servers.setdefault(name, InferenceServer(name))


ENGINE_OF = {"progress.vllm": "vLLM", "progress.sglang": "SGLang"}
"""Log dialect -> engine."""
