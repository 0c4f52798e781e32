"""A Prometheus as a source of nodes: its address, and the selector of its series."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit


@dataclass(frozen=True, repr=False)
class PrometheusTarget:
    """A Prometheus and the selector of its series. Its `repr` and `name` contain no user and password."""

    url: str
    """The URL of its API, without `/api/v1`; it may contain a user and password."""
    selector: str = ""
    """Label matchers, such as `cluster="a100"`, that are added to every query."""

    @property
    def name(self) -> str:
        """Return scheme, host and port of the URL, for screens."""
        parts = urlsplit(self.url)
        port = "" if parts.port is None else f":{parts.port}"
        return f"{parts.scheme}://{parts.hostname}{port}"

    def __repr__(self) -> str:
        return f"<Prometheus {self.name}>"

    def of(self, metric: str, matchers: str = "") -> str:
        """Return a PromQL selector of `metric` with the given matchers and the user's; `metric` may be ""."""
        inside = ",".join(part for part in (matchers, self.selector) if part)
        return f"{metric}{{{inside}}}"

    def any_of(self, metrics: Sequence[str], matchers: str = "") -> str:
        """Return a PromQL selector of all series with one of these names, with `matchers` and the user's."""
        pattern = f'__name__=~"{"|".join(metrics)}"'
        return self.of("", ",".join(part for part in (pattern, matchers) if part))
