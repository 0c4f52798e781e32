"""A recording as Parquet: every GPU's samples with their job and user, steps, events and the incident."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from gpuwatch.link.recording.reader import Recording
from gpuwatch.report.recording.tables import TABLES, TablesError, write_tables
from tests.link.recording.recordings import recorded_demo


def test_the_tables_of_the_demo(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet", reason="needs pyarrow: pip install pyarrow")
    with closing(Recording(recorded_demo().path)) as recording:
        counts = write_tables(recording, tmp_path / "tables")
        first, last = recording.first / 1e6, recording.last / 1e6
    assert {each.name for each in (tmp_path / "tables").iterdir()} == {f"{name}.parquet" for name in TABLES}
    gpus = parquet.read_table(tmp_path / "tables" / "gpus.parquet").to_pylist()
    assert len(gpus) == counts["gpus"] > 100 * 50
    assert {(row["node"], row["gpu"]) for row in gpus} == {
        (f"gpu-{node:03}", gpu) for node in range(1, 17) for gpu in range(8)
    }
    assert all(first - 1 <= row["time"].timestamp() <= last + 1 for row in gpus)
    placed = [row for row in gpus if row["rank"] is not None]
    assert {row["job"] for row in placed} == {"418207"}
    assert {row["rank"] for row in placed if row["node"] == "gpu-002"} == set(range(8, 16))
    assert any(row["state"] == "lost" and row["gpu"] == 5 for row in gpus if row["node"] == "gpu-011")
    (incident,) = parquet.read_table(tmp_path / "tables" / "incidents.parquet").to_pylist()
    assert incident["severity"] == "critical"
    assert counts["steps"] > 100
    events = parquet.read_table(tmp_path / "tables" / "events.parquet").to_pylist()
    assert {"xid 79", "gpu.xid.fell_off"} & {row["code"] for row in events}


def test_a_folder_that_cannot_be_made_is_reported(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow", reason="needs pyarrow: pip install pyarrow")
    (tmp_path / "file").touch()
    with closing(Recording(recorded_demo().path)) as recording, pytest.raises(TablesError, match="file"):
        write_tables(recording, tmp_path / "file" / "tables")
