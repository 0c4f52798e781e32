"""Live, the lines below an error decide as in `scan`: nodes are asked for them, within bounds."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from gpuwatch.diagnose.alert_book import AlertBook
from gpuwatch.fleet.fleet import Fleet
from gpuwatch.fleet.logs.log_stream import LogStream
from gpuwatch.hosts.plan import NodeSpec, Plan, Thresholds
from gpuwatch.link.stream.inbox import Arrival, LinkStatus
from gpuwatch.rules.load import load_packs
from gpuwatch.session import line_queries
from gpuwatch.session.line_queries import LineQueries
from gpuwatch.wire import Finding, Lines, LogFile, LogLine, Logs
from tests.cli.running import alone

PACKS = load_packs()
ERROR = "RuntimeError: CUDA error: an illegal memory access was encountered"
PASSED = "============================== 41 passed in 12.31s =============================="
FALLBACK = [
    *(f"shard {number} of 900: {number * 37} documents" for number in range(1, 8)),
    "ModuleNotFoundError: No module named 'flash_attn'",
    "flash_attn missing, falling back to sdpa",
    *(f"shard {number} of 900: {number * 37} documents" for number in range(8, 20)),
]
TESTS = ["collected 41 items", *(f"tests/test_{number}.py .... [{number}%]" for number in range(5)), ERROR]


def once(log: Path, *lines: str) -> dict[str, object]:
    log.write_text("\n".join(lines) + "\n")
    done = alone("once", "--local", "--json", "--log", str(log), "--wait", "20")
    facts: dict[str, object] = json.loads(done.stdout)
    return facts


def alarms(facts: dict[str, object]) -> list[str]:
    found = [*facts["incidents"], *facts["alerts"]]  # type: ignore[misc]
    return [each["class"] for each in found if each["severity"] in ("error", "critical")]


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (FALLBACK, []),
        (FALLBACK[:9], ["env.import"]),
        ([*TESTS, PASSED], []),
        (TESTS, ["cuda.illegal_access"]),
    ],
)
def test_once_judges_an_error_by_the_lines_below_it(
    tmp_path: Path, lines: list[str], expected: list[str]
) -> None:
    assert alarms(once(tmp_path / "job.log", *lines)) == expected


class Nodes:
    """Two nodes with one log each, whose lines the test answers; the clock is the test's."""

    def __init__(self) -> None:
        plan = Plan((NodeSpec("a"), NodeSpec("b")), interval_s=1.0, source="test")
        self.fleet = Fleet(plan)
        self.book = AlertBook(PACKS, Thresholds())
        self.now = 1000.0
        self.asked: list[LogStream] = []
        self.queries = LineQueries(self, lambda: self.book, lambda: self.now)
        self.texts: dict[str, list[str]] = {}

    def read_lines(self, node: str, file: str, **_where: float | None) -> LogStream:
        stream = LogStream(node, file, len(self.asked))
        self.fleet.streams[node, stream.id] = stream
        self.asked.append(stream)
        return stream

    def drop(self, stream: LogStream) -> None:
        self.fleet.streams.pop((stream.node, stream.id), None)

    def rows(self, node: str) -> list[LogLine]:
        found, at = [], 0
        for text in self.texts[node]:
            found.append(LogLine(at, at + len(text) + 1, text))
            at += len(text) + 1
        return found

    def report(self, node: str, lines: list[str], state: str = "following", files: int = 1) -> None:
        """What the agent of a node states of its logs: their size, and the error in each."""
        self.texts[node] = lines
        rows, t = self.rows(node), time.time()
        if self.fleet.nodes[node].link.phase != "live":
            self._take(node, LinkStatus("live"))
        logs = [LogFile(f"/{number}.log", state=state, size=rows[-1].end) for number in range(files)]  # type: ignore[arg-type]
        self._take(node, Logs(t=t, seq=0, files=logs, complete=True))
        place = next(row.offset for row in rows if ERROR in row.text)
        for number, log in enumerate(logs):
            finding = Finding(
                t=t, seq=0, id=number, rule="cuda.illegal_access", severity="error", file=log.path,
                offset=place, at=t, lines=[ERROR],
            )  # fmt: skip
            self._take(node, finding)

    def answer(self, lines: list[str] | None = None) -> None:
        """Every open request gets the whole log, or other lines."""
        for stream in list(self.fleet.streams.values()):
            if lines is not None:
                self.texts[stream.node] = lines
            rows = self.rows(stream.node)
            self._take(
                stream.node, Lines(t=0.0, seq=0, id=stream.id, lines=rows, size=rows[-1].end, done=True)
            )

    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        for _ in range(4):
            self.book.update(self.fleet, self.now, time.time())
            self.queries.update()
            self.now += 0.1

    def alarms(self) -> list[str | None]:
        return [each.node for each in self.book.alerts.values() if each.severity in ("error", "critical")]

    def _take(self, node: str, what: LinkStatus | Logs | Finding | Lines) -> None:
        self.fleet.apply(Arrival(node, self.now, what))


@pytest.fixture
def nodes() -> Nodes:
    return Nodes()


def test_a_file_that_grows_is_asked_for_again_and_one_that_does_not_is_not(nodes: Nodes) -> None:
    nodes.report("a", TESTS)
    nodes.pass_time(1.0)
    nodes.answer()
    nodes.pass_time(60.0)
    assert (len(nodes.asked), nodes.alarms(), nodes.queries.waiting) == (1, ["a"], False)
    nodes.report("a", [*TESTS, PASSED])
    nodes.pass_time(60.0)
    assert len(nodes.asked) == 2
    nodes.answer()
    nodes.pass_time(5.0)
    assert nodes.alarms() == []
    nodes.report("a", [*TESTS, PASSED, "bye"])
    nodes.pass_time(600.0)
    assert (len(nodes.asked), nodes.alarms()) == (2, [])


def test_without_an_answer_an_error_stands_and_nothing_waits_for_ever(nodes: Nodes) -> None:
    nodes.report("a", [*TESTS, PASSED])
    nodes.pass_time(1.0)
    assert nodes.queries.waiting
    nodes.pass_time(line_queries.MAX_REQUEST_S)
    assert (nodes.alarms(), nodes.queries.waiting, nodes.fleet.streams) == (["a"], False, {})


def test_a_file_that_was_made_anew_shows_nothing_of_the_old_error(nodes: Nodes) -> None:
    nodes.report("a", TESTS)
    nodes.pass_time(1.0)
    nodes.answer([*(f"another run, line {number}" for number in range(20)), PASSED])
    nodes.pass_time(5.0)
    assert nodes.alarms() == ["a"]


def test_a_node_clears_no_error_of_another_one(nodes: Nodes) -> None:
    nodes.report("a", TESTS)
    nodes.pass_time(1.0)
    nodes.report("b", [*TESTS, PASSED])
    nodes.pass_time(1.0)
    nodes.answer()
    nodes.pass_time(5.0)
    assert nodes.alarms() == ["a"]


@pytest.mark.parametrize("state", ["gone", "unreadable", "elsewhere"])
def test_nothing_is_asked_of_a_file_that_the_node_does_not_read(nodes: Nodes, state: str) -> None:
    nodes.report("a", [*TESTS, PASSED], state)
    nodes.pass_time(1.0)
    assert (nodes.asked, nodes.queries.waiting, nodes.alarms()) == ([], False, ["a"])


def test_requests_to_a_node_are_bounded(nodes: Nodes) -> None:
    nodes.report("a", [*TESTS, PASSED], files=90)
    for _ in range(60):
        nodes.pass_time(0.0)
        assert len(nodes.fleet.streams) <= line_queries.MAX_OPEN
        nodes.answer()
    assert len(nodes.asked) == int(line_queries.BURST + 60 * 0.4 * line_queries.PER_NODE_S)
    assert not nodes.queries.waiting
