"""Status documents and tables of log lines, as the log lines that they stand for."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from gpuwatch.runs.files.excerpts.line_numbers import line_numbers
from gpuwatch.runs.files.exports.failures import MAX_REPORTS, reports
from gpuwatch.runs.files.exports.finding import export_packing
from gpuwatch.runs.files.exports.log_tables import LOG_TABLE, table_lines
from gpuwatch.runs.files.exports.status_lines import STATUS, status_lines
from gpuwatch.runs.files.opening import beginning

POD = {
    "kind": "Pod",
    "metadata": {"name": "w-5"},
    "spec": {"nodeName": "g-7", "containers": [{"env": [{"name": "RANK", "value": "6"}]}]},
    "status": {"phase": "Failed", "containerStatuses": [{"state": {"terminated": {"exitCode": 139}}}]},
}


@pytest.mark.parametrize(
    ("document", "node", "rank", "code", "signal"),
    [
        (POD, "g-7", 6, 139, None),
        ({"jobs": [{"nodes": "h3", "exit_code": {"signal": {"id": {"number": 9}}}}]}, "h3", None, None, 9),
        ([{"State": "dead", "Failed": True, "ExitCode": "2:0", "NodeName": "n1"}], "n1", None, 2, None),
        ({"status": "FAILED", "host": "a1/b", "env": {"RANK": "3"}, "returncode": -6}, "a1", 3, None, 6),
    ],
)  # fmt: skip
def test_a_failure_has_its_place_and_code(
    document: Any, node: str, rank: int | None, code: int | None, signal: int | None
) -> None:
    found = reports(document)[-1]
    assert (found.place.node, found.place.rank, found.exit_code, found.signal) == (node, rank, code, signal)


@pytest.mark.parametrize(
    "document",
    [
        {"status": "SUCCEEDED", "attempts": [{"exitCode": 1, "statusReason": "Host terminated"}]},
        {
            "status": {
                "phase": "Running",
                "containerStatuses": [{"lastState": {"terminated": {"exitCode": 9}}}],
            }
        },
        {"lastStatus": "STOPPED", "stoppedReason": "Task stopped by user", "containers": [{"exitCode": 143}]},
        {"status": "COMPLETED", "exit_code": {"return_code": {"set": True, "number": 0}}},
        {"restart": {"exitCode": {"retryOn": [137]}}, "reason": "nightly"},
        {"status": "Failed" * 100, "exitCode": True, "signal": "x" * 50},
    ],
)
def test_what_ended_well_or_on_purpose_is_no_failure(document: Any) -> None:
    assert not reports(document)


def test_a_failure_stands_on_the_line_that_states_it(tmp_path: Path) -> None:
    document = {
        "tasks": [
            {"stoppedAt": 1772615000000, "exitCode": 3},
            {"exitCode": 0},
            {"reason": "lost", "exitCode": 4},
        ]
    }
    text = "$ describe\n" + json.dumps(document, indent=1) + "\nbye\n"
    path = tmp_path / "notes.txt"
    path.write_text(text)
    assert export_packing(text.encode(), beginning(path)) == STATUS
    given, made = text.splitlines(), status_lines(text.encode()).decode().splitlines()
    assert made[0] == given[0]
    assert made[len(given) - 1] == given[-1]
    assert "2026-03-04T09:03:20" in made[next(at for at, line in enumerate(given) if ": 3" in line)]
    assert "lost" in made[next(at for at, line in enumerate(given) if "lost" in line)]


def test_two_failures_on_one_line_leave_the_numbers_of_later_lines(tmp_path: Path) -> None:
    tasks = [{"name": f"task-{code}", "exitCode": code, "reason": f"lost {code}"} for code in (3, 4, 5)]
    text = json.dumps({"tasks": tasks}).replace(', {"name": "task-5"', ',\n{"name": "task-5"')
    path = tmp_path / "tasks.json"
    path.write_text(text)
    made = status_lines(text.encode())
    first, second, third = (made.index(b"exited with code %d" % code) for code in (3, 4, 5))
    assert line_numbers(path, STATUS, [first, second, third]) == {first: 1, second: 1, third: 2}
    assert len(re.split(rb"[\r\n]+", made.strip())) == 3


@pytest.mark.parametrize(
    "text",
    [
        '{"step": 1, "status": "failed"}\n{"step": 2, "status": "failed"}\n',
        '{"level": "error", "msg": "x", "status": "failed"}\n',
        "{" * 5000 + '"status": "failed"',
        "kind: Pod\nstatus: &a\n  phase: Failed\n  x: *a\n",
        "kind: [\nstatus: {\n",
        "status: failed\nexit_code: 1\n",
    ],
)
def test_logs_and_broken_documents_are_read_as_they_stand(tmp_path: Path, text: str) -> None:
    path = tmp_path / "x.txt"
    path.write_text(text)
    assert export_packing(text.encode(), beginning(path)) is None


def test_the_failures_of_a_document_are_bounded() -> None:
    assert len(reports([{"exitCode": code} for code in range(1, 200)])) == MAX_REPORTS


def test_rows_are_log_lines(tmp_path: Path) -> None:
    text = '@timestamp,severity,host,@message\n1765540800000,ERROR,h1,"a, ""b"""\n1765540801000,,,c\nx\n'
    assert export_packing(text.encode(), beginning(tmp_path / "absent")) == LOG_TABLE
    assert list(table_lines(text.splitlines(keepends=True))) == [
        "\n", '2025-12-12T12:00:00Z h1 [stderr] ERROR: a, "b"\n', "2025-12-12T12:00:01Z c\n", "x\n",
    ]  # fmt: skip
    assert export_packing(b"time,loss\n1765540800,2.1\n", beginning(tmp_path / "absent")) is None
