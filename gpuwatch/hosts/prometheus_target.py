"""A Prometheus as a source of nodes: its address, and the selector of its series."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit


@dataclass(frozen=True, repr=False)
class PrometheusTarget:
    """A Prometheus and the selector of its series. Its `repr` and `name` contain no secret."""

    url: str
    """The URL of its API, without `/api/v1`; it may contain a user and password."""
    selector: str = ""
    """Label matchers, such as `cluster="a100"`, that are added to every query."""

    @property
    def name(self) -> str:
        """The name on screens: scheme, host and port."""
        parts = urlsplit(self.url)
        port = "" if parts.port is None else f":{parts.port}"
        return f"{parts.scheme}://{parts.hostname}{port}"

    def __repr__(self) -> str:
        return f"<Prometheus {self.name}>"

    def of(self, metric: str, matchers: str = "") -> str:
        """A PromQL selector: a metric, or several by a pattern, with these and the user's matchers."""
        inside = ",".join(part for part in (matchers, self.selector) if part)
        return f"{metric}{{{inside}}}"

    def any_of(self, metrics: Sequence[str], matchers: str = "") -> str:
        """A PromQL selector of several metrics."""
        pattern = f'__name__=~"{"|".join(metrics)}"'
        return self.of("", ",".join(part for part in (pattern, matchers) if part))
