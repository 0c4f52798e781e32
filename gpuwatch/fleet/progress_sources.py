"""How many log files and jobs the progress of one node may name."""

from __future__ import annotations

from collections import OrderedDict

from gpuwatch.fleet.rank_changes import TooManyError
from gpuwatch.link.stream.limits import TokenBucket
from gpuwatch.wire import Progress

FILES_PER_S, FILES_BURST = 2.0, 1024.0
"""New files of a node: an agent follows at most 512, and all of them may begin anew."""
JOBS_PER_S, JOBS_BURST = 1.0, 512.0
"""New jobs of a node: at most one in each followed file."""
KEPT_NAMES = 4_096
"""Of each kind and node; a name that is dropped counts as new when it comes again."""


class ProgressSources:
    """Counts, for each node and over all its connections, the files and jobs that its progress names first.

    Each job is judged and shown on its own, which costs the whole fleet time. Ranks are not counted here: the
    log of a launcher may name all ranks of a large job.
    """

    def __init__(self) -> None:
        self._files: dict[str, _NewNames] = {}
        self._jobs: dict[str, _NewNames] = {}

    def register(self, node: str, progress: Progress, at: float) -> None:
        """Count one frame, which arrived at `at` (monotonic seconds).

        Raises:
            TooManyError: the node names more files or jobs than any agent follows.
        """
        files = self._files.setdefault(node, _NewNames("files", FILES_PER_S, FILES_BURST))
        files.register(progress.file, at)
        if progress.job is not None:
            jobs = self._jobs.setdefault(node, _NewNames("jobs", JOBS_PER_S, JOBS_BURST))
            jobs.register(progress.job, at)


class _NewNames:
    """The names of one kind that a node has used, and how many new ones it may use yet."""

    def __init__(self, kind: str, per_s: float, burst: float) -> None:
        self._excess = f"training progress of more than {burst:g} {kind}, over {per_s:g} new ones a second"
        self._allowance = TokenBucket(per_s, burst)
        self._names: OrderedDict[str, None] = OrderedDict()

    def register(self, name: str, at: float) -> None:
        if name not in self._names and not self._allowance.spend(1.0, at):
            raise TooManyError(self._excess)
        self._names[name] = None
        self._names.move_to_end(name)
        if len(self._names) > KEPT_NAMES:
            self._names.popitem(last=False)
