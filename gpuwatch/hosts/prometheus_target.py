"""A Prometheus as a source of nodes: its address, and which of its series are meant."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit


@dataclass(frozen=True, repr=False)
class PrometheusTarget:
    """A Prometheus and which of its series are meant. Its `repr` and `name` hold no secret."""

    url: str
    """Of its API, without `/api/v1`; it may hold a user and password."""
    selector: str = ""
    """Label matchers, such as `cluster="a100"`, that every query has."""

    @property
    def name(self) -> str:
        """What screens call it: scheme, host and port."""
        parts = urlsplit(self.url)
        port = "" if parts.port is None else f":{parts.port}"
        return f"{parts.scheme}://{parts.hostname}{port}"

    def __repr__(self) -> str:
        return f"<Prometheus {self.name}>"

    def of(self, metric: str, matchers: str = "") -> str:
        """A selector of PromQL: a metric, or several of a pattern, with these and the person's matchers."""
        inside = ",".join(part for part in (matchers, self.selector) if part)
        return f"{metric}{{{inside}}}"

    def any_of(self, metrics: Sequence[str], matchers: str = "") -> str:
        """A selector of several metrics."""
        pattern = f'__name__=~"{"|".join(metrics)}"'
        return self.of("", ",".join(part for part in (pattern, matchers) if part))
