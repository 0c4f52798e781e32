"""Jobs whose logs are silent now, for one-shot reports; `hang_watch` follows silences over time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from math import inf, isfinite

from msgspec import Struct

from gpuwatch.diagnose.hang.rank_signs import STOPPED_S
from gpuwatch.diagnose.hang.stacks.kernel_waits import STOPPED
from gpuwatch.diagnose.hang.step_pace import usual_gap
from gpuwatch.diagnose.missing_ranks.unstarted import sleeps
from gpuwatch.diagnose.model.incident import HangCheck
from gpuwatch.diagnose.model.text import clock, job_text, place
from gpuwatch.fleet.logs.progress import FleetProgress
from gpuwatch.fleet.nodes.node import Node
from gpuwatch.number_text import duration, plural
from gpuwatch.wire import Process

SILENT_WINDOWS = 2
"""Hang windows (`Thresholds.hang_s`) after which a silence counts; a training steps more often."""
STALLED_GAPS = 20.0
"""Number of usual gaps between logged steps from which a silence is unusual: an evaluation or a hang."""
LONG_GAPS = 100.0
"""Number of usual gaps from which a silence is reported after one window, as a possible hang only."""
MAX_SILENCE_S = 1800.0
"""Seconds of silence after which a job of unknown pace is not healthy: the default timeout of gloo."""
BLOCKED = "D"
MAX_NAMED = 8
START_S = 3.0
"""Seconds after the start of its ranks in which a launcher may write; its banner is no sign of the ranks."""


class SilentJob(Struct, frozen=True):
    """A job whose ranks log nothing: for how long, the usual gap, and which ranks are stopped or blocked."""

    job: str | None
    """The job's id; None: the ranks name no job."""
    ranks: int
    """Number of ranks that were seen."""
    nodes: tuple[str, ...]
    seconds: float
    """Seconds since the newest line of any rank of the job, or since the ranks' start if none has written.

    Where some ranks are stopped, seconds since the newest line of those alone.
    """
    usual_s: float | None = None
    """Usual seconds between two logged steps; None: unknown."""
    is_short: bool = False
    """True if the silence is below `SILENT_WINDOWS` windows: an evaluation may last as long."""
    stopped: tuple[str, ...] = ()
    """The ranks that SIGSTOP or a debugger has stopped, where others are not."""

    blocked: tuple[str, ...] = ()
    """The ranks in uninterruptible sleep (state D: a disk, NFS or the driver), if not all."""
    all_stopped: bool = False
    """True if SIGSTOP, Ctrl-Z or a debugger has stopped every rank."""
    is_starting: bool = False
    """True if no rank has written a line since its start, and all sleep: they may wait for each other."""
    hang_check: HangCheck | None = None
    """The answer of the job's ranks to a hang query; None: they were not queried."""
    others_write: bool = False
    """True if only the stopped ranks are silent: a thread of the others still logs lines."""

    @property
    def is_stalled(self) -> bool:
        """Return True if some ranks are stopped, or if the silence is too long for the job.

        It is not if it lasts at most `SILENT_WINDOWS` windows. A longer one is if it is unusual for the job's
        pace, if no rank has written a line since its start, or, without a known pace, after `MAX_SILENCE_S`.
        """
        if self.stopped or self.is_short:
            return bool(self.stopped)
        too_long = self.usual_s is None and self.seconds > MAX_SILENCE_S
        return self._is_unusual or self.is_starting or too_long

    @property
    def _is_unusual(self) -> bool:
        return self.usual_s is not None and self.seconds > STALLED_GAPS * self.usual_s

    @property
    def text(self) -> str:
        """Return `job 4711: 8 ranks have written no log line for 3m 20s`.

        The usual gap between steps, and stopped and blocked ranks, are added.
        """
        silent = duration(self.seconds)
        return self._text(f"for {silent}", f"{silent} ago")

    def text_at(self, wall: float) -> str:
        """Return `text` with the moment at which the silence began instead of how long it lasts now.

        It stays true while an alert fires. `wall`: unix seconds now.
        """
        began = clock(wall - self.seconds, wall)
        return self._text(f"since {began}", f"at {began}")

    def _text(self, silent: str, started: str) -> str:
        before = f"; before, a step every {self.usual_s:.2g} s" if self.usual_s and self._is_unusual else ""
        stopped = f"; stopped (a debugger or SIGSTOP): {', '.join(self.stopped)}" if self.stopped else ""
        if self.all_stopped:
            stopped += "; all are stopped (Ctrl-Z or SIGSTOP): kill -CONT resumes them"
        if self.blocked:
            stopped += f"; in state D (waits for a disk, NFS or the driver): {', '.join(self.blocked)}"
        ranks = f"{job_text(self.job)}: {plural(self.ranks, 'rank')}"
        if self.is_starting and not self.stopped:
            return f"{ranks} sleep and have written no line since their start {started}: a hang?"
        who = f"{ranks}, of which the stopped" if self.others_write else ranks
        return f"{who} have written no log line {silent}{before}{stopped}"


def silent_jobs(
    nodes: Iterable[Node], hang_s: float, wall: float, progress: FleetProgress | None = None
) -> list[SilentJob]:
    """Return the jobs of several ranks whose followed logs are all silent for over `SILENT_WINDOWS` windows.

    One window is enough if the silence is also over `LONG_GAPS` times the job's usual gap between logged
    steps; `STOPPED_S` is enough if some but not all ranks are stopped (SIGSTOP or a debugger). If any rank is
    stopped, only the logs of the stopped ones must be silent.

    Args:
        nodes: The nodes on which the ranks run.
        hang_s: One window, in seconds.
        wall: Unix seconds now.
        progress: The steps that the ranks logged; None: unknown.
    """
    usual = {} if progress is None else _usual_gaps(progress)
    found = [_silent_job(name, job, usual.get(name), hang_s) for name, job in _jobs(nodes, wall).items()]
    return [job for job in found if job is not None]


@dataclass
class _JobRanks:
    """What the processes of a job's ranks do, and for how long their logs are silent."""

    ranks: int = 0
    nodes: dict[str, None] = field(default_factory=dict)
    silences: list[float] = field(default_factory=list)
    """Seconds since the last line, of each log of each rank."""
    stopped: list[str] = field(default_factory=list)
    """The places of the stopped ranks."""
    stopped_silences: list[float] = field(default_factory=list)
    blocked: list[str] = field(default_factory=list)
    """The places of the ranks that wait in the kernel."""
    begun: bool = False
    """True if a rank works or has written."""


def _jobs(nodes: Iterable[Node], wall: float) -> dict[str | None, _JobRanks]:
    """Return job -> the number, nodes, states and silences of its ranks, for jobs with ranks on the nodes."""
    jobs: dict[str | None, _JobRanks] = {}
    for node in nodes:
        grown = {file.path: node.silent_s(file, wall) for file in node.logs if file.source != "kernel"}
        for process in node.processes:
            if process.rank is None:
                continue
            job = jobs.setdefault(process.job, _JobRanks())
            job.ranks += 1
            job.nodes[node.name] = None
            silences = list(_silences(node, process, grown, wall))
            job.silences += silences
            if process.state in STOPPED:
                job.stopped.append(place(process.rank, node.name, None))
                job.stopped_silences += silences
            if process.state == BLOCKED:
                job.blocked.append(place(process.rank, node.name, None))
            job.begun |= not sleeps(process) or _has_written(node, process, wall)
    return jobs


def _silent_job(name: str | None, job: _JobRanks, usual: float | None, hang_s: float) -> SilentJob | None:
    """Return a job that is silent by the limits of `silent_jobs`, else None; `usual`: its usual gap."""
    if job.ranks < 2 or not job.silences:
        return None
    seconds = min(job.stopped_silences or job.silences)
    is_long = seconds > SILENT_WINDOWS * hang_s
    is_unusual = usual is not None and seconds > max(hang_s, LONG_GAPS * usual)
    if not (is_long or is_unusual or (0 < len(job.stopped) < job.ranks and seconds > STOPPED_S)):
        return None
    return SilentJob(
        name,
        job.ranks,
        tuple(job.nodes),
        seconds,
        usual,
        not is_long,
        tuple(job.stopped[:MAX_NAMED]) if len(job.stopped) < job.ranks else (),
        tuple(job.blocked[:MAX_NAMED]) if len(job.blocked) < job.ranks else (),
        len(job.stopped) == job.ranks,
        not job.begun and usual is None,
        others_write=seconds > min(job.silences) + STOPPED_S,
    )


def _silences(
    node: Node, process: Process, grown: Mapping[str, float | None], wall: float
) -> Iterator[float]:
    """Yield the seconds since each followed log of a process grew, at most the age of the process."""
    age = None if process.start is None else max(0.0, wall - (process.start - node.offset_s))
    for path in process.logs:
        if path in grown:
            known = [each for each in (grown[path], age) if each is not None]
            yield from [min(known)] if known else []


def _has_written(node: Node, process: Process, wall: float) -> bool:
    """Return True if a followed log of the process grew after its start, or if the start is unknown.

    The first `START_S` seconds do not count: the launcher may write then.
    """
    if process.start is None:
        return True
    age = wall - (process.start - node.offset_s)
    grown = [node.silent_s(file, wall) for file in node.logs if file.path in process.logs and file.size]
    return any(each is not None and each < age - START_S for each in grown)


def _usual_gaps(progress: FleetProgress) -> dict[str | None, float]:
    """Return job -> the median gap in seconds between logged steps, the shortest among its logs."""
    found: dict[str | None, float] = {}
    for writer in progress.writers.values():
        moments = [step.at for step in writer.curve() if isfinite(step.at)]
        gaps = [later - before for before, later in pairwise(moments) if later > before]
        if (usual_s := usual_gap(gaps)) is not None:
            found[writer.job] = min(usual_s, found.get(writer.job, inf))
    return found
