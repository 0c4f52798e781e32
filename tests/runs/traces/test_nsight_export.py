"""Exports of Nsight Systems: the same measures, by process and GPU."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from gpuwatch.runs.traces.event_stream import NoTraceError
from gpuwatch.runs.traces.nsight_export import GRAPHS_NOTE, read_nsight
from gpuwatch.runs.traces.trace_files import gather_traces
from tests.runs.traces.nsight_exports import add_copy, add_graph, write_export


def test_an_export_is_measured_as_a_trace(tmp_path: Path) -> None:
    """Document 004, line 106."""
    (profile,) = gather_traces([write_export(tmp_path / "rank3.sqlite")]).profiles
    parts = profile.breakdown
    assert profile.trace.rank == 3
    assert parts.compute_ms == pytest.approx(0.4)
    assert parts.communication_ms == pytest.approx(0.06)
    assert parts.memory_copy_ms == pytest.approx(0.02)
    assert parts.span_ms == pytest.approx(0.51)
    assert parts.exposed_share == pytest.approx(0.6)
    (collective,) = parts.collectives
    assert collective.name == "all_reduce"
    by_gpu = {each.name: each for each in profile.tables.by_gpu}
    assert by_gpu["backward"].self_gpu_ms == pytest.approx(0.5)
    assert by_gpu["step"].total_gpu_ms == pytest.approx(0.5)


def test_several_gpus_of_one_file_are_kept_apart(tmp_path: Path) -> None:
    profiles = gather_traces([write_export(tmp_path / "node.sqlite", (0, 1, 2))]).profiles
    assert [(each.trace.rank, each.trace.device) for each in profiles] == [(None, 0), (None, 1), (None, 2)]
    assert {round(each.breakdown.compute_ms, 6) for each in profiles} == {0.4}


@pytest.mark.parametrize(("listed", "who"), [(True, [(0, None), (1, None)]), (False, [(0, 4096), (0, 4097)])])
def test_processes_that_each_see_one_gpu_are_all_measured(
    tmp_path: Path, listed: bool, who: list[tuple[int, int | None]]
) -> None:
    """CUDA_VISIBLE_DEVICES makes the GPU of every process its GPU 0."""
    found = gather_traces([write_export(tmp_path / "node.sqlite", (0, 1), renumbered=True, listed=listed)])
    assert found.older == []
    assert [(each.trace.device, each.trace.process) for each in found.profiles] == who
    assert len({each.label for each in found.profiles}) == 2


def test_exports_of_two_nodes_have_labels_of_their_own(tmp_path: Path) -> None:
    for node in ("a", "b"):
        write_export(tmp_path / f"{node}.sqlite", (0, 1))
    profiles = gather_traces([tmp_path]).profiles
    assert {each.label for each in profiles} == {
        f"{node}.sqlite GPU {gpu}" for node in ("a", "b") for gpu in (0, 1)
    }


def test_a_cuda_graph_is_no_idle_time(tmp_path: Path) -> None:
    path = write_export(tmp_path / "rank0.sqlite")
    add_graph(path, 600, 900)
    (profile,) = gather_traces([path]).profiles
    assert profile.breakdown.compute_ms == pytest.approx(0.7)
    assert profile.breakdown.idle_ms == pytest.approx(0.07)
    assert GRAPHS_NOTE in profile.trace.notes


def test_a_few_copies_on_another_gpu_make_no_second_rank(tmp_path: Path) -> None:
    path = write_export(tmp_path / "rank3.sqlite", (3,))
    add_copy(path, 0x1003, 0)
    (profile,) = gather_traces([path]).profiles
    assert (profile.trace.rank, profile.trace.device) == (3, None)
    assert profile.breakdown.compute_ms == pytest.approx(0.4)
    assert any("GPU 0" in note for note in profile.trace.notes)


def test_another_database_and_a_damaged_one_are_refused(tmp_path: Path) -> None:
    other = tmp_path / "other.sqlite"
    database = sqlite3.connect(other)
    database.execute("CREATE TABLE steps (step INTEGER)")
    database.close()
    cut = tmp_path / "cut.sqlite"
    cut.write_bytes(write_export(tmp_path / "whole.sqlite").read_bytes()[:6000])
    for path in (other, cut):
        with pytest.raises(NoTraceError):
            read_nsight(path, path.name, None)


@pytest.mark.parametrize("kind", ["VIRTUAL", "STORED"])
@pytest.mark.parametrize("table", ["StringIds", "CUPTI_ACTIVITY_KIND_KERNEL"])
def test_a_column_that_is_computed_is_refused(tmp_path: Path, table: str, kind: str) -> None:
    path = write_export(tmp_path / "rank0.sqlite")
    column = {"StringIds": "value", "CUPTI_ACTIVITY_KIND_KERNEL": "start"}[table]
    with closing(sqlite3.connect(path)) as database, database:
        names = [row[1] for row in database.execute(f"PRAGMA table_info({table})")]
        columns = [f'"{name}" {f"AS (hex(zeroblob(9))) {kind}" if name == column else ""}' for name in names]
        database.execute(f"DROP TABLE {table}")
        database.execute(f"CREATE TABLE {table} ({', '.join(columns)})")
    with pytest.raises(NoTraceError, match="computed"):
        read_nsight(path, path.name, None)


COLUMNS = ("start", "end", "deviceId", "globalPid", "correlationId", "demangledName", "bytes")


@pytest.mark.parametrize("value", ["'soon'", "NULL", "1e308"])
def test_a_value_of_another_type_is_a_sentence_and_no_fault(tmp_path: Path, value: str) -> None:
    paths = [tmp_path / f"rank{number}.sqlite" for number in range(len(COLUMNS) + 1)]
    whole = write_export(paths[-1]).read_bytes()
    for path, column in zip(paths, COLUMNS, strict=False):
        path.write_bytes(whole)
        with closing(sqlite3.connect(path)) as database, database:
            database.execute("PRAGMA synchronous = OFF")
            for (table,) in database.execute(
                "SELECT name FROM sqlite_master WHERE type = 'table'"
            ).fetchall():
                known = [str(row[1]) for row in database.execute(f'PRAGMA table_info("{table}")')]
                if column in known:  # a copy has no types and no constraints
                    database.execute(f'CREATE TABLE copy AS SELECT * FROM "{table}"')  # noqa: S608 - names of our own
                    database.execute(f'DROP TABLE "{table}"')
                    database.execute(f'ALTER TABLE copy RENAME TO "{table}"')
                    database.execute(f'UPDATE "{table}" SET "{column}" = {value}')  # noqa: S608 - our own
    found = gather_traces(paths)
    assert len(found.profiles) + len(found.skipped) == len(paths)
    assert found.profiles
