"""An exchange over HTTP ends in time and at a size, wherever in it the server drips or floods."""

from __future__ import annotations

import random
import time

import pytest

from gpuwatch.link.prometheus import discovery
from gpuwatch.link.prometheus.client import PrometheusError
from gpuwatch.link.stream.bounded_http import HttpError, get, post
from tests.link.serving.endpoint import served
from tests.link.stream.dripping import dripping

WHOLE_S, SLACK_S = 0.25, 60.0
INTERIM = b"HTTP/1.1 100 Continue\r\n\r\n"
BEGINNINGS = {
    "status": (b"", b"H"),
    "interim": (INTERIM, INTERIM),
    "name": (b"HTTP/1.1 200 OK\r\n", b"x"),
    "value": (b"HTTP/1.1 200 OK\r\nx: ", b"x"),
    "headers": (b"HTTP/1.1 200 OK\r\n", b"x: y\r\n"),
    "body": (b"HTTP/1.1 200 OK\r\nContent-Length: 60000\r\n\r\n", b" "),
    "no length": (b"HTTP/1.1 200 OK\r\n\r\n", b" "),
    "size of a chunk": (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"0"),
    "chunk": (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffff\r\n", b"a"),
    "trailer": (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n", b"x: y\r\n"),
    "refusal": (b"HTTP/1.1 500 no\r\nContent-Length: 60000\r\n\r\n", b" "),
    "redirect": (b"HTTP/1.1 302 no\r\nLocation: http://x/\r\nContent-Length: 60000\r\n\r\n", b" "),
}


@pytest.mark.parametrize("where", BEGINNINGS)
def test_a_server_that_drips_is_left_in_time(where: str) -> None:
    beginning, drop = BEGINNINGS[where]
    with dripping(beginning, drop) as url:
        began = time.monotonic()
        with pytest.raises(HttpError):
            post(url, b"{}", {}, 5.0, WHOLE_S, 4096)
        with pytest.raises(HttpError):
            get(url, {}, 5.0, WHOLE_S, 4096)
        assert time.monotonic() - began < 2 * WHOLE_S + SLACK_S


def test_an_answer_that_drips_from_any_byte_on_is_left_in_time() -> None:
    whole = b"HTTP/1.1 200 OK\r\nServer: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabcde\r\n"
    chance = random.Random(14)
    for cut in chance.sample(range(len(whole)), 6):
        with dripping(whole[:cut], whole[cut : cut + 1]) as url:
            began = time.monotonic()
            with pytest.raises(HttpError):
                get(url, {}, 5.0, 0.1, 4096)
            assert time.monotonic() - began < SLACK_S


@pytest.mark.parametrize(
    ("beginning", "drop"),
    [(b"", INTERIM * 4_000), (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"0" * 100_000)],
    ids=["interim", "chunk"],
)
def test_a_flood_before_the_content_ends_at_a_size(beginning: bytes, drop: bytes) -> None:
    with dripping(beginning, drop, 0.0) as url:
        began = time.monotonic()
        with pytest.raises(HttpError):
            get(url, {}, 30.0, 60.0, 4096)
        assert time.monotonic() - began < 30.0


def test_what_is_answered_in_time_arrives() -> None:
    with served(b"a" * 5_000) as url:
        assert get(url, {}, 5.0, 20.0, 4_096) == b"a" * 4_097
    chunks = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabcde\r\n0\r\n\r\n"
    with dripping(chunks, b"") as url:
        assert post(url, b"{}", {}, 5.0, 20.0, 4_096) == b"abcde"


def test_a_prometheus_that_drips_does_not_hold_up_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(discovery, "DISCOVERY_S", WHOLE_S)
    with dripping(*BEGINNINGS["value"]) as url, pytest.raises(PrometheusError, match="too long"):
        discovery.discover(url, "", None)
