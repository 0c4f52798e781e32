"""One reading of an inference server's metrics, whatever engine it is of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

Buckets: TypeAlias = tuple[tuple[float, float], ...]
"""Of a histogram: upper bound in seconds (the last one infinite) and cumulative count, since the start."""


@dataclass(frozen=True, slots=True)
class ServerReading:
    """Gauges as they are, counters since the server's start. None is unknown."""

    at: float
    """Our monotonic clock."""
    engine: str
    """vLLM, SGLang, TGI or Triton."""
    running: float | None = None
    """Requests that are worked on."""
    waiting: float | None = None
    """Requests in the queue."""
    cache_share: float | None = None
    """Of the KV cache that is in use, 0 to 1; of several engines the fullest."""
    tokens_per_s: float | None = None
    """Generated, as the server or its log states it."""
    requests: float | None = None
    """Counter: requests that have ended."""
    failed: float | None = None
    """Counter: those that ended with an error of the server."""
    tokens: float | None = None
    """Counter: tokens generated."""
    latency: Buckets = ()
    """Whole requests."""
    first_token: Buckets = ()
    quantiles: tuple[tuple[float, float], ...] = ()
    """Quantile (0 to 1) and seconds of whole requests, where the server works them out itself."""
