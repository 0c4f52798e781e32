"""A page of each engine comes to the same numbers; what is no page is refused within bounds."""

from __future__ import annotations

import threading
import time

import pytest

from gpuwatch.hosts.plan import ServingEndpoint
from gpuwatch.link.serving import readers
from gpuwatch.link.serving.engines import NoEngineError, read_page
from gpuwatch.link.serving.readers import ServingReaders
from gpuwatch.link.serving.server_reading import ServerReading
from tests.link.serving.endpoint import served
from tests.link.serving.pages import SGLANG, TGI, TRITON, vllm


def test_vllm() -> None:
    found = read_page(vllm(running=18, waiting=43, stop=90, error=10, fast=50, all=100), 1.0)
    assert (found.engine, found.running, found.waiting, found.cache_share) == ("vLLM", 18, 43, 0.875)
    assert (found.requests, found.failed) == (100, 10)
    assert found.latency == ((1.0, 50), (2.0, 100), (float("inf"), 100))


def test_http_status_codes_tell_the_errors_where_they_are_counted() -> None:
    page = vllm(stop=90) + (
        'http_requests_total{handler="/v1/completions",method="POST",status="2xx"} 95\n'
        'http_requests_total{handler="/v1/completions",method="POST",status="5xx"} 5\n'
        'http_requests_total{handler="/metrics",method="GET",status="2xx"} 1000\n'
    )
    found = read_page(page, 1.0)
    assert (found.requests, found.failed) == (100, 5)


def test_sglang() -> None:
    found = read_page(SGLANG, 1.0)
    assert (found.engine, found.running, found.waiting, found.cache_share) == ("SGLang", 162, 2826, 0.28)
    assert (found.requests, found.failed, round(found.tokens_per_s or 0)) == (11228, None, 87)
    assert found.first_token[0] == (2.5, 140)


def test_tgi() -> None:
    found = read_page(TGI, 1.0)
    assert (found.engine, found.running, found.waiting) == ("TGI", 4, 12)
    assert (found.requests, found.failed, found.latency[1]) == (400, 8, (1.0, 350))


@pytest.mark.parametrize(("reason", "failed"), [("validation", 0), ("dropped", 0), ("generation", 9)])
def test_what_a_client_did_is_no_error_of_tgi(reason: str, failed: float) -> None:
    page = TGI.replace('{err="overloaded"} 8', f'{{err="{reason}"}} 9')
    assert read_page(page, 1.0).failed == failed


def test_a_counter_that_tgi_has_not_begun_is_0() -> None:
    page = "".join(line for line in TGI.splitlines(keepends=True) if "failure" not in line)
    assert read_page(page, 1.0).failed == 0


def test_triton() -> None:
    """Canceled requests are no errors; latencies of several models are those of the slowest."""
    found = read_page(TRITON, 1.0)
    assert (found.engine, found.waiting, found.requests, found.failed) == ("Triton", 7, 8192 + 3401 + 12, 12)
    assert [each for pair in found.quantiles for each in pair] == pytest.approx([0.5, 0.0015, 0.95, 0.009])


def test_numbers_that_no_server_has_are_left_out() -> None:
    page = (
        'vllm:num_requests_running{model_name="a"} 1e308\nvllm:num_requests_running{model_name="b"} 1e308\n'
        "vllm:num_requests_waiting NaN\nvllm:kv_cache_usage_perc 1e308\nvllm:generation_tokens_total 7\n"
        'vllm:e2e_request_latency_seconds_bucket{le="1e308"} 5\n'
        "vllm:num_requests_waiting -5\nvllm:num_requests_waiting 1_000\nvllm:num_requests_waiting \u0661\n"
    )
    found = read_page(page, 1.0)
    assert (found.running, found.waiting, found.cache_share, found.latency) == (None, None, None, ())
    assert found.tokens == 7


def test_sums_that_no_server_has_are_unknown() -> None:
    many = "".join(f'vllm:num_requests_running{{model_name="{n}"}} 1e18\n' for n in range(3))
    many += "".join(f'vllm:e2e_request_latency_seconds_bucket{{le="1",a="{n}"}} 9e17\n' for n in range(3))
    found = read_page(many + "vllm:num_requests_waiting 4\n", 1.0)
    assert (found.running, found.waiting, found.latency) == (None, 4, ())


@pytest.mark.parametrize(
    "page",
    ["", "<html>\n", "node_load1 3\n", "vllm:num_requests_running{", "vllm:x NaN\n" * 3 + "\x1b]0;x\x07"],
)
def test_other_pages_are_refused_or_empty(page: str) -> None:
    try:
        found = read_page(page, 1.0)
    except NoEngineError:
        return
    assert (found.running, found.waiting, found.requests) == (None, None, None)


def test_hostile_numbers_stay_out() -> None:
    page = vllm(running=1) + 'vllm:num_requests_waiting{a="b"} +Inf\nvllm:num_requests_waiting{a="c"} nope\n'
    page += 'vllm:e2e_request_latency_seconds_bucket{le="x"} 5\n' + "vllm:" + "x" * 10_000 + " 1\n"
    assert read_page(page, 1.0).waiting == 0


def answers_of(urls: dict[str, str], count: int) -> dict[str, ServerReading | str]:
    readers_ = ServingReaders([ServingEndpoint(*each) for each in urls.items()], every_s=0.05)
    readers_.start()
    found: dict[str, ServerReading | str] = {}
    deadline = time.monotonic() + 60
    while len(found) < count and time.monotonic() < deadline:
        found.update(readers_.drain())
        time.sleep(0.02)
    readers_.close()
    return found


def test_a_slow_server_delays_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readers, "SILENCE_S", 30.0)
    held = threading.Event()
    with served(SGLANG.encode()) as good, served(b"", wait=held) as slow, served(b"no", 500) as broken:
        found = answers_of({"slow": slow, "good": good, "broken": broken}, 2)
        held.set()
    assert isinstance(found["good"], ServerReading)
    assert (found["broken"], "slow" in found) == ("HTTP 500", False)


def test_half_a_page_is_no_reading() -> None:
    """A counter that is missing from half a page would seem to begin anew with the next one."""
    whole = vllm(running=3, stop=10).encode()
    with served(whole[: len(whole) // 2]) as half, served(whole[:400], stated=len(whole)) as short:
        found = answers_of({"half": half, "short": short}, 2)
    assert [type(each) for each in found.values()] == [str, str]


def test_a_page_without_end_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readers, "MAX_PAGE_BYTES", 1 << 20)
    with served(b"x" * (3 << 20)) as url:
        found = answers_of({"large": url}, 1)["large"]
    assert isinstance(found, str)
