"""Judge dumps in a separate process, so that their content can neither block nor bloat the cockpit.

Run with the arguments FOLDER PARENT, by `IsolatedAnalysis` only.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
import weakref
from collections.abc import Callable
from pathlib import Path

import msgspec

from gpuwatch.agent.logs.ipc.lifeline import die_with
from gpuwatch.decode_errors import DECODE_ERRORS
from gpuwatch.diagnose.hang.flight_recorder.verdict import judge_flight
from gpuwatch.diagnose.model.verdict import Verdict
from gpuwatch.own_process import module_command
from gpuwatch.plain import plain
from gpuwatch.runs.flight.dump_files import gather_dumps, rank_of

ASKED, ANSWER = "asked.json", "judged.json"
"""File names without a number, so that neither is taken for a rank's dump."""
DUMPS = "dumps"
PATIENCE_S = 60.0


class AnalysisRequest(msgspec.Struct, frozen=True):
    """Input of the analysis process: the job's number of ranks, and the ranks without a fetched dump."""

    world: int | None = None
    unread: list[int] = []
    """Ranks whose dump was not fetched."""


class AnalysisResult(msgspec.Struct, frozen=True):
    """Output of the analysis process: the verdict, the ranks whose dumps were read, why others were not."""

    verdict: Verdict | None
    """The verdict on the dumps; None: no dump could be read."""
    ranks: list[int]
    """Ranks whose dumps were read."""
    unread: dict[int, str]
    """Rank -> why the rank's dump could not be used."""


class IsolatedAnalysis:
    """A running analysis process. `take` does not block."""

    def __init__(
        self,
        folder: Path,
        order: AnalysisRequest,
        *,
        patience_s: float = PATIENCE_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Start the process.

        Args:
            folder: Has the folder `dumps` with files whose names end in the rank, compressed or not.
            order: What is known of the job.
            patience_s: The process is killed when it takes longer (seconds).
            clock: Monotonic seconds.
        """
        self._folder = folder
        self._clock = clock
        self._patience_s = patience_s
        self._deadline = clock() + patience_s
        (folder / ASKED).write_bytes(msgspec.json.encode(order))
        process = self._process = subprocess.Popen(
            module_command(__name__, str(folder), str(os.getpid())),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self._end = weakref.finalize(self, _end, process)

    def take(self) -> AnalysisResult | str | None:
        """Return the result; None: the process still runs; a string: why it failed.

        After `patience_s` it kills the process.
        """
        if self._process.poll() is None:
            if self._clock() < self._deadline:
                return None
            self.close()
            return f"the dumps could not be analyzed within {self._patience_s:.0f} s"
        try:
            return msgspec.json.decode((self._folder / ANSWER).read_bytes(), type=AnalysisResult)
        except (OSError, *DECODE_ERRORS):
            return f"the process that reads the dumps ended with status {self._process.returncode}"

    def close(self) -> None:
        """Stop the process; it also exits by itself when its parent ends."""
        self._end()


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.kill()
        process.wait()


def main(folder: Path, parent: int) -> None:
    """Read and judge the dumps in `folder` and write the answer there, while the process `parent` lives."""
    if sys.platform == "linux":
        die_with(parent)
    most = int(2 * PATIENCE_S)
    resource.setrlimit(resource.RLIMIT_CPU, (most, most))
    order = msgspec.json.decode((folder / ASKED).read_bytes(), type=AnalysisRequest)
    read = gather_dumps([folder / DUMPS])
    unread = {rank: each.why for each in read.skipped if (rank := rank_of(Path(each.name))) is not None}
    analysis = judge_flight(read.dumps, order.world, {*order.unread, *unread}) if read.dumps else None
    judged = AnalysisResult(
        verdict=analysis.verdict if analysis is not None else None,
        ranks=[dump.rank for dump in read.dumps],
        unread={rank: plain(why) for rank, why in unread.items()},
    )
    (folder / ANSWER).write_bytes(msgspec.json.encode(judged))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
