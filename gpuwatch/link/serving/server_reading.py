"""One reading of an inference server's metrics, independent of the engine."""

from __future__ import annotations

from typing import TypeAlias

from msgspec import Struct

Buckets: TypeAlias = tuple[tuple[float, float], ...]
"""Histogram: upper bound in seconds (the last is infinite) and cumulative count since the start."""


class ServerReading(Struct, frozen=True):
    """One reading of an inference server: current gauges, counters since its start. None: unknown."""

    at: float
    """Our monotonic clock."""
    engine: str
    """The name of the server's software: vLLM, SGLang, TGI or Triton."""
    running: float | None = None
    """Requests in progress."""
    waiting: float | None = None
    """Requests in the queue."""
    cache_share: float | None = None
    """Share of the KV cache in use, 0 to 1; of several engines the highest."""
    tokens_per_s: float | None = None
    """Generated tokens per second, as reported by the server or its log."""
    requests: float | None = None
    """Counter: ended requests."""
    failed: float | None = None
    """Counter: requests that ended with a server error."""
    tokens: float | None = None
    """Counter: tokens generated."""
    latency: Buckets = ()
    """Latency of whole requests."""
    first_token: Buckets = ()
    quantiles: tuple[tuple[float, float], ...] = ()
    """(quantile 0 to 1, seconds) of whole requests, if the server computes them."""
