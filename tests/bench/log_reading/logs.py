"""What following logs costs a node: 50 files, 5,000 lines a second in all, every built-in rule."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from gpuwatch.link.start.bundle import bundle, loader_argv
from gpuwatch.link.start.log_settings import packed_rules
from tests.agent.logs.conftest import LogAgent, children, wait_for
from tests.agent.running import NONCE
from tests.bench.cpu import Row, rss_bytes, shares

SECONDS = 20.0
FILES, LINES_S, BURSTS_S = 50, 5000, 10
LINE = (
    "[rank{rank}]: 2024-05-01 10:{minute:02}:{second:02},{n:03} [INFO] iteration {n:8d}/ 100000"
    " | consumed samples: {n:12d} | elapsed time per iteration (ms): 412.7 | learning rate: 1.5E-04"
    " | global batch size: 512 | lm loss: 2.{n:06d}\n"
)
ALERTS = 30


class Writers:
    """Appends ordinary training lines to the files, evenly, in a thread."""

    def __init__(self, folder: Path) -> None:
        self.files = [(folder / f"rank_{rank}.log").open("ab", buffering=0) for rank in range(FILES)]
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._write, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop."""
        self._ended.set()
        self._thread.join()
        for file in self.files:
            file.close()

    def _write(self) -> None:
        n, due = 0, time.monotonic()
        each = LINES_S // BURSTS_S // FILES
        while not self._ended.is_set():
            for rank, file in enumerate(self.files):
                lines = (
                    LINE.format(rank=rank, n=(n + i) % 1000, minute=n // 60 % 60, second=n % 60)
                    for i in range(each)
                )
                file.write("".join(lines).encode())
            n += each
            due += 1 / BURSTS_S
            time.sleep(max(0.0, due - time.monotonic()))


def following(folder: Path) -> Sequence[Row]:
    """CPU and memory of agent and log reader."""
    config = {
        "nonce": NONCE,
        "interval_s": 1.0,
        "ping_deadline_s": 600.0,
        "version": "bench",
        "logs": [f"{folder}/rank_{{rank}}.log"],
        "rules": packed_rules(()),
    }
    writers = Writers(folder)
    with subprocess.Popen(
        loader_argv(sys.executable), stdin=subprocess.PIPE, stdout=subprocess.DEVNULL
    ) as process:
        assert process.stdin is not None
        process.stdin.write(bundle(config))
        process.stdin.flush()
        reader = wait_for(lambda: children(process.pid), "the log reader")[0]
        time.sleep(6.0)  # both have started up
        agent_cost, reader_cost = shares([process.pid, reader], SECONDS)
        agent_memory, reader_memory = rss_bytes(process.pid), rss_bytes(reader)
        pss = pss_bytes(process.pid) + pss_bytes(reader)
        process.stdin.close()
    writers.close()
    return [
        Row(
            f"agent and log reader following {FILES} files, {LINES_S:,} lines/s in all",
            f"{agent_cost + reader_cost:.1%} of a core (reader {reader_cost:.1%})",
            "<= 5 %",
            agent_cost + reader_cost <= 0.05,
            agent_cost + reader_cost,
        ),
        Row(
            "their memory, what both share counted once",
            f"{pss / 1e6:.0f} MB (RSS {agent_memory / 1e6:.0f} + {reader_memory / 1e6:.0f})",
            "<= 40 MB",
            pss <= 40e6,
            pss,
        ),
    ]


def reporting(folder: Path) -> Sequence[Row]:
    """From a line written to its finding received, over pipes, at a tick of 1 s."""
    log = folder / "rank_0.log"
    log.touch()
    agent = LogAgent(folder, interval_s=1.0)
    took = []
    try:
        agent.file(log)
        for code in range(ALERTS):
            time.sleep(0.2 + code % 7 / 20)
            began = time.monotonic()
            with log.open("a") as file:
                file.write(f"BOOM code={code}\n")
            agent.found(lambda one, code=code: one.fields == {"code": code})  # type: ignore[misc]
            took.append(time.monotonic() - began)
    finally:
        agent.end()
    median = sorted(took)[len(took) // 2]
    return [
        Row(
            f"from a line written to its finding, {ALERTS} times",
            f"median {median:.2f} s, at most {max(took):.2f} s",
            "<= 1 tick",
            median <= 1.0,
            median,
        )
    ]


def pss_bytes(pid: int) -> int:
    """Memory of a process, with what it shares divided among those who share it."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))


def rows(folder: Path) -> Sequence[Row]:
    """Both."""
    (folder / "many").mkdir()
    (folder / "one").mkdir()
    return [*following(folder / "many"), *reporting(folder / "one")]
