"""Queries Kubernetes periodically for failure events, and turns them into findings of the watched pods."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gpuwatch.fleet.fleet import Fleet
from gpuwatch.hosts.external_command import RunCommand, run_external
from gpuwatch.hosts.kube.events import RULES, KubeEvent, read_ends, read_events
from gpuwatch.hosts.kube.plan import label_selector
from gpuwatch.hosts.plan import Plan
from gpuwatch.hosts.validation.errors import HostsError
from gpuwatch.link.stream.inbox import Arrival
from gpuwatch.plain import plain
from gpuwatch.session.scheduler.repeated_query import RepeatedQuery
from gpuwatch.wire import Finding, Role
from gpuwatch.wire.limits import FIRST_OWN_FINDING

EVERY_S = 15.0
"""Seconds between two queries; Kubernetes keeps its events for an hour."""
FILE = "Kubernetes events"
"""The `file` of these findings; their offsets count events."""
SOURCE = "--kube "
MAX_KNOWN = 20_000
"""Most events that are stored; the event that was reported longest ago is dropped first."""


class KubeWatch:
    """Turns Kubernetes events of the watched pods into findings.

    Call `start` once, `update` after every poll, and `close` at the end.
    """

    def __init__(
        self,
        plan: Plan,
        role_of: Callable[[str], Role],
        started: float,
        run: RunCommand = run_external,
        every_s: float = EVERY_S,
    ) -> None:
        """Create the watch; nothing is queried yet.

        Args:
            plan: A plan made by `--kube`.
            role_of: Returns the role of a rule from its id.
            started: When the session began (unix seconds); older events are marked as such.
            run: Runs kubectl.
            every_s: Seconds between two queries.
        """
        self._role_of, self._started, self._run = role_of, started, run
        self._pods = {spec.name for spec in plan.nodes}
        self._on_machine: dict[str, list[str]] = {}
        for spec in plan.nodes:
            self._on_machine.setdefault(spec.labels.get("kube_node", ""), []).append(spec.name)
        self._spaces = sorted({spec.labels.get("kube_namespace", "") for spec in plan.nodes} - {""})
        self._selector = label_selector(plan.source.removeprefix(SOURCE))
        self._known: dict[tuple[str, str], tuple[int, int]] = {}
        """(event, pod) -> id of its finding and the reported count."""
        self._next = 0
        """The number of the next new event."""
        self._trouble: str | None = None
        """Why the events cannot be read now; None: they are read."""
        self._reported: str | None = None
        self._looking = RepeatedQuery(self._query_events, every_s, "kubernetes events")
        self.start = self._looking.start
        self.close = self._looking.close

    def update(self, now: float, wall: float) -> list[Arrival]:
        """Return the findings that are new or happened again.

        Args:
            now: Monotonic seconds.
            wall: Unix seconds.
        """
        found = self._looking.take() or ()
        return [
            Arrival(pod, now, self._finding(event, pod, wall))
            for event in found
            for pod in self._pods_of(event)
            if self._known.get((event.uid, pod), (0, -1))[1] != event.count
        ]

    def take_trouble(self) -> str | None:
        """Return why the events cannot be read; None: they are read, or the reason was returned last."""
        trouble, before = self._trouble, self._reported
        self._reported = trouble
        return None if trouble == before else trouble

    def _pods_of(self, event: KubeEvent) -> Sequence[str]:
        if event.kind == "Node":
            return self._on_machine.get(event.name, ()) if event.name else ()
        return (event.name,) if event.name in self._pods else ()

    def _finding(self, event: KubeEvent, pod: str, wall: float) -> Finding:
        number = self._known.pop((event.uid, pod), (self._next, 0))[0]
        self._next += number == self._next
        self._known[event.uid, pod] = number, event.count
        if len(self._known) > MAX_KNOWN:
            del self._known[next(iter(self._known))]
        rule, severity = RULES[event.reason]
        return Finding(
            t=wall,
            seq=number,
            id=FIRST_OWN_FINDING + number, rule=rule,
            severity="warning" if severity == "warning" else "error", role=self._role_of(rule),
            file=FILE, offset=number, at=event.at, timed=True, backlog=event.at < self._started,
            lines=[plain(event.line)], fields={"status": event.reason, "pod": pod}, count=max(1, event.count),
        )  # fmt: skip

    def _query_events(self) -> list[KubeEvent]:
        found: list[KubeEvent] = []
        trouble: list[str] = []
        for space in self._spaces:
            where = ["--namespace", space]
            found += read_events(self._text(["kubectl", "get", "events", *where, "-o", "json"], trouble))
            pods = ["kubectl", "get", "pods", *where, "--selector", self._selector, "-o", "json"]
            found += read_ends(self._text(pods, trouble))
        of_nodes = ["--namespace", "default", "--field-selector", "involvedObject.kind=Node"]
        found += read_events(self._text(["kubectl", "get", "events", *of_nodes, "-o", "json"], []))
        self._trouble = f"failures that Kubernetes reports are not read: {trouble[0]}" if trouble else None
        return found

    def _text(self, argv: Sequence[str], trouble: list[str]) -> str:
        """Return the output of kubectl; empty, with the reason in `trouble`, if it fails.

        A user whose role covers one namespace may not read the events of machines, which are in another one.
        """
        try:
            return self._run(argv)
        except HostsError as error:
            trouble.append(plain("; ".join(error.problems)))
            return ""


def watch_of(fleet: Fleet, role_of: Callable[[str], Role], started: float) -> KubeWatch | None:
    """Return a watch for a `--kube` plan; None for other plans."""
    return KubeWatch(fleet.plan, role_of, started) if fleet.plan.source.startswith(SOURCE) else None
