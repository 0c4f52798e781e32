"""Inference servers: the last 15 minutes of their `/metrics` or their logs."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from gpuwatch.fleet.logs.progress import RankProgress
from gpuwatch.link.serving.server_reading import ServerReading
from gpuwatch.rules.model.dialect import Dialect
from gpuwatch.wire import Progress

KEPT_READINGS = 200
"""Number of readings kept of one server: more than 15 minutes at one per 5 s."""
MAX_SERVERS = 256
LOG_EVERY_S = 4.0
"""A log that reports more often is sampled once in this many seconds."""
WAITING, REQUESTS, FAILED = "requests_waiting", "requests", "requests_failed"
"""Progress fields of inference servers: the queue, and the requests logged and failed in a tick."""
GAUGES_S = 20.0
"""A gauge of another writer of the same log is kept this long (seconds)."""
LATENCIES_S, KEPT_LATENCIES = 60.0, 8192
"""Maximum age (seconds) and number of the latencies from which quantiles are computed."""
QUANTILES = (0.5, 0.95, 0.99)


@dataclass
class InferenceServer:
    """The readings of an inference server in the last 15 minutes, oldest first, and the last error."""

    name: str
    readings: deque[ServerReading] = field(default_factory=lambda: deque(maxlen=KEPT_READINGS))
    error: str | None = None
    """Why the last attempt to read the server's metrics failed."""
    failing_since: float | None = None
    """When reading the server's metrics began to fail (our monotonic clock)."""
    node: str | None = None
    file: str | None = None
    """The log file that reports the server's values; None: `/metrics`."""
    offset: int | None = None
    """Offset in bytes of the newest line of the server's log."""
    requests: float | None = None
    """Requests that the server's log has counted; None: none so far."""
    failed: float | None = None
    """How many of `requests` failed; None: the log states no failures."""
    latencies: deque[tuple[float, float]] = field(default_factory=lambda: deque(maxlen=KEPT_LATENCIES))
    """(time on our monotonic clock, latency in seconds) of the server's requests."""

    def count(self, reported: Progress, logs_failures: bool, at: float) -> None:
        """Add the requests and latencies of a frame that was received at `at`.

        `logs_failures`: a failed request has a line in this log; otherwise the error rate is unknown.
        """
        ended = reported.fields.get(REQUESTS)
        if ended is None:
            return
        self.requests = (self.requests or 0.0) + float(ended)
        if logs_failures or FAILED in reported.fields:
            self.failed = (self.failed or 0.0) + float(reported.fields.get(FAILED, 0.0))
        self.latencies.extend((at, each) for each in reported.latencies_s)

    def quantiles(self, now: float) -> tuple[tuple[float, float], ...]:
        """Return (quantile, seconds) of the latencies of the last minute; empty if no request has one."""
        found = sorted(seconds for at, seconds in self.latencies if now - at <= LATENCIES_S)
        return tuple(
            (share, found[min(len(found) - 1, int(share * len(found)))]) for share in QUANTILES if found
        )


class FleetServers:
    """All inference servers by name; `version` increases with every report."""

    def __init__(self, dialects: Mapping[str, Dialect]) -> None:
        self._dialects = dialects
        self.servers: dict[str, InferenceServer] = {}
        self.version = 0

    def expect(self, names: Iterable[str]) -> None:
        """Add the servers whose `/metrics` will be read; those over MAX_SERVERS are ignored."""
        for name in names:
            self._server(name)

    @property
    def is_waiting(self) -> bool:
        """Return True if any server has neither answered nor failed yet."""
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

    def take_logged(self, writer: RankProgress, reported: Progress, at: float) -> None:
        """Store a frame from a server's log; frames without requests or a queue are ignored.

        Every request is counted, but a reading is stored only once in `LOG_EVERY_S`.

        `at`: our monotonic clock when the frame arrived.
        """
        waiting = writer.values.get(WAITING)
        counts = REQUESTS in reported.fields
        if not counts and (waiting is None or not waiting.sure or WAITING not in reported.fields):
            return
        server = self._server(f"{writer.node} {writer.file.rpartition('/')[2]}")
        if server is None:
            return
        dialect = self._dialects.get(reported.dialect)
        server.count(reported, dialect is not None and dialect.logs_failures, at)
        if waiting is not None and WAITING in reported.fields:
            at = waiting.at
        before = server.readings[-1] if server.readings else None
        if before is not None and at - before.at < LOG_EVERY_S:
            return
        server.node, server.file, server.offset = writer.node, writer.file, writer.offset
        self.version += 1
        is_recent = before is not None and at - before.at <= GAUGES_S

        def gauge(name: str, kept: float | None) -> float | None:
            value = reported.fields.get(name)
            return float(value) if value is not None else kept if is_recent else None

        if before is None:
            before = ServerReading(at, UNNAMED)
        server.readings.append(
            ServerReading(
                at=at,
                engine=before.engine if dialect is None else dialect.engine or before.engine,
                running=gauge("requests_running", before.running),
                waiting=gauge(WAITING, before.waiting),
                cache_share=gauge("cache_share", before.cache_share),
                tokens_per_s=gauge("tokens_per_s", before.tokens_per_s),
                requests=server.requests,
                failed=server.failed,
                quantiles=server.quantiles(at),
            )
        )

    def _server(self, name: str) -> InferenceServer | None:
        if name not in self.servers and len(self.servers) >= MAX_SERVERS:
            return None
        return self.servers.setdefault(name, InferenceServer(name))


UNNAMED = "log"
