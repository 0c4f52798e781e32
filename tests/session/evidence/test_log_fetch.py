"""Nodes that never answer, or never come to an end, hold a bundle for a bounded time and size."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from gpuwatch.fleet.logs.log_stream import LogStream
from gpuwatch.session.evidence import log_fetch
from gpuwatch.session.evidence.log_fetch import LogFetch
from gpuwatch.session.evidence.log_parts import LogPart
from gpuwatch.session.evidence.spool import Spool
from gpuwatch.wire import LogLine

HUGE = 1 << 52


@dataclass
class Nodes:
    """Answers each page with 1,000 lines, or not at all."""

    silent: frozenset[str] = frozenset()
    open: set[int] = field(default_factory=set)
    asked: int = 0

    def read_text(self, node: str, file: str, offset: int, _lines: int) -> LogStream:
        self.asked += 1
        stream = LogStream(node, file, self.asked)
        self.open.add(stream.id)
        if node not in self.silent:
            stream.lines.extend(LogLine(at, at + 10, "x" * 99) for at in range(offset, offset + 10_000, 10))
            stream.done = True
        return stream

    def read_lines(self, *_args: object, **_more: object) -> LogStream:
        raise AssertionError

    def drop(self, stream: LogStream) -> None:
        self.open.discard(stream.id)


def fetch_of(tmp_path: Path, nodes: Nodes, now: Callable[[], float], *parts: LogPart) -> LogFetch:
    return LogFetch(nodes, parts, Spool(tmp_path / "a.part", "test"), now)


def test_a_log_without_an_end_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_fetch, "MAX_NODE_BYTES", 1 << 20)
    nodes, now = Nodes(), [0.0]
    small = LogPart("b", "/b.log", 40_000, whole=True)
    fetch = fetch_of(tmp_path, nodes, lambda: now[0], LogPart("a", "/a.log", HUGE, whole=True), small)
    for _ in range(50):
        fetch.update()
    assert fetch.over
    assert not nodes.open
    assert fetch.logs[0].spooled.written < 2 << 20
    assert fetch.logs[0].trouble
    assert (fetch.logs[1].spooled.next, fetch.logs[1].trouble) == (small.size, None)


def test_a_node_without_answers_is_given_up_for_all_its_logs(tmp_path: Path) -> None:
    nodes, now = Nodes(silent=frozenset("a")), [0.0]
    parts = [LogPart("a", f"/{number}.log", 1000, whole=True) for number in range(500)]
    fetch = fetch_of(tmp_path, nodes, lambda: now[0], *parts, LogPart("b", "/b.log", 40_000, whole=True))
    while not fetch.over:
        fetch.update()
        now[0] += 10.0
    assert now[0] < 300.0
    assert not nodes.open
    assert [log.trouble is None for log in fetch.logs[-2:]] == [False, True]


def test_the_time_of_a_fetch_is_bounded(tmp_path: Path) -> None:
    nodes, now = Nodes(), [0.0]
    fetch = fetch_of(tmp_path, nodes, lambda: now[0], LogPart("a", "/a.log", HUGE, whole=True))
    while not fetch.over:
        fetch.update()
        now[0] += 100.0
    assert now[0] < 2 * log_fetch.MAX_NODE_S
    assert fetch.logs[0].trouble
