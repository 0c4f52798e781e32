"""The session: opens the links of a plan and applies what arrives to the fleet. No screen is needed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gpuwatch.clock import SYSTEM, SessionClock
from gpuwatch.diagnose.alert_book import AlertBook
from gpuwatch.diagnose.model.alert import Silence
from gpuwatch.diagnose.past_jobs.earlier_sessions import EarlierJob
from gpuwatch.fleet.fleet import Fleet
from gpuwatch.fleet.stepwise import Steps, complete
from gpuwatch.hosts.plan import Plan
from gpuwatch.link.demo.clock import demo_clock
from gpuwatch.link.opening import Links, open_links
from gpuwatch.link.recording.tee import StreamTee
from gpuwatch.link.serving.readers import ServingReaders
from gpuwatch.link.stream.inbox import Arrival, Inbox
from gpuwatch.link.stream.options import Ask, LinkOptions
from gpuwatch.own_folders import config_folder, state_file, state_folder
from gpuwatch.rules.load import load_packs, own_packs
from gpuwatch.session.actions.running import RunningActions
from gpuwatch.session.cluster_state.cluster_state import ClusterState, marks_file
from gpuwatch.session.containment import Containment
from gpuwatch.session.hang.hang_queries import HangQueries
from gpuwatch.session.hang.slow_queries import SlowQueries
from gpuwatch.session.history.incident_memory import IncidentMemory, keeps_history
from gpuwatch.session.line_queries import LineQueries
from gpuwatch.session.recording.book_records import BookRecorder
from gpuwatch.session.request_sender import RequestSender
from gpuwatch.session.sampling_pace import SamplingPace
from gpuwatch.session.scheduler.kube_watch import watch_of as kube_watch_of
from gpuwatch.session.scheduler.slurm_watch import watch_of as slurm_watch_of
from gpuwatch.session.settings.earlier_jobs_file import EarlierJobsFile
from gpuwatch.session.settings.followed_folders import FollowedFolders
from gpuwatch.session.settings.silence_file import SilenceFile
from gpuwatch.session.shared_file_owners import SharedFileOwners
from gpuwatch.wire import AnyRequest

if TYPE_CHECKING:
    from gpuwatch.diagnose.actions.action import Action, ActionTarget
    from gpuwatch.diagnose.hang.combined_verdict import HangReport
    from gpuwatch.diagnose.training.job_view.rank_placement import PlacedRank, RankPlacement
    from gpuwatch.probe.judging.checks.baseline import Baseline
    from gpuwatch.probe.orchestration.conductor import Conductor
    from gpuwatch.probe.probe_request import ProbeRequest
    from gpuwatch.session.actions.execution import ActionRun
    from gpuwatch.session.earlier_history import EarlierHistory
    from gpuwatch.session.hang.hang_query import HangQuery
    from gpuwatch.session.hang.py_spy_upload import Program
    from gpuwatch.session.profile_query import ProfileQuery


class ProbeRunsError(Exception):
    """Raised if a probe is still running: two at a time would disturb each other."""


class Session(RequestSender):
    """A monitoring session. `start` it, call `poll` at any rate, `close` it. Also a context manager."""

    recorded = False
    """True for a replayed recording, whose past is complete."""

    def __init__(
        self,
        plan: Plan,
        options: LinkOptions | None = None,
        ask: Ask | None = None,
        py_spy: Program | None = None,
        *,
        clock: SessionClock = SYSTEM,
        links: Callable[[Inbox], Links] | None = None,
    ) -> None:
        """Create the session and the links to its nodes; `start` connects them.

        Args:
            plan: The nodes.
            options: How links are opened.
            ask: Asks the user for a passphrase or password.
            py_spy: Uploaded to nodes that have none, when stacks are requested.
            clock: Used for every judgement; a plan with simulated nodes has its own.
            links: Creates the links, if not from the plan.

        Raises:
            RulesError: a rule pack of the user cannot be used.
            CarrierError: a requested option cannot be used.
        """
        self.plan = plan
        self.py_spy = py_spy
        self._options = options or LinkOptions()
        simulated = demo_clock(plan) if links is None and self._options.waits_for_demo else None
        self.clock = clock = clock if simulated is None else simulated.for_session()
        self.packs = load_packs([*(Path(path) for path in plan.rules), *own_packs()])
        self.book = self._new_book()
        silences = SilenceFile(config_folder() / "silences.json")
        self._state = ClusterState(marks_file(plan) if links is None else None, silences.read, clock.wall)
        self._state.restore(self.book)
        self._earlier = EarlierJobsFile(state_file("failed_jobs.json"))
        self.inbox = Inbox()
        super().__init__(Fleet(plan, self.packs), self._send_recorded)
        self._keeps_failed_jobs = not self.recorded and all(each.link != "demo" for each in plan.nodes)
        if self._keeps_failed_jobs:
            self._take_earlier(self._earlier.read(clock.wall()))
        auto = plan.hang_query == "auto"
        self._hang_queries = HangQueries(self, lambda: self.book, clock) if auto else None
        self._slow_queries = SlowQueries(self, lambda: self.book, clock) if auto else None
        self.line_queries = LineQueries(self, lambda: self.book, clock.monotonic)
        self._sharing, self._pace = SharedFileOwners(), SamplingPace(self.fleet, self.set_interval)
        self._followed = FollowedFolders(state_file("followed.json"))
        self._slurm = self._kube = None
        if links is None:
            self._links = open_links(
                plan, self.inbox, self._options, ask, self._followed.read(), clock=simulated
            )
            self._slurm = slurm_watch_of(self.fleet)
            self._kube = kube_watch_of(self.fleet, lambda rule: self.packs.by_id[rule].role, clock.wall())
        else:
            self._links = links(self.inbox)
        self._actions = RunningActions(self.note, self._links.dialer)
        asked = plan.serving if links is None else ()
        self._serving = ServingReaders(asked, clock.monotonic)
        self.fleet.servers.expect(each.name for each in asked)
        self._earlier_history = _earlier_history(self._options, clock)
        self._memory = IncidentMemory(state_folder()) if links is None and keeps_history(plan) else None
        self._containment = Containment(self.fleet, self._links.hang_up)
        self.faults = self._containment.faults
        """Exceptions that frames caused; each has closed the link of its node."""
        self.probes: list[Conductor] = []
        """Probes of this session, newest last."""
        self.tee: StreamTee | None = None
        """Source of recordings, once `keep_stream` was called."""

    @property
    def damaged(self) -> int:
        """Number of unreadable parts of a recording; 0 for a live session."""
        return 0

    def take_trouble(self) -> str | None:
        """Return why state cannot be stored for later sessions, or events not be read; None: nothing new."""
        sources = (self._memory, self._earlier, self._earlier_history, self._state, self._kube)
        return next(filter(None, (each.take_trouble() for each in sources if each is not None)), None)

    def keep_stream(self) -> StreamTee:
        """Return the tee that keeps the session's recent stream from this call (or `start`) on."""
        if self.tee is None:
            names = [spec.name for spec in self.plan.nodes]
            self.tee = StreamTee(names, BookRecorder(lambda: self.book), self.clock)
        return self.tee

    def start(self) -> None:
        """Start every link; does not block."""
        if self._memory is not None:
            self._memory.start()
        self._state.start()
        if self._kube is not None:
            self._kube.start()
        self._links.start()
        self._serving.start()

    def poll(self) -> bool:
        """Apply all arrivals to the fleet and judge it; return True if there were any."""
        return complete(self.polling())

    def polling(self) -> Steps[bool]:
        """Do what `poll` does, in steps of about a millisecond; start no other poll before the last one."""
        now = self.clock.monotonic()
        arrivals = self.inbox.drain()
        if self._kube is not None:
            arrivals = [*arrivals, *self._kube.update(now, self.clock.wall())]
        yield from self._take(arrivals)
        for name, answer in self._serving.drain():
            self.fleet.servers.take(name, answer, now)
        self._followed.note(self.fleet)
        self._followed.write_sometimes(now)
        now, wall = self.clock.monotonic(), self.clock.wall()
        self.book.probed.take(self.probes[-1].results if self.probes else None)
        self.book = yield from self._containment.judging(self.book, self._new_book, now, wall)
        yield
        if self._keeps_failed_jobs:
            self._earlier.note(self.fleet, self.book.incidents, now, wall)
        for queries in (self._hang_queries, self._slow_queries):
            if queries is not None:
                queries.update()
        self._pace.update(now)
        self.line_queries.update()
        has_acted = self._actions.update()
        if self._slurm is not None:
            self._slurm.update(self.fleet, now, at_once=has_acted)
        self._state.update(self.book)
        if self._memory is not None:
            self._memory.update(self.book, self.fleet, self.clock.wall())
        if self._earlier_history is not None:
            self._earlier_history.update(self.fleet)
        if self.tee is not None:
            self.tee.take(arrivals, now)
        return bool(arrivals)

    def _take(self, arrivals: Sequence[Arrival]) -> Steps[None]:
        yield from self._containment.applying(arrivals, self._link_changed)
        for stream in self.fleet.streams.values():
            if stream.broken:
                self._resume(stream)
        self._sharing.update(self.fleet, self._report)

    def _take_earlier(self, jobs: Sequence[EarlierJob]) -> None:
        self.book.take_earlier(jobs)
        self.fleet.jobs.take_earlier({path: each.job for each in jobs for path in each.logs})

    def _new_book(self) -> AlertBook:
        return AlertBook(self.packs, self.plan.thresholds)

    def acknowledge(self, id: str) -> None:  # noqa: A002 - the word that alerts and incidents use
        """Acknowledge an alert or an incident."""
        self._state.acknowledge(self.book, id)

    def unacknowledge(self, id: str) -> None:  # noqa: A002 - the word that alerts and incidents use
        """Remove the acknowledgement of an alert or an incident."""
        self._state.unacknowledge(self.book, id)

    def silence(
        self,
        code: str,
        *,
        node: str | None = None,
        gpu: int | None = None,
        rank: int | None = None,
        until: float | None = None,
    ) -> str | None:
        """Silence matching alerts, also in other running gpuwatches and later sessions.

        Return why the silence could not be saved for them, else None.
        """
        return self._state.silence(self.book, Silence(code, node, gpu, rank, until))

    def unsilence(
        self, code: str, *, node: str | None = None, gpu: int | None = None, rank: int | None = None
    ) -> str | None:
        """Remove a silence everywhere; return why its removal could not be saved, or None."""
        return self._state.unsilence(self.book, Silence(code, node, gpu, rank))

    def note(self, incident: str, text: str) -> str | None:
        """Add a note to an incident. Returns why other cockpits will not have it, or None."""
        return self._state.note(self.book, incident, text)

    def act(self, action: Action, target: ActionTarget) -> ActionRun:
        """Start a confirmed action without blocking, and return its run.

        The result is added to the incident's notes.

        Raises:
            RefusedActionError: the action is not possible, or no longer.
        """
        return self._actions.begin(action, target, self.fleet)

    def retry(self, node: str | None = None) -> None:
        """Connect a lost node, or all (None), now and not after the waiting time, without blocking."""
        self._links.retry(node)

    def enter(self, node: str) -> None:
        """Note that the operator looks at a node: one that Prometheus names is then connected over ssh."""
        self._links.enter(node)

    def inquire(self) -> HangQuery:
        """Start a hang query to all ranks and NCCL, and return it; call its `update` after every poll."""
        from gpuwatch.session.hang.hang_query import HangQuery  # noqa: PLC0415 - loaded when it is asked for

        return HangQuery(self, clock=self.clock)

    def profile(self, places: Sequence[PlacedRank], placement: RankPlacement) -> ProfileQuery:
        """Return a query that estimates the cost of sampling these ranks.

        Call its `update` after every poll, and `start` to sample.
        """
        from gpuwatch.diagnose.profiles.cost import ProfileOptions  # noqa: PLC0415 - loaded when it is asked for
        from gpuwatch.session.profile_query import ProfileQuery  # noqa: PLC0415 - loaded when it is needed

        return ProfileQuery(self, places, ProfileOptions(), placement, self.clock.monotonic)

    @property
    def awaits_hang_answers(self) -> bool:
        """True while silent ranks are queried automatically and their answers are not reported yet."""
        return self._hang_queries is not None and self._hang_queries.waiting

    def hang_report(self, job: str | None) -> HangReport | None:
        """Return the report of the automatic query of a job's ranks; None: not queried, or still waiting."""
        return None if self._hang_queries is None else self._hang_queries.hang_report(job)

    def probe(self, request: ProbeRequest, baseline: Baseline | None = None) -> Conductor:
        """Start a probe over the links' connections, which need not be live, and return it.

        The probe asks the user before it measures.

        Raises:
            ProbeRunsError: the previous probe has not ended.
        """
        if self.probes and not self.probes[-1].results.over:
            raise ProbeRunsError("a probe is already running; wait for its end, or cancel it")
        from gpuwatch.probe.orchestration.conductor import Conductor  # noqa: PLC0415 - only a probe pays for it
        from gpuwatch.probe.orchestration.opening import node_lines  # noqa: PLC0415 - loaded when it is needed

        lines = node_lines(self.plan, self._links.dialer, request, self._options.connect_workers)
        earlier = self.probes[-1:]

        def give_way() -> None:
            for each in earlier:
                each.close()  # its ranks no longer wait for retests: they would look like a job

        conductor = Conductor(lines, request, baseline=baseline)
        self.probes.append(conductor)
        conductor.start(give_way)
        return conductor

    def _send_recorded(self, node: str, request: AnyRequest) -> bool:
        sent = self._links.send(node, request)
        if sent and self.tee is not None:
            self.tee.asked(node, request)
        return sent

    def close(self) -> None:
        """Stop every probe and close every link; nothing of gpuwatch keeps running on any node."""
        for conductor in self.probes:
            conductor.cancel()  # the probes end while the links close
        self._links.close()
        self._serving.close()
        self._followed.write()
        self._actions.close()
        for part in (self._slurm, self._kube, self._state, self._memory):
            if part is not None:
                part.close()
        self._earlier.write(self.clock.wall())
        for conductor in self.probes:
            conductor.close()

    def __enter__(self) -> Session:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _earlier_history(options: LinkOptions, clock: SessionClock) -> EarlierHistory | None:
    """Return the reader of histories from before the session; None if the options request none."""
    if options.history is None:
        return None
    from gpuwatch.session.earlier_history import EarlierHistory  # noqa: PLC0415 - rarely asked for

    return EarlierHistory(options.history, clock.monotonic)
