"""A file that is reached on several ways is one file, with every writer as its writer."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from gpuwatch.agent.logs.files.catalog import Catalog
from gpuwatch.agent.logs.files.mounts import Mounts


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
