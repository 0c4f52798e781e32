"""Sums of traces: recorded ones, such with known times, and such that no profiler writes."""

from __future__ import annotations

import io
import json
import random
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gpuwatch.agent.hang_evidence import kernel_times as module
from gpuwatch.agent.hang_evidence.kernel_times import TraceError, kernel_times
from gpuwatch.wire import ProcessKernels
from tests.runs.traces import gpu_traces, kineto_v100


def sums(text: str | bytes) -> ProcessKernels:
    data = text if isinstance(text, bytes) else text.encode()
    return msgspec.convert({"pid": 1, **kernel_times(io.BytesIO(data).read)}, ProcessKernels)


def trace(*events: Any) -> str:
    return json.dumps({"schemaVersion": 1, "traceEvents": events}, indent=1)


def event(category: str, name: str, start: float, took: float, **more: Any) -> dict[str, Any]:
    return {"ph": "X", "cat": category, "name": name, "pid": 1, "tid": 1, "ts": start, "dur": took, **more}


def test_the_kernels_of_a_v100_are_summed_by_name(tmp_path: Path) -> None:
    found = sums(kineto_v100.write(tmp_path / "trace.json").read_bytes())
    events = [each[:3] for each in kineto_v100.GPU_EVENTS]
    for name in (kineto_v100.ELEMENTWISE, kineto_v100.GEMM, kineto_v100.COPY):
        (row,) = [each for each in found.work if each.name == name]
        took = [each[2] for each in events if each[0] == name]
        assert row.count == len(took)
        assert row.seconds == pytest.approx(sum(took) / 1e6)
    assert {each.category: each.count for each in found.totals} == {
        "kernel": sum(not each[0].startswith("Mem") for each in events),
        "copy": sum(each[0].startswith("Memcpy") for each in events),
    } | {each.category: each.count for each in found.totals if each.category == "memset"}
    assert found.busy_s == pytest.approx(sum(each[2] for each in events) / 1e6)  # one stream


def test_time_in_which_streams_overlap_is_busy_once() -> None:
    rows = [event("kernel", "a", 0, 10), event("kernel", "b", 5, 10), event("gpu_memcpy", "c", 15, 1)]
    rows += [event("kernel", "a", 100, 5), event("gpu_memset", "d", 102, 0), event("Trace", "t", 0, 1000)]
    random.Random(1).shuffle(rows)
    found = sums(trace(*rows))
    assert (found.busy_s, found.span_s) == (21e-6, 1e-3)
    assert [(each.name, each.count, each.seconds) for each in found.work[:2]] == [
        ("a", 2, 15e-6),
        ("b", 1, 10e-6),
    ]


def test_operators_count_where_there_is_no_gpu_without_those_that_they_call() -> None:
    rows = [
        event("cpu_op", "linear", 0, 100),
        event("cpu_op", "addmm", 10, 60),
        event("cpu_op", "copy", 20, 5),
    ]
    rows.append(event("cpu_op", "other", 30, 40, tid=2))
    found = sums(trace(*rows))
    assert {each.name: round(each.seconds * 1e6) for each in found.work} == {
        "linear": 40, "addmm": 55, "copy": 5, "other": 40,
    }  # fmt: skip
    assert (found.busy_s, found.span_s) == (None, None)
    on_gpu = sums(trace(*rows, event("kernel", "k", 0, 1)))
    assert [each.category for each in on_gpu.totals] == ["kernel"]


def test_a_trace_of_kinetos_layout_is_read_in_pieces() -> None:
    text = gpu_traces.training(0, steps=40).text("kineto")
    assert len(text) > 2 * module.PIECE
    found = sums(text)
    kernels = [each for each in json.loads(text)["traceEvents"] if each.get("cat") == "kernel"]
    assert sum(each.count for each in found.totals if each.category == "kernel") == len(kernels)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no trace",
        "[" * 100_000,
        '{"traceEvents": [' + "[" * 400_000,
        '{"traceEvents": [{"ph": "X", ',
        '{"traceEvents": [{"ph": "X"}',
        '{"traceEvents": [{"ph": "' + "x" * 1_000_000,
        '{"traceEvents": [nonsense]}' + " " * 1_000_000,
    ],
    ids=range(8),
)
def test_what_is_no_whole_trace_is_refused(text: str) -> None:
    with pytest.raises(TraceError):
        sums(text)


def test_numbers_and_names_that_no_profiler_writes_do_no_harm() -> None:
    digits = "9" * 100_000
    odd = f'{{"ph": "X", "cat": "kernel", "name": "n", "ts": {digits}, "dur": 1}}'
    values = ["NaN", "Infinity", "-1", "1e300", '"1"', "true", "null", "[]"]
    odd_times = [f'{{"ph": "X", "cat": "kernel", "name": "n", "ts": 1, "dur": {value}}}' for value in values]
    names = [
        json.dumps(event("kernel", "\x1b[2J\u202e" + "n" * 9000, 1, 2)),
        '{"ph": "X", "cat": [], "name": 1}',
    ]
    found = sums('{"traceEvents": [' + ",".join([odd, *odd_times, *names, "7", "[]"]) + "]}")
    assert found.left_out == 1 + len(values)
    (row,) = found.work
    assert "\x1b" not in row.name
    assert "\u202e" not in row.name
    assert len(row.name) <= module.MAX_NAME


def test_more_than_the_bounds_is_refused_or_put_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_NAMES", 50)
    found = sums(trace(*(event("kernel", f"k{number}", number, 1) for number in range(90))))
    assert len(found.work) == module.MAX_ROWS
    assert (found.work[0].name, found.work[0].count) == (module.OTHERS, 40)
    assert found.totals[0].count == 90
    monkeypatch.setattr(module, "MAX_EVENTS", 20)
    for category in ("kernel", "cpu_op"):
        with pytest.raises(TraceError):
            sums(trace(*(event(category, "k", number, 1) for number in range(90))))
