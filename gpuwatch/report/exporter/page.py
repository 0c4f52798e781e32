"""The text of one scrape: samples by family, bounded, in text format 0.0.4 or OpenMetrics 1.0.

The writer is gpuwatch's own: prometheus-client takes 9 us per sample (16 us as OpenMetrics), and a page of 64
nodes of 8 GPUs has 28,000 samples: more than the 1 % of a core that a scrape every 15 s may cost. Tests read
the pages with its two parsers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache

from gpuwatch.link.prometheus.series.tier_series import MetricFamily
from gpuwatch.plain import plain

MAX_SERIES = 200_000
"""Maximum number of samples per page, enough for about 4,000 GPUs; see also Prometheus's `sample_limit`."""
MAX_LABEL_CHARS = 200
KEPT_LABELS = 16_384
"""Number of labels that are cached: most are the same on every page, and making one takes 2 us."""
TEXT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
OPENMETRICS_TYPE = "application/openmetrics-text; version=1.0.0; charset=utf-8"


def label(name: str, value: object) -> str:
    """Return `name="value"` with a sanitized and shortened value, escaped for both formats."""
    return _label(name, str(value))


@lru_cache(maxsize=KEPT_LABELS)
def _label(name: str, value: str) -> str:
    text = plain(value)
    if len(text) > MAX_LABEL_CHARS:
        text = text[: MAX_LABEL_CHARS - 1] + "\N{HORIZONTAL ELLIPSIS}"
    if "\\" in text or '"' in text:
        text = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'{name}="{text}"'


def labels(values: Mapping[str, object]) -> str:
    """Return labels joined by commas, without those whose value is None (Prometheus: equal to empty)."""
    return ",".join([label(name, value) for name, value in values.items() if value is not None])


class MetricsPage:
    """Collects the samples of one scrape: the first `most` are kept, the others only counted."""

    def __init__(self, most: int = MAX_SERIES) -> None:
        self.room = most
        """Number of samples that may still be added."""
        self.dropped = 0
        """Number of samples over the limit."""
        self._families: dict[str, MetricFamily] = {}
        self._lines: dict[str, list[str]] = {}
        """By the name of the family, whose hash is known."""
        self._seen: set[tuple[str, str]] = set()

    def put(self, family: MetricFamily, labelled: str, value: float | None) -> None:
        """Add a sample, or count it as dropped if the page is full. A value of None is left out.

        `labelled`: labels as returned by `labels`.
        """
        if value is None:
            return
        if self.room <= 0:
            self.dropped += 1
            return
        self.room -= 1
        name = family.name
        lines = self._lines.get(name)
        if lines is None:
            lines = self._lines[name] = []
            self._families[name] = family
        text = repr(value) if math.isfinite(value) else _odd(value)
        lines.append(f"{name}{{{labelled}}} {text}\n" if labelled else f"{name} {text}\n")

    def is_new(self, what: str, labelled: str) -> bool:
        """Return True at the first call for an item of the kind `what` with these labels.

        A node may list an item twice.
        """
        key = (what, labelled)
        new = key not in self._seen
        self._seen.add(key)
        return new

    def text(self, *, openmetrics: bool = False) -> bytes:
        """Return the page as sent, in text format 0.0.4 or OpenMetrics 1.0."""
        parts: list[str] = []
        for family_name, lines in self._lines.items():
            family = self._families[family_name]
            name, kind = family.name, str(family.kind)
            if openmetrics:
                name = name.removesuffix("_info" if kind == "info" else "_total")
                if kind == "counter" and name == family.name:
                    kind = "unknown"  # dcgm-exporter's counters, which OpenMetrics would rename
            elif kind == "info":
                kind = "gauge"
            parts.append(f"# HELP {name} {family.help}\n# TYPE {name} {kind}\n")
            parts.extend(lines)
        if openmetrics:
            parts.append("# EOF\n")
        return "".join(parts).encode("utf-8", "replace")


def _odd(value: float) -> str:
    return "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"
