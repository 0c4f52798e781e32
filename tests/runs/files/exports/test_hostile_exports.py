"""Documents and tables that a stranger wrote end no scan, cost little, and make no lines of their own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpuwatch.runs.files.exports.failures import MAX_REPORTS, reports
from gpuwatch.runs.files.exports.finding import export_packing
from gpuwatch.runs.files.exports.log_tables import LOG_TABLE, table_lines
from gpuwatch.runs.files.exports.status_lines import is_status_document, status_lines
from gpuwatch.runs.files.opening import beginning
from gpuwatch.runs.files.packing import Contents
from tests.rules.compiling.costs import at_most

LONGEST_S = 20.0
"""CPU seconds; below 1 s here."""
HEADING = "timestamp,message\n2024-05-03T08:00:00Z,hello\n"


@pytest.mark.parametrize(
    "document",
    [
        '{"status":"FAILED","exitCode":1,"endTime":1' + "0" * 400 + "}",
        '{"status":"FAILED","exitCode":1,"endTime":1e999,"jobId":' + "9" * 4000 + "}",
        "kind: Pod\nstatus: FAILED\nexitCode: 1\nid: 0x" + "f" * 50_000,
        "kind: Pod\nstatus: FAILED\nexitCode: 1\nid: " + ":".join(["1"] * 100_000),
        "kind: Pod\nstatus: FAILED\nexitCode: 1\nat: 2024-13-99T99:99:99+99:99",
        '{"status":"FAILED","exitCode":1}\n' + ('["' + "a" * 8000 + '",\n') * 400,
        '{"status":"FAILED","items":[' + ",".join(['{"exitCode":1}'] * 100_000) + "]}",
        '{"status":"FAILED","exitCode":1,"items":' + '{"a":' * 900 + "1" + "}" * 901,
    ],
    ids=["large time", "infinite time", "hexadecimal", "base 60", "no time", "nested", "many", "deep"],
)
def test_a_document_of_any_content_is_read_in_little_time(document: str) -> None:
    data = document.encode()
    with at_most(LONGEST_S):
        assert is_status_document(data)
        assert b"failed" in status_lines(data)


def test_what_a_document_names_stays_on_its_line_and_in_its_form() -> None:
    forged = "x\n[rank0]: torch.OutOfMemoryError\u2028\x0b"
    record = {"name": forged, "status": "FAILED", "exitCode": 3, "spec": {"nodeName": "n\nNVRM: Xid"}}
    document = json.dumps(record)
    assert len(status_lines(document.encode()).decode().splitlines()) == 1
    [found] = reports(record)
    assert found.place.node is None
    assert len(reports([{"exitCode": number} for number in range(1, 1000)])) == MAX_REPORTS


def test_a_quote_without_an_end_costs_its_rows_alone(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text(HEADING + '2024-05-03T08:00:00Z,"' + ("a" * 1000 + "\n") * 1500)
    assert export_packing(path.read_bytes()[:8192], lambda most: path.read_bytes()[:most]) == LOG_TABLE
    assert b"hello" in b"".join(Contents(path, LOG_TABLE).pieces())


def test_a_line_without_an_end_comes_in_parts(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text(HEADING + "2024-05-03T08:00:00Z," + "b" * (5 << 20))
    pieces = list(Contents(path, LOG_TABLE).pieces())
    assert any(b"hello" in piece for piece in pieces)
    assert max(map(len, pieces)) < 2 << 20


def test_a_row_with_too_few_fields_stays_a_line() -> None:
    lines = [f"{line}\n" for line in HEADING.splitlines()] + ["x\n", "2024-05-03T08:00:01Z,later\n"]
    found = list(table_lines(lines))
    assert [bool(line.strip()) for line in found] == [False, True, True, True]


def test_attempts_that_were_made_good_cost_no_square_of_their_number() -> None:
    times = [f"2024-05-03T08:{number // 60 % 60:02}:{number % 60:02}Z" for number in range(8000)]
    attempts = [{"name": "a", "exitCode": 1, "status": "FAILED", "endTime": each} for each in times]
    ends = [{"name": "a", "status": "SUCCEEDED", "endTime": "2024-05-02T08:00:00Z"}] * 8000
    with at_most(LONGEST_S):
        assert len(reports([*attempts, *ends])) == MAX_REPORTS
    assert not reports([attempts[0], {**ends[0], "endTime": "2024-05-04T08:00:00Z"}])


@pytest.mark.parametrize(
    "text",
    [
        '{"status": x\n' + '{"bbbbbbbbbb\n' * 300_000,
        '{"status": x\n' + "[1,\n" * 300_000,
        "kind: a\nstatus: FAILED\nx0: &-0 [1,1,1,1,1,1,1,1]\n"
        + "".join(f"x{n}: &-{n} [{','.join([f'*-{n - 1} '] * 9)}]\n" for n in range(1, 9)),
    ],
    ids=["open strings", "open lists", "aliases"],
)
def test_what_only_looks_like_a_document_costs_little(text: str) -> None:
    with at_most(LONGEST_S):
        assert not is_status_document(text.encode())


def test_a_line_below_a_table_is_read_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "rank0.log"
    path.write_text(HEADING + "2024-05-03T08:00:00Z,hello\ntorch.OutOfMemoryError: CUDA out of memory.\n")
    assert b"torch.OutOfMemoryError: CUDA" in b"".join(Contents(path, LOG_TABLE).pieces())


def test_a_log_that_is_a_document_as_a_whole_is_a_log() -> None:
    text = b"kind: x\napiVersion: y\nmetadata: z\ntrace: RuntimeError\n"
    assert is_status_document(text)
    assert not is_status_document(text, log=True)
    assert not is_status_document(text + b"RuntimeError: CUDA out of memory\n")


def test_records_beside_a_document_stay_as_they_are() -> None:
    record = b'{"message": "RuntimeError: CUDA out of memory"}\n'
    document = b'{"kind": "Pod", "apiVersion": "v1", "metadata": {}}\n'
    assert is_status_document(document + record)
    assert status_lines(document + record).split() == record.split()


ERROR = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB, GPU 0 has a total capacity of 79"
    " GiB, of which 1 GiB is free, including memory of others, this process has 70 GiB, of it 3 by PyTorch"
)


@pytest.mark.parametrize(
    "head",
    [
        "x,y,z,level,message\n1,2,3,INFO,hi\n",
        "level,a,b,c,message\nINFO,1,2,3,hi\n",
        "a,b,rank,message\n1,2,3,hi\n",
        "timestamp,message\n2024-05-03T08:00:00Z,hi\n",
        "timestamp,message,a,b,c,d\n2024-05-03T08:00:00Z,hi,1,2,3,4\n",
        'timestamp,message\n2024-05-03T08:00:00Z,hi\n"',
        'timestamp,host,message\n2024-05-03T08:00:00Z,a,hi\n2024-05-03T08:00:00Z,"',
    ],
)
@pytest.mark.parametrize("end", ["", 'a "quoted" word\n', '",x\n'])
def test_a_log_that_begins_like_a_table_is_read_to_its_end(head: str, end: str, tmp_path: Path) -> None:
    """Two printed lines must not hide those below them."""
    path = tmp_path / "rank0.log"
    path.write_text(f"{head}step 2\n{ERROR}\n{end}")
    assert export_packing(path.read_bytes(), beginning(path)) == LOG_TABLE
    assert ERROR.encode() in b"".join(Contents(path, LOG_TABLE).pieces()).splitlines()


def test_rows_that_quotes_join_without_an_end_fill_no_memory(tmp_path: Path) -> None:
    path = tmp_path / "rank0.log"
    path.write_text(HEADING + '2024-05-03T08:00:00Z,hello\n"' + f'{"b" * 60}\n","' * 100_000)
    assert max(map(len, Contents(path, LOG_TABLE).pieces())) < 2 << 20


def test_a_number_of_any_length_hides_no_failure() -> None:
    document = b'{"status": "FAILED", "exitCode": ' + b"9" * 6000 + b', "reason": "OutOfMemoryError"}'
    assert is_status_document(document)
    assert b"OutOfMemoryError" in status_lines(document)
