"""The session as the screens use it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from gpuwatch.diagnose.actions.action import Action, ActionOutcome, ActionTarget
from gpuwatch.diagnose.model.failure_classes import RulePacks
from gpuwatch.fleet.fleet import Fleet
from gpuwatch.fleet.logs.log_stream import LogStream
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
"""Actions that change something for everybody: only where viewers may."""
ACTING = frozenset(("act", "profile"))
"""Actions on nodes and ranks: never from a shared view."""
PROBING = frozenset(("links", "new_probe", "cancel_probe"))
WRITING = frozenset(("record", "evidence", "save_screen", "pager", "suspend_process"))
"""Actions that write files or start programs where gpuwatch runs: never from a shared view."""


class LineRequests(LineReads, Protocol):
    """What a buffer needs of a session."""

    def tail(self, node: str, file: str, lines: int = 200) -> LogStream:
        """The last lines and every new one."""
        ...


class Searcher(Protocol):
    """What a search needs of a session."""

    def search(
        self, node: str, pattern: str, files: Sequence[str] = (), *, ignore_case: bool = False
    ) -> LogStream:
        """Search files of a node, on the node."""
        ...

    def drop(self, stream: LogStream) -> None:
        """Nobody waits for it any more."""
        ...


class Probing(Protocol):
    """What the app needs of a probe's conductor."""

    @property
    def results(self) -> Results:
        """Everything measured so far; the conductor's thread writes it."""
        ...

    @property
    def keeps_ranks(self) -> bool:
        """Whether the ranks are still there, so that a link can be measured again."""
        ...

    def confirm(self) -> None:
        """Go on from the phase "asking"."""
        ...

    def cancel(self) -> None:
        """End it on all nodes; what was measured stays."""
        ...

    def retest(self, pairs: Sequence[tuple[int, int]], /) -> None:
        """Measure these links once more, alone."""
        ...


class Profiling(Protocol):
    """What is needed of `session.profile_query.ProfileQuery`."""

    @property
    def options(self) -> ProfileOptions:
        """How the ranks are sampled."""
        ...

    @property
    def version(self) -> int:
        """Moves with every answer."""
        ...

    @property
    def ready(self) -> bool:
        """Whether the cost is estimated, and nothing is sampled yet."""
        ...

    @property
    def over(self) -> bool:
        """Whether nothing more will come."""
        ...

    @property
    def cost(self) -> str:
        """What it will cost each rank."""
        ...

    @property
    def progress(self) -> str:
        """What is being done."""
        ...

    def update(self) -> bool:
        """Take in what has come."""
        ...

    def start(self) -> None:
        """Sample the ranks."""
        ...

    def profiles(self) -> list[ProfiledRank]:
        """What has come."""
        ...


class ProfileSource(Protocol):
    """What is needed of a session."""

    def profile(self, places: Sequence[PlacedRank], seats: RankPlacement, /) -> Profiling:
        """Estimate what sampling these ranks costs; nothing is sampled before `start`."""
        ...


class Acting(Protocol):
    """What the screens need of an action that runs."""

    outcome: ActionOutcome | None
    """None: it runs."""


class SessionProtocol(LineRequests, Searcher, ProfileSource, Protocol):
    """What the app needs of a session."""

    plan: Plan
    fleet: Fleet

    def start(self) -> None:
        """Start the links; returns at once."""
        ...

    def poll(self) -> bool:
        """Move what arrived into the fleet."""
        ...

    def take_trouble(self) -> str | None:
        """Why something of this session is not kept for later ones; each is told once."""
        ...

    @property
    def packs(self) -> RulePacks:
        """The rules that the logs are read with."""
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
        """Look at the nodes and make a plan; nothing is measured before it is confirmed."""
        ...

    def retry(self, node: str | None = None) -> None:
        """Dial a lost node again now, or all of them."""
        ...

    def inquire(self) -> Asking:
        """Query all ranks for the one that the others wait for."""
        ...

    def act(self, action: Action, target: ActionTarget, /) -> Acting:
        """Run an action that a person has confirmed; an exception of one sentence where it must not run."""
        ...

    def acknowledge(self, ident: str, /) -> None:
        """Somebody looks after an alert or an incident."""
        ...

    def unacknowledge(self, ident: str, /) -> None:
        """Nobody does, after all."""
        ...

    def note(self, incident: str, text: str, /) -> str | None:
        """Note something about an incident; why other cockpits will not know it, if so."""
        ...

    def silence(
        self, code: str, *, node: str | None = None, gpu: int | None = None, rank: int | None = None
    ) -> str | None:
        """Report a code no more, at one place or anywhere; why later sessions will not know it, if so."""
        ...

    def unsilence(
        self, code: str, *, node: str | None = None, gpu: int | None = None, rank: int | None = None
    ) -> str | None:
        """Report it again; why later sessions will not know it, if so."""
        ...


@dataclass(frozen=True)
class SharedView:
    """What may be done in a view of a session that another process holds, as in a browser."""

    changes: bool
    """Whether it may acknowledge, silence, note and reconnect."""

    @property
    def badge(self) -> str:
        """For the first line of the screen."""
        return "SHARED" if self.changes else "READ-ONLY"

    def refusal(self, action: str) -> str:
        """Why an action (its name alone) is not done here; empty: it is."""
        if action in CHANGING and not self.changes:
            return "read-only view: gpuwatch serve --allow-changes lets viewers change things"
        if action in ACTING:
            return "not in a shared view: nodes and ranks are acted on from a terminal"
        if action in PROBING:
            return "not in a shared view: probes are made from a terminal, by gpuwatch probe"
        if action in WRITING:
            return "not in a shared view: it writes files, or starts a program, where gpuwatch runs"
        return ""
