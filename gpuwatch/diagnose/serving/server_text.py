"""One server as text for reports and screen 6; unknown values are left out."""

from __future__ import annotations

from gpuwatch.diagnose.serving.server_facts import Latencies, ServerFacts


def heading(facts: ServerFacts) -> str:
    """Return `llama (vLLM)`, or the name alone."""
    return facts.name if facts.engine is None else f"{facts.name} ({facts.engine})"


def numbers(facts: ServerFacts) -> str:
    """Return the known numbers as text: request rate, queue, cache, tokens, latencies, errors."""
    parts = [
        _number(facts.requests_per_s, "{:.3g} requests/s"),
        _number(facts.running, "{:.0f} running"),
        _number(facts.waiting, "{:.0f} waiting"),
        _number(facts.cache_pct, "KV cache {:.0f} %"),
        _number(facts.tokens_per_s, "{:,.0f} tokens/s"),
        _latencies("latency", facts.latency),
        _latencies("first token", facts.first_token),
        _number(facts.error_pct, "errors {:.1f} %"),
    ]
    return "  ".join(part for part in parts if part)


def trouble(facts: ServerFacts, now: float) -> str:
    """Return why the numbers are not current; "": they are. `now`: our monotonic clock."""
    if facts.error is not None:
        return f"no metrics: {facts.error}"
    if facts.at is None:
        return "no answer yet"
    return f"{now - facts.at:.0f} s old" if facts.stale else ""


def _number(value: float | None, form: str) -> str:
    return "" if value is None else form.format(value)


def _latencies(title: str, found: Latencies) -> str:
    values = [(name, getattr(found, name)) for name in ("p50", "p95", "p99")]
    known = [f"{name} {_seconds(value)}" for name, value in values if value is not None]
    return f"{title} {' '.join(known)}" if known else ""


def _seconds(value: float) -> str:
    return f"{1000 * value:.0f}ms" if value < 1 else f"{value:.3g}s"
