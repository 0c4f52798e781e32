"""The stage of the pairs: rounds of disjoint pairs, then suspects once more, alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import median
from typing import Literal

from msgspec.structs import replace

from gpuwatch.probe.orchestration.planning.message_size import TRIAL_BYTES, WAY_S, PairLoad, load_for
from gpuwatch.probe.orchestration.planning.schedule import Pair, PairRound, crossed_round, link_class
from gpuwatch.probe.orchestration.stages.collective_rates import GB, slowest_of
from gpuwatch.probe.orchestration.stages.contacts import Contacts
from gpuwatch.probe.orchestration.stages.ranks import RankControl
from gpuwatch.probe.orchestration.stages.run import FailedError, ProbeRun
from gpuwatch.probe.orchestration.stages.step_outcome import StepOutcome
from gpuwatch.probe.protocol import Step
from gpuwatch.probe.results import PairResult

LATENCY_BYTES = 8
LATENCY_ITERATIONS = 20
CONTACT_S = 15.0
"""Seconds allowed for the first contact of a pair, which carries 8 bytes: after them the pair is dead."""
SLOW_S = 8.0
"""Seconds for one direction of a round over gloo: a very slow link must not delay the others.

A pair that is measured alone has more time.
"""
RESERVE_SHARE = 0.1
RESERVE_S = 6.0
"""Time kept for suspects and GPU checks: its fraction of the budget, and its maximum in seconds."""
JUDGE_EVERY_S = 3.0
JUDGE_SHARE = 0.05
"""Maximum fraction of the time for preliminary verdicts: for 100,000 pairs each takes a second."""


class Pairs:
    """Measures all pairs of one probe."""

    def __init__(self, run: ProbeRun, ranks: RankControl, judge: Callable[[], None]) -> None:
        """Prepare the stage.

        Args:
            run: The probe.
            ranks: Its ranks.
            judge: Computes a preliminary verdict; called at intervals.
        """
        self._run = run
        self._ranks = ranks
        self._judge = judge
        self._judge_next = run.clock() + JUDGE_EVERY_S
        self._loads: dict[bool, PairLoad] = {}
        """Keyed by True for links within a node."""
        self._contacts = Contacts(run)

    def measure(self) -> None:
        """Measure the planned rounds of pairs, as far as time allows, and add them to `results.pairs`.

        Raises:
            FailedError: a rank died, or the ranks cannot go on.
            CancelledError: the user has cancelled.
        """
        run = self._run
        plan = run.plan
        assert plan is not None  # noqa: S101 - the preflight has made it
        run.enter("pairs")
        rounds = list(plan.rounds)
        for at, each in enumerate(rounds):
            left_s = run.left_s() - min(RESERVE_SHARE * run.results.request.budget_s, RESERVE_S)
            if left_s <= 0:
                run.leave_out(f"{len(rounds) - at} of {plan.round_count} rounds of pairs")
                break
            self._round(each, way_s=left_s / (len(rounds) - at) / 3)
            run.step_done()
        else:
            if plan.quick:
                results = run.results.pairs
                rates = {pair: results[pair].bandwidth_gb_per_s for pair in results}
                self._round(crossed_round(run.results.slots, rates), way_s=WAY_S[1])
                run.step_done()
        self._testing(())

    def retest(self, suspects: Sequence[Pair], *, anew: bool = False) -> None:
        """Measure these pairs again, one at a time, with nothing else running, as far as time allows.

        Args:
            suspects: (source, destination) of each.
            anew: Also try dead ones, because the user requested it.

        Raises:
            FailedError: a rank died, or the ranks cannot go on.
            CancelledError: the user has cancelled.
        """
        run = self._run
        for at, pair in enumerate(suspects):
            if run.left_s() <= 0:
                run.leave_out(f"retests of {len(suspects) - at} suspected links")
                break
            self._testing([pair])
            if not anew or self._revived(pair):
                self._retest_one(pair)
        self._testing(())

    def _retest_one(self, pair: Pair) -> None:
        if not self._measurable([pair]):
            return
        inside = self._inside(pair)
        before = self._run.results.pairs.get(pair)
        load = self._loads.get(inside) or self._calibrate([pair], inside, WAY_S[1])
        self._one_way([pair], load.alone, before.latency_us if before else None, retested=True)

    def _revived(self, pair: Pair) -> bool:
        """Return True if a dead pair can communicate now; if not, its result is marked as retested."""
        self._contacts.forget(pair)
        met = bool(self._measurable([pair])) and pair in self._meet([pair])
        if not met:
            results = self._run.results.pairs
            results[pair] = replace(results[pair], retested=True)
        return met

    def _round(self, each: PairRound, way_s: float) -> None:
        pairs = self._measurable(each.pairs)
        if not pairs:
            return
        self._testing(pairs)
        latencies = self._meet(pairs)
        pairs = [pair for pair in pairs if pair in latencies]
        if pairs:
            inside = each.link == "same_node"
            load = self._loads.get(inside) or self._calibrate(pairs, inside, way_s)
            for way in (pairs, [(dst, src) for src, dst in pairs]):
                self._testing(way)
                self._one_way(way, load, None, latencies=latencies)
        began = self._run.clock()
        if began > self._judge_next:
            self._judge()
            now = self._run.clock()
            self._judge_next = now + max(JUDGE_EVERY_S, (now - began) / JUDGE_SHARE)

    def _measurable(self, pairs: Sequence[Pair]) -> list[Pair]:
        """Return the pairs that are not known to be dead; the others are recorded as failed."""
        fit = []
        for pair in pairs:
            error = self._contacts.error(pair)
            if error is None:
                fit.append(pair)
            else:
                self._record_dead(pair, error)
        return fit

    def _record_dead(self, pair: Pair, error: str) -> None:
        for src, dst in (pair, pair[::-1]):
            link = link_class(self._run.results.slots[src], self._run.results.slots[dst])
            self._run.results.pairs[src, dst] = PairResult(src, dst, link, ok=False, error=error)
        self._run.changed()

    def _meet(self, pairs: Sequence[Pair]) -> dict[Pair, float | None]:
        """Exchange a few bytes in both directions; return pair -> microseconds in one direction.

        Pairs that cannot communicate are missing, and recorded as dead. None: no time was measured.

        Raises:
          FailedError: the ranks cannot go on.
        """
        outcome = self._step("latency", pairs, LATENCY_BYTES, LATENCY_ITERATIONS, self._contact_s())
        met: dict[Pair, float | None] = {}
        failed: dict[Pair, str] = {}
        for pair in pairs:
            error = self._error(pair, outcome)
            if error is None:
                times = slowest_of([outcome.done[pair[0]].times_s])
                met[pair] = median(times) * 1e6 if times else None
                self._contacts.worked(pair)
            else:
                failed[pair] = error
        for pair, error in failed.items():  # after the others: one rail may be dead, and not the nodes
            self._record_dead(pair, error)
            self._contacts.failed(pair, error)
        self._stop_if_broken(outcome)
        return met

    def _calibrate(self, pairs: Sequence[Pair], inside: bool, way_s: float) -> PairLoad:
        """Return the load for links within a node (`inside`) or between nodes, by a trial, and keep it."""
        outcome = self._step("bandwidth", pairs, TRIAL_BYTES, 2, self._run.results.request.timeout_s)
        self._stop_if_broken(outcome)
        rates = [
            TRIAL_BYTES / median(times)
            for src, dst in pairs
            if (times := slowest_of(_times(outcome, (src, dst))))
        ]
        load = load_for(median(rates) if rates else None, way_s, self._backend)
        self._loads[inside] = load
        return load

    def _one_way(
        self,
        pairs: Sequence[Pair],
        load: PairLoad,
        latency_us: float | None,
        *,
        latencies: dict[Pair, float | None] | None = None,
        retested: bool = False,
    ) -> None:
        self._testing(pairs)
        timeout_s = self._run.results.request.timeout_s
        if self._backend == "gloo" and not retested:
            timeout_s = min(timeout_s, SLOW_S)
        outcome = self._step("bandwidth", pairs, load.bytes, load.iterations, timeout_s)
        slots = self._run.results.slots
        for src, dst in pairs:
            link = link_class(slots[src], slots[dst])
            error = self._error((src, dst), outcome)
            times = slowest_of(_times(outcome, (src, dst)))
            if error is None and not times:
                error = "the ranks returned no times"
            if latencies is not None:
                latency_us = latencies.get((src, dst), latencies.get((dst, src)))
            middle = median(times) if error is None else None
            self._run.results.pairs[src, dst] = PairResult(
                src,
                dst,
                link,
                ok=error is None,
                bandwidth_gb_per_s=None if middle is None else load.bytes / middle / GB,
                latency_us=latency_us,
                spread=None if middle is None else (max(times) - min(times)) / middle,
                retested=retested,
                error=error,
            )
        self._run.changed()
        self._stop_if_broken(outcome)

    def _step(
        self,
        what: Literal["latency", "bandwidth"],
        pairs: Sequence[Pair],
        size: int,
        iterations: int,
        timeout_s: float,
    ) -> StepOutcome:
        check = what == "bandwidth"
        step = Step(
            id=0,
            what=what,
            pairs=list(pairs),
            bytes=size,
            warmup=0 if check else 1,  # the checked message is the first
            iterations=iterations,
            check=check,
            timeout_s=timeout_s,
        )
        return self._ranks.step(step, [rank for pair in pairs for rank in pair])

    def _error(self, pair: Pair, outcome: StepOutcome) -> str | None:
        """Return why a pair's transfer failed, by the end that knows more; None if it did not.

        An end that did not answer is marked as stuck.
        """
        for rank in pair:
            if rank in outcome.died:
                return outcome.died[rank]
        for rank in reversed(pair):
            error = outcome.errors.get(rank)
            if error is not None:
                return f"{self._run.name(rank)}: {error}"
        for rank in pair:
            if rank in outcome.missing:
                words = f"{self._run.name(rank)} did not answer"
                self._run.stuck.setdefault(rank, words)
                return words
        if any(rank not in outcome.done for rank in pair):
            return "it was not measured"
        if outcome.done[pair[1]].correct is False:
            return f"what arrived at {self._run.name(pair[1])} is not what was sent"
        return None

    def _stop_if_broken(self, outcome: StepOutcome) -> None:
        """Raise if a rank died; with NCCL also after one hang, because all pairs share a group.

        Raises:
            FailedError: the ranks cannot go on.
        """
        if outcome.failure is not None:
            raise FailedError(outcome.failure)
        if outcome.missing and self._backend == "nccl":
            silent = outcome.silent(self._run.node_of)
            why = "did not answer" if silent else "failed, and others wait for it"
            ranks = self._ranks.names(silent or outcome.errors or outcome.missing)
            raise FailedError(f"{ranks} {why}: NCCL cannot continue without them")

    def _inside(self, pair: Pair) -> bool:
        one, other = self._run.nodes_of(pair)
        return one == other

    def _contact_s(self) -> float:
        return min(CONTACT_S, self._run.results.request.timeout_s)

    @property
    def _backend(self) -> str:
        return self._run.plan.backend if self._run.plan is not None else "gloo"

    def _testing(self, pairs: Sequence[Pair]) -> None:
        self._run.results.testing = tuple(pairs)
        self._run.changed()


def _times(outcome: StepOutcome, pair: Pair) -> list[list[float]]:
    """Return the timed iterations: of the receiver, and of the sender if it measures too."""
    return [done.times_s for rank in pair if (done := outcome.done.get(rank)) and done.times_s]
