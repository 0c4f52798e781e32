"""Rates and latencies of a minute, and the alerts; the numbers are worked out by hand."""

from __future__ import annotations

import math
from typing import Any

import pytest
from msgspec.structs import replace

from gpuwatch.diagnose.serving.server_facts import quantile, server_facts
from gpuwatch.diagnose.serving.serving_watch import ServingWatch, growth
from gpuwatch.fleet.fleet import Fleet
from gpuwatch.fleet.servers import FleetServers, InferenceServer
from gpuwatch.hosts.plan import NodeSpec, Plan, Thresholds
from gpuwatch.link.serving.engines import read_page
from gpuwatch.link.serving.server_reading import ServerReading
from gpuwatch.rules.built_in import built_in_dialects
from gpuwatch.wire import Progress
from tests.link.serving.pages import vllm

INF = math.inf


def readings(*pages: str, every: float = 5.0) -> InferenceServer:
    server = InferenceServer("llama")
    server.readings.extend(read_page(page, number * every) for number, page in enumerate(pages))
    return server


def test_what_a_server_did_in_a_minute() -> None:
    """600 requests in 60 s, half of them within 1 s, all within 2 s; 3 % failed.

    Document 004, line 831.
    """
    server = readings(
        *[
            vllm(stop=582 * n / 12, error=18 * n / 12, fast=300 * n / 12, all=600 * n / 12, waiting=4)
            for n in range(13)
        ]
    )
    found = server_facts(server, 61.0)
    numbers = [found.requests_per_s, found.error_pct, found.waiting, found.cache_pct]
    assert numbers == pytest.approx([10, 3, 4, 87.5])
    assert [found.latency.p50, found.latency.p95, found.latency.p99] == pytest.approx([1.0, 1.9, 1.98])
    assert found.first_token.p50 == 0.25
    assert not found.stale
    assert server_facts(server, 100.0).stale


def test_one_reading_has_no_rate() -> None:
    found = server_facts(readings(vllm(stop=1000, all=1000)), 1.0)
    assert (found.requests_per_s, found.error_pct, found.latency.p50) == (None, None, None)


def test_counters_that_appear_began_at_0() -> None:
    """TGI and prometheus_client show a counter from its first event on."""
    idle = "tgi_queue_size 0\n"
    server = readings(idle, idle + "tgi_request_count 30\n", idle + "tgi_request_count 60\n")
    assert server_facts(server, 11.0).requests_per_s == 6
    server = readings(
        idle + "tgi_request_count 100\n",
        idle + 'tgi_request_count 200\ntgi_request_failure{err="generation"} 25\n',
    )
    assert server_facts(server, 6.0).error_pct == 25


def test_a_restart_shows_in_any_counter() -> None:
    server = readings(
        "sglang:token_usage 0.1\nsglang:generation_tokens_total 900\n",
        "sglang:token_usage 0.1\nsglang:generation_tokens_total 100\n",
        "sglang:token_usage 0.1\nsglang:generation_tokens_total 600\n",
    )
    assert server_facts(server, 11.0).tokens_per_s == 100


def test_a_restarted_server_begins_anew() -> None:
    server = readings(vllm(stop=5000), vllm(stop=5100), vllm(stop=10), vllm(stop=60))
    assert server_facts(server, 16.0).requests_per_s == 10


def test_quantiles_are_those_of_prometheus() -> None:
    buckets = ((0.1, 10.0), (1.0, 60.0), (INF, 100.0))
    assert quantile((), buckets, 0.5) == pytest.approx(0.1 + 0.9 * 40 / 50)
    assert quantile((), buckets, 0.99) == 1.0  # the last bucket has no upper bound
    assert quantile(buckets, buckets, 0.5) is None
    assert quantile((), ((1.0, 5.0),), 0.5) is None


def queue(*waiting: float) -> InferenceServer:
    server = InferenceServer("llama")
    server.readings.extend(ServerReading(5.0 * n, "vLLM", waiting=each) for n, each in enumerate(waiting))
    return server


@pytest.mark.parametrize(
    ("waiting", "grows"),
    [
        ([0] * 13, False),
        ([40] * 13, False),
        ([5 * n for n in range(13)], True),
        ([100 + n for n in range(13)], False),  # slow, and under half again
        ([0] * 5 + [30] * 3 + [0] * 5, False),  # a burst that ended
        ([0, 0, 50], False),  # too short to tell
    ],
)
def test_a_queue_that_grows(waiting: list[float], grows: bool) -> None:
    assert (growth(queue(*waiting)) is not None) == grows


def fleet() -> Fleet:
    return Fleet(Plan(nodes=(NodeSpec("gpu-001"),)))


def test_errors_and_a_growing_queue_become_alerts_that_last_and_end() -> None:
    """Document 004, line 833."""
    watched, watch = fleet(), ServingWatch(Thresholds(hold_s=10.0, clear_s=20.0))
    for n in range(60):
        bad = n < 30
        page = vllm(stop=100 * n, error=10 * min(n, 30), waiting=20 * n if bad else 0, all=100 * n)
        watched.servers.take("llama", read_page(page, 5.0 * n), 5.0 * n)
        watch.go(watched, 5.0 * n, 1000 + 5.0 * n)
        if n == 29:
            firing = {each.code: each for each in watch.alerts.values() if each.state == "firing"}
            assert {"serve.errors", "serve.queue_grows"} <= firing.keys()
            assert firing["serve.errors"].severity == "error"
    assert all(each.state == "resolved" for each in watch.alerts.values())


def test_few_requests_give_no_rate_and_silence_is_reported() -> None:
    watched, watch = fleet(), ServingWatch(Thresholds(hold_s=0.0))
    for n in range(13):
        watched.servers.take("llama", read_page(vllm(stop=n / 2, error=n), 5.0 * n), 5.0 * n)
    watch.go(watched, 60.0, 1000.0)
    assert watch.alerts == {}
    for n in range(13, 30):
        watched.servers.take("llama", "connection refused", 5.0 * n)
    watch.go(watched, 150.0, 1100.0)
    assert {each.code for each in watch.alerts.values()} == {"serve.unreachable"}


def test_the_line_of_a_log_makes_a_server() -> None:
    watched = FleetServers(built_in_dialects())
    progress = fleet().progress
    fields: dict[str, Any] = {
        "requests_running": 18,
        "requests_waiting": 43,
        "cache_share": 0.959,
        "tokens_per_s": 1055.3,
    }
    reported = Progress(
        t=100.0,
        seq=1,
        file="/logs/vllm.log",
        offset=5,
        at=100.0,
        timed=True,
        dialect="progress.vllm",
        fields=fields,
    )
    for second in (0.0, 1.0, 10.0):
        at = replace_times(reported, 100.0 + second)
        watched.take_logged(progress.take("gpu-001", at, at.t, 500.0 + second), at, 500.0 + second)
    (server,) = watched.servers.values()
    assert [each.at for each in server.readings] == [500.0, 510.0]
    found = server_facts(server, 511.0)
    assert (found.engine, found.source) == ("vLLM", "log")
    assert [found.waiting, found.cache_pct] == pytest.approx([43, 95.9])


def replace_times(reported: Progress, at: float) -> Progress:
    from msgspec import structs  # noqa: PLC0415 - loaded by this test alone

    return structs.replace(reported, t=at, at=at)


def test_a_stranger_cannot_fill_the_memory() -> None:
    watched = FleetServers({})
    for n in range(5000):
        watched.take(f"server-{n}", "no", 0.0)
    assert len(watched.servers) <= 256
    assert replace(ServerReading(0.0, "vLLM"), waiting=1).waiting == 1
