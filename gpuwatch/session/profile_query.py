"""Profiles running ranks: estimates the cost first, then samples. Non-blocking."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Protocol

from gpuwatch.diagnose.profiles.cost import ProfileOptions, cost_text, kernels_cost_text
from gpuwatch.diagnose.profiles.profiled_rank import ProfiledRank, RankPace, read_threads
from gpuwatch.diagnose.training.job_view.rank_placement import PlacedRank, RankPlacement
from gpuwatch.fleet.pending_request import Asked
from gpuwatch.session.hang.node_requests import StackRequests
from gpuwatch.session.hang.py_spy_upload import PySpyUpload
from gpuwatch.wire import Kernels, ProcessKernels, ProcessProfile, Profiles, Stacks

BEFORE_S = 300.0
"""Seconds before the sampling whose steps are compared with those during the sampling."""
ESTIMATE_S = 8.0
"""Seconds to wait for the stacks of a node's ranks; without them the cost of usual ranks is assumed."""
PATIENCE_S = 30.0
"""Seconds beyond the sampling time after which a node is given up."""
KERNEL_PATIENCE_S = 60.0
"""Seconds beyond the recording time after which a node that records kernels is given up.

The agent waits 25 s for the trace, and reads it for at most 20 s.
"""


class ProfileRequests(StackRequests, Protocol):
    """Interface of a session: requests that profile ranks."""

    def ask_profile(
        self, node: str, pids: Sequence[int], *, seconds: int, rate: int, blocking: bool, py_spy: str = ""
    ) -> Asked:
        """Request samples of these processes of a node; the answer is a `wire.Profiles`."""
        ...

    def ask_kernels(self, node: str, pids: Sequence[int], seconds: int) -> Asked:
        """Request that these processes record their GPU kernels; the answer is a `wire.Kernels`."""
        ...


@dataclass
class PendingProfile:
    """A rank and the state of its profile."""

    place: PlacedRank
    frames: int | None = None
    """Number of Python frames of all threads of the rank together."""
    profile: ProcessProfile | None = None
    why: str | None = None
    """Why there is no profile."""
    kernels: ProcessKernels | None = None
    before: RankPace = field(default_factory=RankPace)
    during: RankPace = field(default_factory=RankPace)


class ProfileQuery:
    """One profile of ranks. Poll the session, call `update` after every poll.

    `start` it once it is `ready`.
    """

    def __init__(
        self,
        session: ProfileRequests,
        places: Sequence[PlacedRank],
        options: ProfileOptions,
        placement: RankPlacement,
        clock: Callable[[], float],
    ) -> None:
        """Request the stacks of these ranks once, to estimate what it costs to sample them.

        Args:
            session: A started session.
            places: The placements of the ranks.
            options: How they are sampled.
            placement: Where the ranks of all jobs run, to find the steps that they log.
            clock: Monotonic seconds of the session.
        """
        self.options = options
        self.ranks = [PendingProfile(place) for place in places]
        self.version = 0
        self._session, self._placement, self._clock = session, placement, clock
        self._began: float | None = None
        self._kernels: list[Asked] = []
        self._uploads: dict[str, PySpyUpload] = {}
        self._deadline = clock() + ESTIMATE_S
        self._asked = [
            session.ask_stacks(node, pids, options.py_spy, sockets=False)
            for node, pids in self._pids().items()
        ]

    @property
    def ready(self) -> bool:
        """True if no estimate of the cost is awaited any more, until the sampling starts."""
        return self._began is None and not self._asked

    @property
    def paced(self) -> bool:
        """True if the CPU use and the step time of every rank are known, with which the cost is measured."""
        paces = [self._pace(each.place, self._clock() - BEFORE_S) for each in self.ranks]
        return all(each.cpu_pct is not None and each.step_s is not None for each in paces)

    @property
    def over(self) -> bool:
        """True if nothing more will arrive."""
        busy = self._asked or self._kernels or any(not each.over for each in self._uploads.values())
        return self._began is not None and not busy

    @property
    def cost(self) -> str:
        """What profiling will cost, as text; estimated for the rank with the most Python frames."""
        known = [each.frames for each in self.ranks if each.frames is not None]
        sampling = cost_text(self.options, max(known, default=None))
        return f"{sampling}; {kernels_cost_text(self.options)}" if self.options.kernels else sampling

    @property
    def progress(self) -> str:
        """The current activity as text."""
        sending = [each for each in self._uploads.values() if not each.over]
        if sending:
            share = min(each.share for each in sending)
            return f"uploading py-spy to {', '.join(each.node for each in sending)}: {100 * share:.0f} %"
        if self._began is None:
            return "estimating the cost"
        if self._kernels and not self._asked:
            return f"the ranks record their kernels for {self.options.kernel_seconds} s"
        passed = min(self._clock() - self._began, self.options.seconds)
        return f"sampling: {passed:.0f} of {self.options.seconds} s"

    def start(self) -> None:
        """Start to sample all ranks at the same time; nodes without py-spy get an upload first."""
        for node in self._pids():
            self._sample(node)

    def profiles(self) -> list[ProfiledRank]:
        """Return a profile of each rank, as far as sampled, in the order in which the ranks were given."""
        return [self._profile(each) for each in self.ranks]

    def update(self) -> bool:
        """Process what has arrived, and give up late requests; return True if the results changed."""
        before = self.version
        for upload in self._uploads.values():
            if not upload.over:
                self._upload(upload)
        late = self._clock() > self._deadline
        for asked in [each for each in self._kernels if each.done or late]:
            self._kernels.remove(asked)
            self.version += 1
            self._take_kernels(asked)
        for asked in [each for each in self._asked if each.done or late]:
            self._asked.remove(asked)
            self.version += 1
            if self._began is None:
                self._take_stacks(asked)
            else:
                self._take(asked)
        return self.version != before

    def _pids(self) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for each in self.ranks:
            found.setdefault(each.place.node, []).append(each.place.pid)
        return found

    def _sample(self, node: str) -> None:
        now = self._began = self._clock()
        self._deadline = now + self.options.seconds + PATIENCE_S
        for each in self.ranks:
            if each.place.node == node:
                each.before = self._pace(each.place, now - BEFORE_S)
        options = self.options
        self._asked.append(
            self._session.ask_profile(
                node,
                self._pids()[node],
                seconds=options.seconds,
                rate=options.rate,
                blocking=options.blocking,
                py_spy=options.py_spy,
            )
        )

    def _take_stacks(self, asked: Asked) -> None:
        reported, _why = asked.read(Stacks)
        found = {} if reported is None else {each.pid: each.python for each in reported.processes}
        for each in self.ranks:
            threads = found.get(each.place.pid) if each.place.node == asked.node else None
            if threads:
                each.frames = sum(len(thread.frames) for thread in threads)

    def _take(self, asked: Asked) -> None:
        reported, why = asked.read(Profiles)
        program = self._session.py_spy
        if reported is not None and reported.lacks_py_spy and program and asked.node not in self._uploads:
            self._uploads[asked.node] = PySpyUpload(self._session, asked.node, program, self._clock)
            return
        found = {} if reported is None else {each.pid: each for each in reported.processes}
        silent = f"no answer in {self.options.seconds + PATIENCE_S:.0f} s"
        for each in self.ranks:
            if each.place.node == asked.node:
                each.profile = found.get(each.place.pid)
                missing = why or ("the node sent no profile" if reported is not None else silent)
                each.why = missing if each.profile is None else each.profile.why
                each.during = self._pace(each.place, self._began or 0.0)
        if self.options.kernels:
            self._record_kernels(asked.node)

    def _record_kernels(self, node: str) -> None:
        seconds = self.options.kernel_seconds
        self._deadline = max(self._deadline, self._clock() + seconds + KERNEL_PATIENCE_S)
        self._kernels.append(self._session.ask_kernels(node, self._pids()[node], seconds))

    def _take_kernels(self, asked: Asked) -> None:
        reported, why = asked.read(Kernels)
        found = {} if reported is None else {each.pid: each for each in reported.processes}
        silent = why or "the node sent no times of kernels"
        for each in self.ranks:
            if each.place.node == asked.node:
                pid = each.place.pid
                each.kernels = found.get(pid) or ProcessKernels(pid=pid, why=silent)

    def _upload(self, upload: PySpyUpload) -> None:
        upload.update()
        if upload.ready:
            self._sample(upload.node)
        elif upload.over:
            self.version += 1
            for each in self.ranks:
                if each.place.node == upload.node:
                    each.why = f"py-spy is not installed on the node, and could not be uploaded: {upload.why}"

    def _profile(self, each: PendingProfile) -> ProfiledRank:
        threads, why = read_threads(each.profile)
        place = each.place
        node = self._session.fleet.nodes.get(place.node)
        gpu = None if node is None else node.gpus.get(place.uuid or "")
        return ProfiledRank(
            place.rank or 0,
            place.node,
            place.pid,
            place.job,
            None if gpu is None else gpu.info.index,
            each.frames,
            threads,
            each.profile,
            each.before,
            each.during,
            each.why or why,
            each.kernels,
        )

    def _pace(self, place: PlacedRank, since: float) -> RankPace:
        """Return a rank's median step time since `since` (our monotonic clock), and its newest CPU use."""
        fleet = self._session.fleet
        node = fleet.nodes.get(place.node)
        cpu = next((each.cpu_pct for each in node.processes if each.pid == place.pid), None) if node else None
        for writer in fleet.progress.writers.values():
            _job, placed = self._placement.of(writer)
            if placed is not None and (placed.node, placed.pid) == (place.node, place.pid):
                took = [step.took_s for step in writer.steps if step.at >= since and step.took_s is not None]
                return RankPace(median(took) if took else None, cpu)
        return RankPace(None, cpu)
