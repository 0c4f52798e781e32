"""A file that is reached on several ways is one file, with every writer as its writer."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from gpuwatch.agent.logs.files.catalog import Catalog
from gpuwatch.agent.logs.files.entry import FileEntry
from gpuwatch.agent.logs.files.mounts import Mounts
from gpuwatch.agent.processes.process_details import log_files


def test_a_file_behind_the_roots_of_several_processes_is_followed_once(tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    log.write_text("step 1 loss 2.5\n")
    catalog = Catalog(Mounts(), lambda _: None, lambda: 0.0, lambda _: None)  # type: ignore[arg-type, return-value]
    sleeper = [sys.executable, "-c", "import time; time.sleep(60)"]
    with subprocess.Popen(sleeper) as one, subprocess.Popen(sleeper) as other:
        try:
            rows = [
                {"pid": each.pid, "rank": rank, "paths": [f"/proc/{each.pid}/root{log}"]}
                for rank, each in enumerate((one, other))
            ]
            for _ in range(2):
                catalog.written(rows, [], {})
                (entry,) = catalog.entries.values()
                assert entry.pids == sorted((one.pid, other.pid))
                assert entry.row()["ranks"] == [0, 1]
        finally:
            one.kill()
            other.kill()


def test_processes_of_a_container_write_it_at_one_path(tmp_path: Path) -> None:
    log = tmp_path / "inside" / "run" / "train.log"
    log.parent.mkdir(parents=True)
    log.write_text("step 1 loss 2.5\n")
    paths: dict[tuple[int, int], str] = {}
    written = []
    for pid in ("71", "72"):
        folder = tmp_path / pid
        (folder / "fd").mkdir(parents=True)
        (folder / "fdinfo").mkdir()
        (folder / "fd" / "1").symlink_to(log)
        (folder / "fdinfo" / "1").write_text("flags:\t0100001\n")
        (folder / "root").symlink_to(tmp_path / "inside")
        written.append(log_files(str(folder), {1: "/run/train.log"}, paths=paths))
    assert written == [[f"{tmp_path}/71/root/run/train.log"]] * 2


def test_a_file_of_two_ranks_is_not_the_word_of_the_one_that_still_runs() -> None:
    entry = FileEntry("/runs/train.log", "process")
    rows = [{"pid": 70 + rank, "rank": rank, "job": "mn"} for rank in (0, 1)]
    entry.written_by(rows, [], {})
    entry.written_by(rows[:1], [], {})
    assert "rank" not in entry.speaker()
    again = [{"pid": 80, "rank": 0, "job": "mn"}]
    entry.written_by(again, [], {})
    assert "rank" not in entry.speaker()
    entry.written_by([{"pid": 90, "rank": 3, "job": "other"}], [], {})
    assert entry.speaker()["rank"] == 3
