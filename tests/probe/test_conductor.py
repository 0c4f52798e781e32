"""The conductor from the first word to the last, over nodes that follow a script."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from gpuwatch.probe.conductor import Conductor
from gpuwatch.probe.results import Phase, Results
from gpuwatch.probe.verdict import Verdict
from gpuwatch.probe.wish import MIB, Wish
from tests.probe.scripted import Fabric, ScriptedLine, cluster

SMALL = Wish(sizes=(MIB, 4 * MIB), timeout_s=1.0)


def judge(results: Results, _baseline: Any) -> Verdict:
    return Verdict("ok", results.phase)


def probe(
    lines: Sequence[ScriptedLine],
    wish: Wish = SMALL,
    suspects: Callable[[Results], list[tuple[int, int]]] = lambda _results: [],
) -> Conductor:
    conductor = Conductor(lines, wish, judge=judge, suspects=suspects)
    conductor.start()
    return conductor


def await_phase(conductor: Conductor, *phases: Phase) -> None:
    deadline = time.monotonic() + 20
    while conductor.results.phase not in phases:
        assert time.monotonic() < deadline, conductor.results
        time.sleep(0.002)


def run_through(
    lines: Sequence[ScriptedLine],
    wish: Wish = SMALL,
    suspects: Callable[[Results], list[tuple[int, int]]] = lambda _results: [],
) -> Results:
    conductor = probe(lines, wish, suspects)
    await_phase(conductor, "asking", "refused")
    conductor.confirm()
    assert conductor.wait(30)
    conductor.close()
    return conductor.results


def test_a_whole_probe() -> None:
    lines = cluster(3, fabric=Fabric(rate=lambda src, dst: 1e9 if (src, dst) == (0, 4) else 2e9))
    results = run_through(lines)
    assert (results.phase, results.reason) == ("done", "")
    assert [seat.node for seat in results.seats] == [
        "gpu-000",
        "gpu-000",
        "gpu-001",
        "gpu-001",
        "gpu-002",
        "gpu-002",
    ]
    assert len(results.collectives) == 6 * 2
    assert all(row.correct and row.busbw_gb_per_s for row in results.collectives)
    assert set(results.pairs) == {(a, b) for a in range(6) for b in range(6) if a != b}
    assert results.pairs[0, 4].bandwidth_gb_per_s == pytest.approx(1.0)
    assert results.pairs[4, 0].bandwidth_gb_per_s == pytest.approx(2.0)
    assert results.pairs[0, 4].latency_us == pytest.approx(20.0)
    assert {change.name for change in results.counters} == {"nic:eth0:rx_errors"}
    assert results.done_steps == results.all_steps
    assert results.verdict == Verdict("ok", "done")
    assert all(line.closed for line in lines)
