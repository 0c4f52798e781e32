"""The parts of the benchmark, and one of them in a process of its own.

`python -m tests.bench.parts MODULE FOLDER FILE` measures one part and writes its rows as JSON.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import pytest

from tests.bench.cpu import Row
from tests.kernel_log import VARIABLE, empty_kernel_log

ROOT = Path(__file__).parents[2]
PARTS = {
    "startup": "tests.bench.screens.startup",
    "screen": "tests.bench.screens.screen",
    "many_nodes": "tests.bench.screens.many_nodes",
    "links": "tests.bench.screens.links",
    "memory": "tests.bench.live.memory",
    "agent": "tests.bench.live.agent_cost",
    "transport": "tests.bench.live.transport",
    "scale": "tests.bench.scale.rows",
    "cockpit": "tests.bench.live.cockpit",
    "exporter": "tests.bench.live.exporter",
    "logs": "tests.bench.log_reading.logs",
    "log_pane": "tests.bench.screens.log_pane",
    "keys": "tests.bench.screens.keys",
    "latency": "tests.bench.live.latency",
    "matcher": "tests.bench.log_reading.matcher",
    "scan": "tests.bench.log_reading.scan",
    "open": "tests.bench.log_reading.open_folder",
    "probe": "tests.bench.probe",
    "hang": "tests.bench.hang",
    "telemetry": "tests.bench.training.telemetry",
    "run": "tests.bench.training.run",
    "recording": "tests.bench.live.recording",
}
LIMIT_S = 1200.0
"""The longest part (matcher, 100 MB on a slow core) takes a quarter of it."""
ENDING_S = 30.0
"""For a part to end what it has started, once it is asked to."""


@dataclass(frozen=True)
class Outcome:
    """What one part has come to: its rows, or why there are none."""

    part: str
    rows: tuple[Row, ...] = ()
    failed: str | None = None


@contextlib.contextmanager
def quiet_machine() -> Iterator[dict[str, str]]:
    """An environment in which neither a person's settings nor the machine's kernel log count."""
    with (
        tempfile.TemporaryDirectory(prefix="gpuwatch-bench-") as folder,
        empty_kernel_log(Path(folder)) as kernel_log,
    ):
        own = {"XDG_CONFIG_HOME": f"{folder}/settings", "XDG_CACHE_HOME": f"{folder}/cache"}
        yield {**os.environ, **own, VARIABLE: kernel_log}


def measured(part: str, module: str, env: Mapping[str, str], limit_s: float = LIMIT_S) -> Outcome:
    """Measure a part in a process of its own, so that a failure or a hang costs its own rows only."""
    with tempfile.TemporaryDirectory(prefix=f"gpuwatch-bench-{part}-") as folder:
        file = Path(folder) / "rows.json"
        (work := Path(folder) / "work").mkdir()
        argv = [sys.executable, "-m", "tests.bench.parts", module, str(work), str(file)]
        with subprocess.Popen(argv, cwd=ROOT, env=dict(env), start_new_session=True) as process:
            try:
                status = process.wait(limit_s)
            except subprocess.TimeoutExpired:
                _end(process)
                return Outcome(part, failed=f"not done within {limit_s:.0f} s")
            except BaseException:
                _end(process)
                raise
        if not file.exists():
            return Outcome(part, failed=f"ended with status {status}")
        found = json.loads(file.read_text())
    return Outcome(part, tuple(Row(**row) for row in found["rows"]), found["failed"])


def _end(process: subprocess.Popen[bytes]) -> None:
    """Interrupt a process, so that it ends its children; if it goes on, kill its whole session."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGINT)
        try:
            process.wait(ENDING_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def main(module: str, folder: str, file: str) -> None:
    """Measure, and write the rows or the failure."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    rows: list[Row] = []
    failed = None
    try:
        rows = list(importlib.import_module(module).rows(Path(folder)))
    except (Exception, pytest.skip.Exception, pytest.fail.Exception) as error:
        failed = f"{type(error).__name__}: {error}"
    Path(file).write_text(json.dumps({"rows": [asdict(row) for row in rows], "failed": failed}))


if __name__ == "__main__":
    main(*sys.argv[1:])
