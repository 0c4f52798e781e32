"""Requests in the logs of inference servers: from lines to rates, latencies and error rates."""

from __future__ import annotations

import itertools

import msgspec
import pytest

from gpuwatch.agent.logs.progress.request_counts import MAX_LINES
from gpuwatch.agent.logs.scanning.scanner import Scanner
from gpuwatch.diagnose.serving.server_facts import ServerFacts, server_facts
from gpuwatch.fleet.logs.progress import FleetProgress
from gpuwatch.fleet.servers import FleetServers
from gpuwatch.rules.built_in import built_in_dialects
from gpuwatch.wire import Progress
from tests.agent.logs.scan_lines import NOW
from tests.packs import dialects

FAILED = (
    "2023-07-19T21:02:09.363101Z ERROR generate:infer:send_error: text_generation_router::infer: "
    "router/src/infer.rs:554: Request failed during generation: Server error: CUDA out of memory.\n"
)
STATISTICS = (
    "INFO 05-19 10:13:11 [loggers.py:271] Engine 000: Avg prompt throughput: 0.0 tokens/s, Avg generation "
    "throughput: 50.5 tokens/s, Running: 8 reqs, Waiting: 43 reqs, GPU KV cache usage: 95.9%\n"
)


def tgi(seconds: str) -> str:
    return (
        f'2024-12-10T21:50:03.478010Z  INFO chat_completions{{total_time="{seconds}" validation_time="1.2ms" '
        'queue_time="73.176µs" inference_time="7.3s" seed="None"}: text_generation_router::server: '
        "router/src/server.rs:622: Success\n"
    )


def access(status: str, path: str = "/v1/completions") -> str:
    return f'INFO:     10.65.62.6:37396 - "POST {path} HTTP/1.1" {status}\n'


class Watched:
    """A server's log from its scanner to what is known of the server; one tick is five seconds."""

    def __init__(self) -> None:
        self._scanner = Scanner(dialects(), "/logs/server.log", itertools.count(1).__next__)
        self._progress, self.servers = FleetProgress(), FleetServers(built_in_dialects())
        self._offset, self.now = 0, NOW

    def tick(self, text: str, backlog: bool = False) -> list[Progress]:
        data = text.encode()
        self._scanner.feed(data, self._offset, self.now, backlog)
        self._offset += len(data)
        rows = [{"t": self.now, "seq": 1, "kind": "progress", **each} for each in self._scanner.progress()]
        frames = [msgspec.convert(row, Progress) for row in rows]
        for frame in frames:
            writer = self._progress.take("gpu-001", frame, self.now, self.now)
            self.servers.take_logged(writer, frame, self.now)
        self.now += 5.0
        return frames

    def facts(self) -> ServerFacts:
        (server,) = self.servers.servers.values()
        return server_facts(server, self.now)


def test_each_request_of_tgi_counts_with_its_latency() -> None:
    """Document 004, line 831."""
    log = Watched()
    for _ in range(12):
        log.tick("".join(tgi(f"{tenth}.5s") for tenth in range(1, 10)) + FAILED)
    found = log.facts()
    assert (found.engine, found.source) == ("TGI", "log")
    assert [found.requests_per_s, found.error_pct] == pytest.approx([2.0, 10.0])
    assert [found.latency.p50, found.latency.p95, found.latency.p99] == [5.5, 9.5, 9.5]


def test_the_access_log_of_vllm_gives_rate_and_errors_beside_its_statistics() -> None:
    """Document 004, line 833."""
    log = Watched()
    noise = access("200 OK", "/tokenize") + 'INFO:     10.0.0.1:1 - "GET /health HTTP/1.1" 200 OK\n'
    for _ in range(12):
        log.tick(
            access("200 OK") * 7 + noise + access("500 Internal Server Error") * 2 + access("400 Bad Request")
        )
        log.tick(STATISTICS)
    found = log.facts()
    assert (found.engine, found.waiting) == ("vLLM", 43.0)
    assert [found.cache_pct, found.requests_per_s, found.error_pct] == pytest.approx([95.9, 1.0, 20.0])
    assert found.latency.p50 is None


def test_the_verbose_log_of_triton_gives_a_rate_and_no_errors() -> None:
    log = Watched()
    for _ in range(4):
        log.tick("I0901 06:48:57.689372 21 http_server.cc:3448] HTTP request: 2 /v2/models/m/infer\n" * 10)
    found = log.facts()
    assert (found.engine, found.error_pct) == ("Triton", None)
    assert found.requests_per_s == pytest.approx(2.0)


def test_requests_from_before_the_start_are_not_counted() -> None:
    assert Watched().tick(tgi("1s") * 100, backlog=True)[0].fields == {}


def test_of_a_flood_all_requests_count_and_a_bounded_number_is_read() -> None:
    (frame,) = Watched().tick(access("200 OK") * (4 * MAX_LINES))
    assert frame.fields["requests"] == 4 * MAX_LINES
    (frame,) = Watched().tick(tgi("1.5s") * (2 * MAX_LINES))
    assert (len(frame.latencies_s), set(frame.latencies_s)) == (MAX_LINES, {1.5})


def test_text_of_a_client_is_no_latency() -> None:
    line = tgi("2s").replace("chat_completions{", 'generate{stop: ["total_time=\\"9s\\" x_time=\\"1s\\"}"] ')
    assert Watched().tick(line)[0].latencies_s == [2.0]
