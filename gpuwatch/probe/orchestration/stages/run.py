"""The state of a running probe, which its stages share."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from gpuwatch.probe.orchestration.nodes.node_line import Lost
from gpuwatch.probe.orchestration.nodes.node_pool import NodePool
from gpuwatch.probe.orchestration.planning.choice import AddressChoice
from gpuwatch.probe.orchestration.planning.plan import ProbePlan
from gpuwatch.probe.protocol import Alive, AnyNodeMessage, Counters, Died, NodeInventory, Note, Transport
from gpuwatch.probe.results import Phase, RankSlot, Results

NOTES_KEPT = 200


class ProbeRefusedError(Exception):
    """Raised if nothing may be measured; the message is the reason with the remedy."""


class FailedError(Exception):
    """Raised if the probe cannot continue; the message states the culprit."""


@dataclass
class ProbeRun:
    """The state of a running probe; only the conductor's thread changes it."""

    pool: NodePool
    results: Results
    clock: Callable[[], float]
    inventories: dict[str, NodeInventory] = field(default_factory=dict)
    choice: AddressChoice | None = None
    plan: ProbePlan | None = None
    dead: dict[tuple[str, str], str] = field(default_factory=dict)
    """Ordered pair of nodes that cannot communicate -> the reason."""
    stuck: dict[int, str] = field(default_factory=dict)
    """Rank that gets no more steps -> the reason."""
    lacks: dict[str, set[str]] = field(default_factory=dict)
    """Collective -> the nodes whose torch does not support it."""
    counters: dict[str, list[dict[str, float]]] = field(default_factory=dict)
    """Node -> its readings of the counters, in order."""
    deadline: float = float("inf")
    """The end of the budget, by the conductor's clock (seconds)."""
    states: dict[str, str | None] = field(default_factory=dict)
    """Node -> the last reported state of its worker (`Alive.worker`)."""
    left_out: list[str] = field(default_factory=list)
    """Measurements that were left out because of the budget."""
    began: float | None = None
    """The start of the measurements, by the conductor's clock (seconds)."""

    def enter(self, phase: Phase) -> None:
        """Set the phase of the probe in its results, and increase their version."""
        self.results.phase = phase
        self.changed()

    def changed(self) -> None:
        """Increase the version, at which painters poll for changes."""
        self.results.version += 1

    def note(self, text: str) -> None:
        """Add a note for the user, unless it is known or there are too many."""
        if text not in self.results.notes and len(self.results.notes) < NOTES_KEPT:
            self.results.notes.append(text)
            self.changed()

    def left_s(self) -> float:
        """Return the seconds until the budget is used up."""
        return self.deadline - self.clock()

    def leave_out(self, what: str) -> None:
        """Record what was not measured because of the time."""
        self.left_out.append(what)

    def step_done(self) -> None:
        """Count one more step of the plan as done or left out, and estimate the time that is left."""
        results = self.results
        results.done_steps += 1
        if self.plan is not None and self.began is not None:
            done = results.done_steps / max(results.all_steps, 1)
            elapsed = self.clock() - self.began
            # Early on the plan knows better, later the pace so far does.
            total = (1 - done) * self.plan.seconds + elapsed
            results.left_s = max(0.0, min(total * (1 - done) if done < 1 else 0.0, self.left_s()))
        self.changed()

    def receive_aside(self, until: float) -> bool:
        """Process one message while the ranks are idle; return False at `until`.

        What `_keep` does not store is dropped.

        Raises:
            CancelledError: the user has cancelled.
            FailedError: a node was lost, or a rank died.
        """
        received = self._next(until)
        if received is not None:
            node, message = received
            if isinstance(message, Lost):
                self.lose(self.ranks_of(node), f"{node} was lost: {message.reason}")
                raise FailedError(f"{node} was lost: {message.reason}")
            if isinstance(message, Died):
                self.lose(
                    self.ranks_of(node) if message.rank is None else [message.rank], f"died: {message.reason}"
                )
                who = self.name(message.rank) if message.rank is not None else f"the worker on {node}"
                raise FailedError(f"{who} died: {message.reason}")
            self._keep(node, message)
        return received is not None

    def receive(self, until: float) -> tuple[str, AnyNodeMessage] | None:
        """Return the next message of a node; notes and counters are stored here. None at `until`.

        Raises:
            CancelledError: the user has cancelled.
            FailedError: a node that takes part was lost.
        """
        while (received := self._next(until)) is not None:
            node, message = received
            if isinstance(message, Lost):
                self.lose(self.ranks_of(node), f"{node} was lost: {message.reason}")
                raise FailedError(f"{node} was lost: {message.reason}")
            if not self._keep(node, message):
                return node, message
        return None

    def _next(self, until: float) -> tuple[str, AnyNodeMessage | Lost] | None:
        """Return the next (node, message); None at `until`.

        A message about a rank is ignored unless it is from the rank's own node.
        """
        while (received := self.pool.receive(until)) is not None:
            node, message = received
            rank = getattr(message, "rank", None)
            if rank is None or ((slot := self.slot(rank)) is not None and slot.node == node):
                return received
            self.note(f"{node} reports on rank {rank}, which does not run there: ignored")
        return None

    def lose(self, ranks: Iterable[int], why: str) -> None:
        """Mark ranks as lost, for the verdict; the first reason is kept."""
        for rank in ranks:
            self.results.gone.setdefault(rank, why)
        self.changed()

    def slot(self, rank: int) -> RankSlot | None:
        """Return the slot of a rank; None if there is no such rank."""
        slots = self.results.slots
        return slots[rank] if 0 <= rank < len(slots) else None

    def node_of(self, rank: int) -> str:
        """Return the node of a rank."""
        return self.results.slots[rank].node

    def is_link(self, pair: tuple[int, int]) -> bool:
        """Return True if these are two different existing ranks."""
        return pair[0] != pair[1] and all(self.slot(rank) is not None for rank in pair)

    def nodes_of(self, pair: tuple[int, int]) -> tuple[str, str]:
        """Return the nodes of the two ranks of a pair."""
        return self.results.slots[pair[0]].node, self.results.slots[pair[1]].node

    def ranks_of(self, node: str) -> list[int]:
        """Return the ranks on a node."""
        return [slot.rank for slot in self.results.slots if slot.node == node]

    def name(self, rank: int) -> str:
        """Return the name of a rank: `rank 3 (gpu-002 GPU 1)`."""
        slot = self.slot(rank)
        if slot is None:
            return f"rank {rank}"
        where = slot.node if slot.gpu is None else f"{slot.node} GPU {slot.gpu}"
        return f"rank {rank} ({where})"

    def _keep(self, node: str, message: AnyNodeMessage) -> bool:
        """Store a note, a state, counters or a transport; return False for any other message."""
        if isinstance(message, Note):
            who = node if message.rank is None else self.name(message.rank)
            self.note(f"{who}: {message.text}")
        elif isinstance(message, Alive):
            self.states[node] = message.worker
        elif isinstance(message, Counters):
            self.counters.setdefault(node, []).append(message.values)
        elif isinstance(message, Transport):
            for transport in message.transports:
                ranks = self.results.transports.setdefault(transport, [])
                if message.rank not in ranks:
                    ranks.append(message.rank)
            self.changed()
        else:
            return False
        return True
