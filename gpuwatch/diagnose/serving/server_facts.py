"""Activity of a server in the last minute, from its counters and gauges. Pure functions."""

from __future__ import annotations

import math
from collections.abc import Sequence

from msgspec import Struct

from gpuwatch.fleet.servers import InferenceServer
from gpuwatch.link.serving.server_reading import Buckets, ServerReading

WINDOW_S = 60.0
STALE_S = 20.0
"""Age in seconds after which a reading is stale; readings come every 5 s, from a log every 10 s."""
QUANTILES = (0.5, 0.95, 0.99)


class Latencies(Struct, frozen=True):
    """Latency quantiles (p50, p95, p99) in seconds. None: no requests, or not reported."""

    p50: float | None = None
    p95: float | None = None
    p99: float | None = None


class ServerFacts(Struct, frozen=True):
    """State and rates of one server over the last WINDOW_S. None: unknown."""

    name: str
    engine: str | None
    at: float | None
    """Time of the newest reading (our monotonic clock)."""
    stale: bool
    error: str | None
    source: str
    """`metrics` or `log`."""
    running: float | None = None
    waiting: float | None = None
    cache_pct: float | None = None
    tokens_per_s: float | None = None
    requests_per_s: float | None = None
    requests: float | None = None
    """Requests that ended within the window."""
    error_pct: float | None = None
    """Percent of the ended requests that failed."""
    latency: Latencies = Latencies()
    first_token: Latencies = Latencies()


def server_facts(server: InferenceServer, now: float) -> ServerFacts:
    """Return state and rates of a server. `now`: our monotonic clock."""
    source = "metrics" if server.file is None else "log"
    if not server.readings:
        return ServerFacts(server.name, None, None, True, server.error, source)
    newest = server.readings[-1]
    window = since_start([each for each in server.readings if each.at >= newest.at - WINDOW_S])
    first = window[0]
    took_s = newest.at - first.at
    requests, failed = _more(first.requests, newest.requests), _more(first.failed, newest.failed)
    tokens = _more(first.tokens, newest.tokens)
    return ServerFacts(
        name=server.name,
        engine=newest.engine,
        at=newest.at,
        stale=now - newest.at > STALE_S,
        error=server.error,
        source=source,
        running=newest.running,
        waiting=newest.waiting,
        cache_pct=None if newest.cache_share is None else 100.0 * newest.cache_share,
        tokens_per_s=newest.tokens_per_s if tokens is None or took_s <= 0 else tokens / took_s,
        requests_per_s=None if requests is None or took_s <= 0 else requests / took_s,
        requests=requests,
        error_pct=None if failed is None or not requests else 100.0 * min(1.0, failed / requests),
        latency=_latencies(first.latency, newest.latency) if newest.latency else _own(newest),
        first_token=_latencies(first.first_token, newest.first_token),
    )


def since_start(readings: Sequence[ServerReading]) -> Sequence[ServerReading]:
    """Return the readings since the server's last restart, which reset its counters."""
    for number in range(len(readings) - 1, 0, -1):
        before, after = _counters(readings[number - 1]), _counters(readings[number])
        if any(
            old is not None and new is not None and new < old for old, new in zip(before, after, strict=True)
        ):
            return readings[number:]
    return readings


def _counters(reading: ServerReading) -> tuple[float | None, ...]:
    return reading.requests, reading.failed, reading.tokens


def quantile(before: Buckets, now: Buckets, share: float) -> float | None:
    """Return the `share` quantile (0 to 1) of the requests between two histogram readings.

    Computed as by Prometheus; in the highest bucket, which has no upper bound, it is the lower bound.
    None: there were no requests, or the last bucket has an upper bound (the histogram is incomplete).
    """
    earlier = dict(before)
    counts = [(bound, count - earlier.get(bound, 0.0)) for bound, count in now]
    whole = counts[-1][1] if counts else 0.0
    if whole <= 0 or not math.isinf(counts[-1][0]):
        return None
    wanted, lower, below = share * whole, 0.0, 0.0
    for bound, count in counts:
        if count >= wanted:
            if math.isinf(bound):
                return lower
            inside = count - below
            return bound if inside <= 0 else lower + (bound - lower) * (wanted - below) / inside
        lower, below = bound, count
    return None


def _latencies(before: Buckets, now: Buckets) -> Latencies:
    return Latencies(*(quantile(before, now, share) for share in QUANTILES))


def _own(reading: ServerReading) -> Latencies:
    known = dict(reading.quantiles)
    return Latencies(*(known.get(share) for share in QUANTILES))


def _more(before: float | None, now: float | None) -> float | None:
    """Return the growth of a counter; one without an earlier reading began at 0. None: it is not read now.

    Some counters appear only with their first event.
    """
    return None if now is None else max(0.0, now - (before or 0.0))
