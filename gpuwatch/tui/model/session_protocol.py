"""The interface of a session that the screens use."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

from gpuwatch.diagnose.actions.action import Action, ActionOutcome, ActionTarget
from gpuwatch.diagnose.model.failure_classes import RulePacks
from gpuwatch.fleet.fleet import Fleet
from gpuwatch.fleet.logs.log_stream import LogStream
from gpuwatch.fleet.stepwise import Steps
from gpuwatch.hosts.plan import Plan
from gpuwatch.session.line_queries import LineReads
from gpuwatch.tui.model.alert_snapshot import Book
from gpuwatch.tui.model.hang_query import Asking

if TYPE_CHECKING:
    from gpuwatch.diagnose.profiles.cost import ProfileOptions
    from gpuwatch.diagnose.profiles.profiled_rank import ProfiledRank
    from gpuwatch.diagnose.training.job_view.rank_placement import PlacedRank, RankPlacement
    from gpuwatch.probe.probe_request import ProbeRequest
    from gpuwatch.probe.results import Results

CHANGING = frozenset(("acknowledge", "silence", "write_note", "retry", "write_dumps"))
"""Actions that change something for all users: allowed only if viewers may."""
ACTING = frozenset(("act", "profile"))
"""Actions on nodes and ranks: never allowed in a shared view."""
PROBING = frozenset(("links", "new_probe", "cancel_probe"))
WRITING = frozenset(("record", "evidence", "save_screen", "pager", "suspend_process"))
"""Actions that write files or start programs on gpuwatch's host: never allowed in a shared view."""


class LineRequests(LineReads, Protocol):
    """The parts of a session that a buffer of log lines needs."""

    def tail(self, node: str, file: str, lines: int = 200) -> LogStream:
        """Request the last `lines` lines of a file and every new one; return the stream that gets them."""
        ...


class Searcher(Protocol):
    """The parts of a session that a log search needs."""

    def search(
        self, node: str, pattern: str, files: Sequence[str] = (), *, ignore_case: bool = False
    ) -> LogStream:
        """Search files on the node, without names all that are followed; return the stream of hits."""
        ...

    def drop(self, stream: LogStream) -> None:
        """Cancel the request; the stream receives nothing more."""
        ...


class Probing(Protocol):
    """The parts of a probe's conductor that the screens need."""

    @property
    def results(self) -> Results:
        """The measurements so far; the conductor's thread writes them."""
        ...

    @property
    def keeps_ranks(self) -> bool:
        """True if the probe's ranks still run, so that a link can be measured again."""
        ...

    def confirm(self) -> None:
        """Continue from the phase "asking"."""
        ...

    def cancel(self) -> None:
        """Cancel the probe on all nodes; the measurements stay."""
        ...

    def retest(self, pairs: Sequence[tuple[int, int]], /) -> None:
        """Measure these links, (source rank, destination rank), once more, alone."""
        ...


class Profiling(Protocol):
    """The parts of `session.profile_query.ProfileQuery` that the screen needs."""

    @property
    def options(self) -> ProfileOptions: ...

    @property
    def version(self) -> int:
        """Increases with every answer."""
        ...

    @property
    def ready(self) -> bool:
        """True if the cost is estimated and nothing is sampled yet."""
        ...

    @property
    def over(self) -> bool:
        """True if nothing more will be received."""
        ...

    @property
    def cost(self) -> str:
        """The estimated cost for each rank, as text."""
        ...

    @property
    def progress(self) -> str:
        """The current step of the profile query, as text."""
        ...

    def update(self) -> bool:
        """Process the answers received since the last call; return True if anything changed."""
        ...

    def start(self) -> None:
        """Begin to sample the ranks."""
        ...

    def profiles(self) -> list[ProfiledRank]:
        """Return the profiles received so far."""
        ...


class ProfileSource(Protocol):
    """The part of a session that profiles ranks."""

    def profile(self, places: Sequence[PlacedRank], placement: RankPlacement, /) -> Profiling:
        """Return a query that estimates the cost of sampling these ranks.

        Nothing is sampled before `Profiling.start`.
        """
        ...


class Acting(Protocol):
    """The parts of a running action that the screens need."""

    outcome: ActionOutcome | None
    """The outcome of the action; None while it runs."""


class SessionProtocol(LineRequests, Searcher, ProfileSource, Protocol):
    """The parts of a session that the app needs."""

    plan: Plan
    fleet: Fleet

    def start(self) -> None:
        """Start the links; returns at once."""
        ...

    def poll(self) -> bool:
        """Move what was received into the fleet; return True if there was anything."""
        ...

    def polling(self) -> Steps[bool]:
        """Do what `poll` does, in short steps."""
        ...

    def take_trouble(self) -> str | None:
        """Return, once, why something of this session is not saved for later ones; else None."""
        ...

    @property
    def packs(self) -> RulePacks:
        """The rules for the logs."""
        ...

    @property
    def book(self) -> Book:
        """The alerts and incidents."""
        ...

    @property
    def probes(self) -> Sequence[Probing]:
        """The probes of this session, the newest last."""
        ...

    def probe(self, request: ProbeRequest, /) -> Probing:
        """Return a new probe, which checks the nodes and makes a plan.

        Nothing is measured before it is confirmed.
        """
        ...

    def enter(self, node: str) -> None:
        """Note that the operator looks at a node: one that Prometheus names is then connected over ssh."""
        ...

    def retry(self, node: str | None = None) -> None:
        """Reconnect a lost node now; None: all lost nodes."""
        ...

    def inquire(self) -> Asking:
        """Start to query all ranks for the one that the others wait for; return the query."""
        ...

    def act(self, action: Action, target: ActionTarget, /) -> Acting:
        """Start an action that the user confirmed, and return its run.

        Raises:
            RefusedActionError: It is not possible, or no longer.
        """
        ...

    def acknowledge(self, ident: str, /) -> None:
        """Acknowledge the alert or incident with this id."""
        ...

    def unacknowledge(self, ident: str, /) -> None:
        """Undo the acknowledgement of the alert or incident with this id."""
        ...

    def note(self, incident: str, text: str, /) -> str | None:
        """Add a note to an incident; return why other sessions will not see it, None if they will."""
        ...

    def silence(
        self, code: str, *, node: str | None = None, gpu: int | None = None, rank: int | None = None
    ) -> str | None:
        """Silence an alert code, at one place or everywhere; return why that is not saved, None if it is."""
        ...

    def unsilence(
        self, code: str, *, node: str | None = None, gpu: int | None = None, rank: int | None = None
    ) -> str | None:
        """Undo `silence` for the same place; return why that is not saved, None if it is."""
        ...


class SharedView(Struct, frozen=True):
    """The permissions in a view of a session that another process owns, such as in a browser."""

    changes: bool
    """True if it may acknowledge, silence, add notes and reconnect."""

    @property
    def badge(self) -> str:
        """The badge for the status bar: SHARED or READ-ONLY."""
        return "SHARED" if self.changes else "READ-ONLY"

    def refusal(self, action: str) -> str:
        """Return why an action (its name without arguments) is refused here; "" if it is allowed."""
        if action in CHANGING and not self.changes:
            return "read-only view: gpuwatch serve --allow-changes enables changes by viewers"
        if action in ACTING:
            return "not in a shared view: actions on nodes and ranks are only available in a terminal"
        if action in PROBING:
            return "not in a shared view: probes can only be started from a terminal (gpuwatch probe)"
        if action in WRITING:
            return "not in a shared view: it writes files, or starts a program, where gpuwatch runs"
        return ""
