"""The metrics of each inference engine, and their meaning.

Sources: vLLM, docs/design/metrics.md and usage/metrics (0.4 to 0.11; `gpu_cache_usage_perc` became
`kv_cache_usage_perc`); SGLang, docs/references/production_metrics.md; TGI, reference/metrics of its
documentation; Triton, docs/user_guide/metrics.md. HTTP status codes of vLLM's and other FastAPI servers are
those of prometheus-fastapi-instrumentator (`http_requests_total`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

from msgspec import Struct

from gpuwatch.link.serving.exposition import MAX_VALUE, MetricSample, samples
from gpuwatch.link.serving.server_reading import Buckets, ServerReading

HTTP = "http_requests_total"
NOT_REQUESTS = ("/metrics", "/health", "/ping", "/version", "/load", "/v1/models", "none")
"""HTTP handlers that are no inference requests; `none`: a path that the server does not have."""
CLIENT_ERRORS_OF_TGI = ("validation", "template", "dropped")
"""`err` of requests that TGI refuses with status 422, or whose client has left (its router/src/infer)."""


class Engine(Struct, frozen=True):
    """The metric names of one inference engine; of several alternatives, the first one present is used."""

    name: str
    prefix: str
    running: Sequence[str] = ()
    waiting: Sequence[str] = ()
    cache_share: Sequence[str] = ()
    tokens_per_s: Sequence[str] = ()
    requests: Sequence[str] = ()
    """Counters of ended requests; with `failed_apart` of those without error, to which `failed` is added."""
    failed: Sequence[str] = ()
    fails: Callable[[dict[str, str]], bool] = lambda _labels: True
    """True if a sample of `failed` with these labels is a server error."""
    failed_apart: bool = False
    """True if `requests` excludes failed ones."""
    tokens: Sequence[str] = ()
    latency: Sequence[str] = ()
    first_token: Sequence[str] = ()
    first_token_unit_s: float = 1.0
    quantiles: Sequence[str] = ()
    quantile_unit_s: float = 1.0


ENGINES = (
    Engine(
        "vLLM",
        "vllm:",
        running=("vllm:num_requests_running",),
        waiting=("vllm:num_requests_waiting",),
        cache_share=("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"),
        requests=("vllm:request_success_total", "vllm:request_success"),
        failed=("vllm:request_success_total", "vllm:request_success"),
        fails=lambda labels: labels.get("finished_reason") == "error",
        tokens=("vllm:generation_tokens_total", "vllm:generation_tokens"),
        latency=("vllm:e2e_request_latency_seconds",),
        first_token=("vllm:time_to_first_token_seconds",),
    ),
    Engine(
        "SGLang",
        "sglang:",
        running=("sglang:num_running_reqs",),
        waiting=("sglang:num_queue_reqs",),
        cache_share=("sglang:token_usage",),
        tokens_per_s=("sglang:gen_throughput",),
        requests=("sglang:num_requests_total", "sglang:e2e_request_latency_seconds_count"),
        tokens=("sglang:generation_tokens_total",),
        latency=("sglang:e2e_request_latency_seconds",),
        first_token=("sglang:time_to_first_token_seconds",),
    ),
    Engine(
        "TGI",
        "tgi_",
        running=("tgi_batch_current_size",),
        waiting=("tgi_queue_size",),
        requests=("tgi_request_count",),
        failed=("tgi_request_failure",),
        fails=lambda labels: labels.get("err") not in CLIENT_ERRORS_OF_TGI,
        tokens=("tgi_request_generated_tokens_sum",),
        latency=("tgi_request_duration",),
    ),
    Engine(
        "Triton",
        "nv_inference_",
        waiting=("nv_inference_pending_request_count",),
        requests=("nv_inference_request_success",),
        failed=("nv_inference_request_failure",),
        fails=lambda labels: labels.get("reason") != "CANCELED",
        failed_apart=True,
        first_token=("nv_inference_first_response_histogram_ms",),
        first_token_unit_s=1e-3,
        quantiles=("nv_inference_request_summary_us",),
        quantile_unit_s=1e-6,
    ),
)
"""The known inference servers, in the order in which they are tried."""


class NoEngineError(ValueError):
    """Raised for a page without metrics of a known engine."""


def read_page(text: str, at: float) -> ServerReading:
    """Return the reading in the text of a metrics page. `at`: our monotonic clock.

    Raises:
        NoEngineError: No known engine wrote it.
    """
    by_name: dict[str, list[MetricSample]] = {}
    for sample in samples(text, [*(engine.prefix for engine in ENGINES), HTTP]):
        by_name.setdefault(sample.name, []).append(sample)
    engine = next((each for each in ENGINES if any(name.startswith(each.prefix) for name in by_name)), None)
    if engine is None:
        raise NoEngineError("no metrics of vLLM, SGLang, TGI or Triton")
    return _reading(engine, by_name, at)


def _reading(engine: Engine, by_name: dict[str, list[MetricSample]], at: float) -> ServerReading:
    def found(names: Sequence[str]) -> list[MetricSample]:
        return next((by_name[name] for name in names if name in by_name), [])

    requests = _sum(found(engine.requests))
    failing = found(engine.failed)
    failed = _sum([each for each in failing if engine.fails(each.labels)])
    if failed is None and engine.failed and (failing or requests is not None):
        failed = 0.0  # TGI has the counter from its first failure on
    if engine.failed_apart and requests is not None:
        requests = min(MAX_VALUE, requests + (failed or 0.0))
    answers = [each for each in by_name.get(HTTP, ()) if each.labels.get("handler") not in NOT_REQUESTS]
    if answers:
        requests = _sum(answers)
        failed = _sum([each for each in answers if each.labels.get("status", "").startswith("5")]) or 0.0
    return ServerReading(
        at=at,
        engine=engine.name,
        running=_sum(found(engine.running)),
        waiting=_sum(found(engine.waiting)),
        cache_share=_share(found(engine.cache_share)),
        tokens_per_s=_sum(found(engine.tokens_per_s)),
        requests=requests,
        failed=failed,
        tokens=_sum(found(engine.tokens)),
        latency=_buckets(by_name, engine.latency, 1.0),
        first_token=_buckets(by_name, engine.first_token, engine.first_token_unit_s),
        quantiles=_quantiles(found(engine.quantiles), engine.quantile_unit_s),
    )


def _sum(found: Iterable[MetricSample]) -> float | None:
    """Return the sum of the samples; None: there is none, or it is larger than any count of a server."""
    values = [each.value for each in found]
    total = sum(values)
    return total if values and total <= MAX_VALUE else None


def _share(found: Iterable[MetricSample]) -> float | None:
    """Return the largest share among the samples; None: no value is from 0 to 1."""
    return max((each.value for each in found if 0.0 <= each.value <= 1.0), default=None)


def _buckets(by_name: dict[str, list[MetricSample]], names: Sequence[str], unit_s: float) -> Buckets:
    """Return (upper bound in seconds, count) of a histogram's buckets, summed over all its series.

    The histogram is the first of `names` that exists.
    """
    found = next((by_name[f"{name}_bucket"] for name in names if f"{name}_bucket" in by_name), [])
    counts: dict[float, float] = {}
    for each in found:
        try:
            bound = float(each.labels.get("le", ""))
        except ValueError:
            continue
        if bound == math.inf or abs(bound) <= MAX_VALUE:
            counts[bound * unit_s] = counts.get(bound * unit_s, 0.0) + each.value
    return tuple(sorted(counts.items())) if max(counts.values(), default=0.0) <= MAX_VALUE else ()


def _quantiles(found: Sequence[MetricSample], unit_s: float) -> tuple[tuple[float, float], ...]:
    """Return (quantile, seconds): for each quantile the largest time among the series.

    Quantiles of several series (models) cannot be combined.
    """
    worst: dict[float, float] = {}
    for each in found:
        try:
            quantile = float(each.labels.get("quantile", ""))
        except ValueError:
            continue
        if 0.0 <= quantile <= 1.0:
            worst[quantile] = max(worst.get(quantile, 0.0), each.value * unit_s)
    return tuple(sorted(worst.items()))
