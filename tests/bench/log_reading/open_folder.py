"""`gpuwatch open FOLDER` over the logs of 512 ranks, until files, last lines and steps are there.

`python -m tests.bench.log_reading.open_folder FOLDER` measures one folder and prints the moments as JSON.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.bench.cpu import Row, cpu_s
from tests.bench.log_reading.rank_logs import rank_log, write

FILES, FILE_BYTES = 512, 200_000
LIMIT_S = 300.0
RUNS = 3


def moments(folder: Path) -> dict[str, tuple[float, float]]:
    """Return what -> (seconds, CPU seconds of all processes) since this process began to open the folder."""
    began = time.monotonic()
    from gpuwatch.rules.load import load_packs  # noqa: PLC0415 - a part of what is measured
    from gpuwatch.runs.files.files import gather  # noqa: PLC0415 - as above
    from gpuwatch.session.log_folder.session import FolderSession  # noqa: PLC0415 - as above

    packs = load_packs()
    found = gather([folder], packs.column_words, whole_files=False)
    passed: dict[str, tuple[float, float]] = {}
    with FolderSession([folder], found, packs) as session:

        def reached(what: str, is_there: Callable[[], object]) -> None:
            while not is_there():
                if time.monotonic() - began > LIMIT_S:
                    raise TimeoutError(what)
                session.poll()
                time.sleep(0.01)
            passed[what] = time.monotonic() - began, sum(map(cpu_s, tree()))

        nodes = session.fleet.nodes
        reached("files", lambda: sum(len(node.logs) for node in nodes.values()) == len(found.files))
        name, node = next(iter(nodes.items()))
        tail = session.tail(name, node.logs[0].path)
        reached("last lines", lambda: tail.lines)
        reached("steps", lambda: session.fleet.progress.writers)
        reached("judgement", lambda: session.report.whole)
    return passed


def tree() -> list[int]:
    """The ids of this process and its descendants."""
    found = [int(Path("/proc/self").resolve().name)]
    for pid in found:
        for task in Path(f"/proc/{pid}/task").glob("*/children"):
            found += map(int, task.read_text().split())
    return found


def rows(folder: Path) -> Sequence[Row]:
    """A line each for the first screen and for the whole judgement."""
    for rank in range(FILES):
        write(folder / f"rank{rank}.log", rank_log(rank), FILE_BYTES)
    argv = [sys.executable, "-m", "tests.bench.log_reading.open_folder", str(folder)]
    runs = [json.loads(subprocess.run(argv, check=True, capture_output=True).stdout) for _ in range(RUNS)]
    best = min(runs, key=lambda run: run["steps"][0])
    text = ", ".join(f"{what} {clock:.1f} s ({cpu:.1f} s CPU)" for what, (clock, cpu) in best.items())
    took = best["steps"][0]
    return [Row(f"open, {FILES} files of {FILE_BYTES // 1000} kB", text, "steps <= 2 s", took <= 2, took)]


if __name__ == "__main__":
    print(json.dumps(moments(Path(sys.argv[1]))))
