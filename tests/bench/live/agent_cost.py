"""The agent against nvitop: the same fake driver with eight GPUs, at the same time, for the same seconds."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from gpuwatch.link.start.bundle import bundle, loader_argv
from tests.bench.cpu import Row, rss_bytes, shares
from tests.end_to_end.tty.terminal import Terminal, quoted
from tests.fake_nvml.build import FakeNvml, build

SECONDS = 30.0
GPUS = 8


@contextlib.contextmanager
def agent(driver: FakeNvml) -> Iterator[int]:
    """The real agent by the real loader at 1 Hz, its stream thrown away; gives its pid."""
    with subprocess.Popen(
        loader_argv(sys.executable), stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, env=driver.env()
    ) as process:
        assert process.stdin is not None
        config = {"nonce": "bench", "interval_s": 1.0, "ping_deadline_s": 600.0, "version": "bench"}
        process.stdin.write(bundle(config))
        process.stdin.flush()
        yield process.pid
        process.stdin.close()


def rows(folder: Path) -> Sequence[Row]:
    """CPU, memory and NVML calls."""
    library = build(folder / "lib")
    ours, theirs = FakeNvml(library, folder / "ours"), FakeNvml(library, folder / "theirs")
    nvitop = shutil.which("nvitop", path=str(Path(sys.executable).parent))
    if nvitop is None:
        return [Row("agent against nvitop", "nvitop is not installed (pip install nvitop)", "<= 0.5x", None)]
    env = {key: value for key, value in theirs.env().items() if key.startswith(("FAKE_", "LD_LIBRARY"))}
    with Terminal(160, 60, **env) as terminal, agent(ours) as pid:
        terminal.type(f"exec {quoted(nvitop)}")
        terminal.wait_for("(?i)NVITOP")
        rival = int(terminal.ask("pane_pid"))
        time.sleep(5.0)  # both have started up
        calls = [
            sum(ours.calls_of(gpu) for gpu in range(GPUS)),
            sum(theirs.calls_of(gpu) for gpu in range(GPUS)),
        ]
        cost, rival_cost = shares([pid, rival], SECONDS)
        calls = [
            sum(side.calls_of(gpu) for gpu in range(GPUS)) - before
            for side, before in zip((ours, theirs), calls, strict=True)
        ]
        memory, rival_memory = rss_bytes(pid), rss_bytes(rival)
        terminal.press("q")
    per_gpu, rival_per_gpu = (count / GPUS / SECONDS for count in calls)
    ratio = cost / rival_cost
    return [
        Row(
            "agent, 8 fake GPUs at 1 Hz, CPU against nvitop's",
            f"{ratio:.2f}x ({cost:.2%} of a core against {rival_cost:.2%})",
            "<= 0.5x",
            ratio <= 0.5,
            ratio,
        ),
        Row(
            "the agent's resident memory",
            f"{memory / 1e6:.0f} MB (nvitop {rival_memory / 1e6:.0f})",
            "<= 40 MB",
            memory <= 40e6,
            memory,
        ),
        Row(
            "NVML calls per GPU and second",
            f"{per_gpu:.1f} (nvitop {rival_per_gpu:.1f})",
            "<= 8",
            per_gpu <= 8.0,
            per_gpu,
        ),
    ]
