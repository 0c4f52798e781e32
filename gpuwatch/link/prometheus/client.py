"""Queries a Prometheus over its HTTP API, with limits on time and size; answers are untrusted."""

from __future__ import annotations

import contextlib
import time
from typing import Generic, TypeVar
from urllib.parse import urlencode

import msgspec

from gpuwatch import __version__
from gpuwatch.decode_errors import DECODE_ERRORS
from gpuwatch.hosts.prometheus_target import PrometheusTarget
from gpuwatch.link.stream.bounded_http import HttpError, post, split_login
from gpuwatch.number_text import limit_text
from gpuwatch.plain import plain

QUERY_S, WHOLE_ANSWER_S = 20.0, 60.0
"""Seconds of silence of the server, and of a whole answer."""
MAX_ANSWER_BYTES = 256 << 20
"""Largest answer; an instant query of 19 values of 8,000 GPUs is 40 MB."""
MAX_REASON_CHARS = 200
V = TypeVar("V")


class PrometheusError(Exception):
    """Raised if a Prometheus does not answer as expected.

    The text is sanitized, without the URL's secrets.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(plain(reason)[:MAX_REASON_CHARS])


class SeriesLabels(msgspec.Struct, gc=False):
    """The labels of a series that are decoded; all others are skipped."""

    metric: str = msgspec.field(name="__name__", default="")
    node: str = ""
    gpu: str = ""
    uuid: str = ""
    dcgm_uuid: str = msgspec.field(name="UUID", default="")
    hostname: str = msgspec.field(name="Hostname", default="")
    nodename: str = ""
    instance: str = ""
    model: str = msgspec.field(name="modelName", default="")
    name: str = ""
    bus_id: str = ""
    pci_bus_id: str = ""
    device: str = ""
    port: str = ""
    mountpoint: str = ""
    reason: str = ""
    kind: str = ""
    state: str = ""
    action: str = ""
    driver: str = ""
    kernel: str = ""
    os: str = ""
    release: str = ""


class InstantSeries(msgspec.Struct, gc=False):
    """A Prometheus series and its value at the time of the query."""

    metric: SeriesLabels
    value: tuple[float, str]


class RangeSeries(msgspec.Struct, gc=False):
    """A Prometheus series and its values over time."""

    metric: SeriesLabels
    values: list[tuple[float, str]]


class _Data(msgspec.Struct, Generic[V]):
    result: list[V]


class _QueryAnswer(msgspec.Struct, Generic[V]):
    status: str
    data: _Data[V] | None = None
    error: str = ""


_instant = msgspec.json.Decoder(_QueryAnswer[InstantSeries])
_range = msgspec.json.Decoder(_QueryAnswer[RangeSeries])
_refusal = msgspec.json.Decoder(_QueryAnswer[msgspec.Raw])


class PrometheusClient:
    """Sends queries to one Prometheus, one at a time."""

    def __init__(self, target: PrometheusTarget, within_s: float | None = None) -> None:
        """Create a client; `within_s`: seconds for all queries together, from now; None: each has a limit."""
        self.target = target
        self._until = None if within_s is None else time.monotonic() + within_s
        bare, login = split_login(target.url)
        self._base = bare.rstrip("/")
        self._headers = {
            "User-Agent": f"gpuwatch/{__version__}",
            "Content-Type": "application/x-www-form-urlencoded",
            **login,
        }

    def instant(self, query: str) -> list[InstantSeries]:
        """Return each series of a query with its current value.

        Raises:
            PrometheusError: There is no answer, or it is not that of a Prometheus.
        """
        return _result(self._ask("query", {"query": query}), _instant)

    def raw(self, selector: str, seconds: float) -> list[RangeSeries]:
        """Return the samples of the last `seconds` of a selector's series, as scraped.

        Raises:
            PrometheusError: There is no answer, or it is not that of a Prometheus.
        """
        return _result(self._ask("query", {"query": f"{selector}[{seconds:.0f}s]"}), _range)

    def range(self, query: str, start: float, end: float, step: float) -> list[RangeSeries]:
        """Return each series of a query with its values from `start` to `end` (unix seconds).

        `step`: seconds between values.

        Raises:
            PrometheusError: There is no answer, or it is not that of a Prometheus.
        """
        given = {"query": query, "start": f"{start:.3f}", "end": f"{end:.3f}", "step": f"{step:.3f}"}
        return _result(self._ask("query_range", given), _range)

    def _ask(self, what: str, given: dict[str, str]) -> bytes:
        url, body = f"{self._base}/api/v1/{what}", urlencode(given).encode()
        try:
            data = post(url, body, self._headers, QUERY_S, self._whole_s(), MAX_ANSWER_BYTES)
        except HttpError as error:
            raise PrometheusError(_refused(error)) from None
        if len(data) > MAX_ANSWER_BYTES:
            raise PrometheusError(f"an answer of more than {limit_text(MAX_ANSWER_BYTES)}: narrow --selector")
        return data

    def _whole_s(self) -> float:
        left_s = WHOLE_ANSWER_S if self._until is None else self._until - time.monotonic()
        return min(WHOLE_ANSWER_S, left_s)


def _refused(error: HttpError) -> str:
    """Return the text of an HTTP error, with the reason that Prometheus gives for a rejected query."""
    with contextlib.suppress(*DECODE_ERRORS):
        if stated := _refusal.decode(error.body).error:
            return f"{error}: {stated}"
    return str(error)


def _result(data: bytes, decoder: msgspec.json.Decoder[_QueryAnswer[V]]) -> list[V]:
    try:
        answer = decoder.decode(data)
    except DECODE_ERRORS:
        raise PrometheusError("the answer is not from a Prometheus server") from None
    if answer.status != "success" or answer.data is None:
        raise PrometheusError(answer.error or "the query failed")
    return answer.data.result
