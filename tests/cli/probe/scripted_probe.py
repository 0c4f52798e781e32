"""`gpuwatch probe` over a conductor that follows a script: how the command tells an outcome that is known.

`python -m tests.cli.probe.scripted_probe STORY [OPTIONS]`; the real chain has tests of its own.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

from gpuwatch.cli import main as command_line
from gpuwatch.probe.orchestration import opening
from gpuwatch.probe.protocol import GpuUser, NodeInventory
from gpuwatch.probe.results import ProbedNode, Results
from gpuwatch.probe.verdict import ProbeVerdict
from tests.report.probe.probes import cluster, measured, slow_node, with_pairs

LONG_S = 60.0


class Scripted:
    """Changes its results at the calls that a conductor gets."""

    def __init__(self, results: Results, after: Callable[[Results], None]) -> None:
        self.results = results
        self._after = after

    def start(self) -> None:
        """The preflight is over at once."""

    def confirm(self) -> None:
        """Measures at once."""
        self._after(self.results)

    def close(self) -> None:
        """Nothing runs."""

    def cancel(self) -> None:
        """What was measured stays."""
        self.results.phase = "cancelled"
        self.results.version += 1


def bad(results: Results) -> None:
    """A node is slow."""
    results.collectives = measured()
    with_pairs(results, lambda src, dst: 12.0 if "gpu-003" in (src.node, dst.node) else 48.0)
    results.verdict = slow_node("gpu-003")
    results.phase = "done"


def well(results: Results) -> None:
    """All is well."""
    results.collectives = measured()
    results.verdict = ProbeVerdict("ok", "all 12 links are within 10 % of the best")
    results.phase = "done"


def noisy(results: Results) -> None:
    """Nothing can be said."""
    results.verdict = ProbeVerdict("noisy", "the links vary too much")
    results.phase = "done"


def failed(results: Results) -> None:
    """A rank died."""
    results.verdict = ProbeVerdict("failed", "rank 3 died")
    results.phase, results.reason = "failed", "rank 3 died: SIGKILL"


def endless(results: Results) -> None:
    """Some of it is measured, and then it takes long."""
    results.collectives = measured([1, 4])
    results.verdict = ProbeVerdict("ok", "so far nothing is slow")
    results.phase, results.all_steps, results.done_steps, results.left_s = "pairs", 60, 7, LONG_S
    results.version += 1


STORIES: dict[str, Callable[[Results], None]] = {
    "bad": bad,
    "well": well,
    "noisy": noisy,
    "failed": failed,
    "endless": endless,
    "busy": well,
    "torchless": well,
}


def scripted(story: str) -> Scripted:
    """The conductor of a story, waiting for a yes."""
    results = cluster(4, 1, gpus=story == "busy", phase="asking")
    results.ended = None
    results.started = time.time()
    if story == "busy":
        results.phase, results.reason = (
            "refused",
            "processes hold GPUs of gpu-001; --allow-busy disturbs them",
        )
        results.busy = {"gpu-001": [GpuUser(pid=4711, name="python", user="alice", memory_bytes=70 << 30)]}
    if story == "torchless":
        results.phase, results.reason = "refused", "no node can take part"
        results.nodes = [
            ProbedNode(
                "gpu-001", NodeInventory(host="gpu-001", pid=1, tried=["/usr/bin/python3: it has no torch"])
            )
        ]
    return Scripted(results, STORIES[story])


def main() -> None:
    """The command line with another conductor."""
    story, *arguments = sys.argv[1:]

    def open_probe(*_: Any, **__: Any) -> Scripted:
        return scripted(story)

    opening.open_probe = open_probe  # type: ignore[assignment]
    sys.argv = ["gpuwatch", "probe", "--local", *arguments]
    command_line.main()


if __name__ == "__main__":
    main()
