"""Controls the ranks: starts them on all nodes, sends steps, and names missing ones."""

from __future__ import annotations

import secrets
from collections.abc import Collection

import msgspec

from gpuwatch.number_text import listed
from gpuwatch.probe.orchestration.nodes.arrivals import RANKS_WAIT_S, Arrivals
from gpuwatch.probe.orchestration.stages.counters import count_meanwhile
from gpuwatch.probe.orchestration.stages.reach import Rendezvous
from gpuwatch.probe.orchestration.stages.run import FailedError, ProbeRun
from gpuwatch.probe.orchestration.stages.step_outcome import StepOutcome, possible
from gpuwatch.probe.protocol import Arrived, Died, Done, NodeSlot, Prepare, Ready, Step
from gpuwatch.probe.ranks.shared.store_client import DELAYED, TAMPERED

STEP_MARGIN_S = 5.0
"""Seconds beyond a step's own timeout: ranks report a timeout themselves, with more detail."""
AFTER_DEATH_S = 1.0
"""Seconds after a rank's death for which the others' reports are still received."""
LOAD_BYTES = 1 << 20
"""A step with at least this many bytes lasts until the counters are read: PCIe slows on an idle GPU."""
RANKS_NAMED = 6
NOT_CONNECTED = "the ranks could not connect, which others on the network can cause, so no node is blamed"
"""The failure of ranks that had reached the store: until they are connected each depends on the others."""


class RankControl:
    """Starts the ranks, sends them their steps and collects the answers."""

    def __init__(self, run: ProbeRun, rendezvous: Rendezvous) -> None:
        self._run = run
        self._rendezvous = rendezvous
        self._secret = secrets.token_hex(32)
        """The secret for the store; it reaches the launchers over their connections only."""
        self._steps = 0
        self._counted = False
        """True if counters were requested under load."""

    @property
    def together(self) -> bool:
        """True if there is a group of all ranks."""
        return not self._rendezvous.pairs_only

    def start(self) -> None:
        """Start the ranks; return when all have joined.

        Raises:
            FailedError: a rank died or did not arrive, or a node was lost.
            CancelledError: the user has cancelled.
        """
        run = self._run
        run.enter("starting")
        for node in run.inventories:
            run.pool.send([node], self._prepare(node))
        arrivals = Arrivals(run.results.slots, run.clock(), run.results.request.timeout_s)
        while arrivals.waiting and (received := run.receive(arrivals.until)) is not None:
            node, message = received
            if isinstance(message, Died):
                _refuse_tampering(node, message.reason)
                self._await_tampering()
                who = self._who(node, message.rank)
                if message.cause == "connections" or (
                    message.cause is None and arrivals.has_arrived(message.rank)
                ):
                    raise FailedError(f"{NOT_CONNECTED}, as {who} reports: {message.reason}")
                lost = run.ranks_of(node) if message.rank is None else [message.rank]
                run.lose(lost, f"did not start: {message.reason}")
                raise FailedError(f"{who} did not start: {message.reason}")
            if isinstance(message, Arrived):
                arrivals.arrived(message.rank, run.clock())
            elif isinstance(message, Ready):
                arrivals.joined(message.rank)
                self._take_ready(message)
        if arrivals.waiting:
            late, words = arrivals.late(run.clock(), run.states)
            run.lose(late, words)
            raise FailedError(f"{self.names(late)} {words}")

    def _await_tampering(self) -> None:
        """Wait shortly for a rank that detected the tampering: others only saw its effects.

        Raises:
            FailedError: there is one.
        """
        until = self._run.clock() + AFTER_DEATH_S
        while (received := self._run.receive(until)) is not None:
            node, message = received
            if isinstance(message, Died):
                _refuse_tampering(node, message.reason)

    def _begin(self, step: Step, ranks: Collection[int]) -> Step:
        """Send a step under a new id, and return it; the first large one also requests counters."""
        run = self._run
        self._steps += 1
        order = msgspec.structs.replace(step, id=self._steps)
        run.pool.send(dict.fromkeys(run.results.slots[rank].node for rank in ranks), order)
        if not self._counted and step.bytes >= LOAD_BYTES:
            self._counted = True
            count_meanwhile(run)
        return order

    def step(self, step: Step, ranks: Collection[int]) -> StepOutcome:
        """Run one step on these ranks, and return their answers.

        Args:
            step: What to do; its id is set here.
            ranks: The ranks that take part.

        Raises:
            FailedError: a node was lost, or the store was tampered with.
            CancelledError: the user has cancelled.
        """
        run = self._run
        order = self._begin(step, ranks)
        outcome = StepOutcome(frozenset(ranks), step.what == "collective")
        waiting = set(ranks)
        # Once for the meeting before the step, and once for the step.
        began = run.clock()
        until = began + 2 * step.timeout_s + STEP_MARGIN_S
        while waiting and (received := run.receive(until)) is not None:
            node, message = received
            if isinstance(message, Done) and message.step == self._steps and message.rank in waiting:
                waiting.discard(message.rank)
                outcome.add(possible(message, order), step)
                if message.error is not None:
                    _refuse_tampering(node, message.error)
                if waiting.issubset(message.absent) and waiting <= outcome.confirmed_absent(run.node_of):
                    # an absent rank may answer for itself as long as the others waited
                    until = min(until, max(run.clock(), began + step.timeout_s) + AFTER_DEATH_S)
            elif isinstance(message, Died):
                _refuse_tampering(node, message.reason)
                outcome.died[message.rank] = f"{self._who(node, message.rank)} died: {message.reason}"
                lost = run.ranks_of(node) if message.rank is None else [message.rank]
                run.lose(lost, f"died: {message.reason}")
                waiting.difference_update(lost)
                until = min(until, run.clock() + AFTER_DEATH_S)
            if waiting <= outcome.excused:  # each of them waits for a rank that has given up
                until = min(until, run.clock() + STEP_MARGIN_S)
        outcome.missing = sorted(waiting)
        self._name_lost(step, outcome)
        return outcome

    def _name_lost(self, step: Step, outcome: StepOutcome) -> None:
        """Set `outcome.absent`, and mark these ranks as lost.

        If there are none and no rank died: those that failed by themselves while others wait, or did not
        answer.
        """
        run = self._run
        outcome.absent = sorted(outcome.reported_absent(run.node_of))
        run.lose(outcome.absent, f"did not join it within {step.timeout_s:.0f} s")
        if outcome.died or outcome.absent:
            return
        if outcome.missing and outcome.collective:
            for rank, error in outcome.local_faults.items():
                run.lose([rank], error)
        run.lose(outcome.silent(run.node_of), f"did not answer within {step.timeout_s:.0f} s")

    def names(self, ranks: Collection[int]) -> str:
        """Return ranks as text, with the names of the first few."""
        return listed([self._run.name(rank) for rank in sorted(ranks)], RANKS_NAMED)

    def _prepare(self, node: str) -> Prepare:
        run, meeting = self._run, self._rendezvous
        assert run.choice is not None  # noqa: S101 - the preflight has made it
        assert run.plan is not None  # noqa: S101 - planned before ranks are started
        gpus = {gpu.index: gpu.uuid for gpu in run.inventories[node].gpus}
        slots = [
            NodeSlot(
                rank=slot.rank,
                local=slot.local,
                gpu=None if slot.gpu is None else gpus.get(slot.gpu),
                gpu_index=slot.gpu,
            )
            for slot in run.results.slots
            if slot.node == node
        ]
        return Prepare(
            backend=run.plan.backend,
            world_size=len(run.results.slots),
            slots=slots,
            store_address=meeting.address,
            store_port=meeting.port,
            store_here=node == meeting.node,
            iface=run.choice.of[node].interface,
            timeout_s=run.results.request.timeout_s,
            join_s=RANKS_WAIT_S,
            pairs_only=meeting.pairs_only,
            secret=self._secret,
        )

    def _take_ready(self, ready: Ready) -> None:
        results = self._run.results
        slot = self._run.slot(ready.rank)
        if ready.backend != results.backend:
            name = self._run.name(ready.rank)
            self._run.note(f"{name} reports the backend {ready.backend}, not {results.backend}")
        results.torch = results.torch or ready.torch
        results.nccl = results.nccl or ready.nccl
        for op in ready.lacks:
            self._run.lacks.setdefault(op, set()).add(slot.node if slot is not None else "")
        if ready.nccl_backend not in {None, "nccl"}:
            self._run.note(f"torch runs NCCL through its backend {ready.nccl_backend}")
        self._run.changed()

    def _who(self, node: str, rank: int | None) -> str:
        return f"the worker on {node}" if rank is None else self._run.name(rank)


def _refuse_tampering(node: str, reason: str) -> None:
    """End the probe if a rank of this node reports that the store was changed, or its answers delayed.

    No rank is named as the culprit.

    Raises:
        FailedError: a rank reports it.
    """
    for what in (TAMPERED, DELAYED):
        if what in reason:
            raise FailedError(f"{what}, as {node} reports; nothing is known of any rank or node")
