"""The stage of the collectives: correctness of every operation first, then the sweep over sizes."""

from __future__ import annotations

from bisect import insort

from gpuwatch.number_text import size_text
from gpuwatch.probe.orchestration.planning.plan import MAX_ITERATIONS, ROW_S
from gpuwatch.probe.orchestration.stages.collective_rates import collective_row, nearest_rank, slowest_of
from gpuwatch.probe.orchestration.stages.ranks import RankControl
from gpuwatch.probe.orchestration.stages.run import FailedError, ProbeRun
from gpuwatch.probe.orchestration.stages.step_outcome import StepOutcome
from gpuwatch.probe.probe_request import Collective
from gpuwatch.probe.protocol import Step
from gpuwatch.probe.results import CollectiveResult

CHECK_BYTES = 64 * 1024
CHECK_ITERATIONS = 3
MIN_ITERATIONS = 3
LATENCY_SIZE_FACTOR = 16
"""A small message is dominated by latency: it predicts only sizes up to this many times its own."""
MAX_ROW_S = 15.0
"""A row of the table that is predicted to take more seconds is left out, and so are larger sizes."""
COLLECTIVES_SHARE = 0.45
"""Fraction of the budget for collectives if pairs are to be measured too."""
BAD_OPS = 2
"""After this many failed operations in a row, the group of all ranks is considered broken."""


class CollectiveStage:
    """Measures all collectives of one probe."""

    def __init__(self, run: ProbeRun, ranks: RankControl) -> None:
        self._run = run
        self._ranks = ranks
        self._all = [slot.rank for slot in run.results.slots]
        self._nodes = len({slot.node for slot in run.results.slots})
        self._known: dict[Collective, tuple[int, float]] = {}
        """The largest size so far, and the seconds of one iteration of it, including overhead."""
        self._given_up: set[Collective] = set()
        self._bad = 0

    def measure(self) -> None:
        """Measure all collectives, as far as time allows, and add them to `results.collectives`.

        Raises:
            FailedError: a rank hangs or died, a node was lost, or nothing works any more.
            CancelledError: the user has cancelled.
        """
        run = self._run
        plan = run.plan
        assert plan is not None  # noqa: S101 - the preflight has made it
        run.enter("collectives")
        until = run.clock() + run.left_s() * (COLLECTIVES_SHARE if plan.rounds else 1.0)
        for op in plan.checks:
            if op not in self._given_up:
                self._check(op)
            run.step_done()
        for op, size in plan.rows:
            if op not in self._given_up:
                self._row(op, size, until - run.clock())
            run.step_done()

    def _lack(self, op: Collective) -> str:
        """Return why a collective is not measured: torch does not support it, on all nodes or on some."""
        nodes = self._run.lacks[op]
        if nodes == {slot.node for slot in self._run.results.slots}:
            return f"it is not supported by this torch's {self._run.results.backend}"
        return f"not measured: torch on {', '.join(sorted(nodes)[:4])} does not support {op}"

    def _check(self, op: Collective) -> None:
        if op in self._run.lacks:
            self._given_up.add(op)
            self._add(CollectiveResult(op, CHECK_BYTES, error=self._lack(op)))
            return
        outcome = self._step(op, CHECK_BYTES, 1, CHECK_ITERATIONS)
        correct = _correct(outcome)
        if self._refuse(op, CHECK_BYTES, outcome):
            return
        times = slowest_of([done.times_s for done in outcome.done.values()])
        if times:  # without what the first call sets up
            self._known[op] = (CHECK_BYTES, nearest_rank(times, 50))
        if correct is False:
            wrong = self._ranks.names([rank for rank, done in outcome.done.items() if done.correct is False])
            self._add(CollectiveResult(op, CHECK_BYTES, correct=False, error=f"wrong result on {wrong}"))

    def _row(self, op: Collective, size: int, left_s: float) -> None:
        began = self._run.clock()
        iterations, warmup, takes_s = self._amount(op, size)
        most_s = MAX_ROW_S if self._run.results.request.iterations is None else left_s
        while takes_s > min(left_s, most_s):
            known, _ = self._known.get(op, (size, 0.0))
            if known * LATENCY_SIZE_FACTOR >= size or not self._try(op, known * LATENCY_SIZE_FACTOR):
                break
            iterations, warmup, takes_s = self._amount(op, size)
        if op in self._given_up:
            return
        left_s -= self._run.clock() - began
        if takes_s > min(left_s, most_s):
            self._given_up.add(op)
            self._run.leave_out(f"{op} from {size_text(size)} up")
            return
        calls = warmup + iterations + 1  # one of them checks the result
        began = self._run.clock()
        outcome = self._step(op, size, warmup, iterations, takes_s)
        if self._refuse(op, size, outcome):
            return
        self._known[op] = (size, (self._run.clock() - began) / calls)
        times = {rank: done.times_s for rank, done in outcome.done.items()}
        self._add(collective_row(op, size, times, self._nodes, _correct(outcome)))

    def _amount(self, op: Collective, size: int) -> tuple[int, int, float]:
        """Return the number of iterations, of warm-up iterations, and the predicted seconds.

        They follow from the known results of the operation.
        """
        known, took_s = self._known.get(op, (size, ROW_S / MAX_ITERATIONS))
        one_s = max(took_s * size / known, 1e-6)
        request = self._run.results.request
        if request.iterations is not None:
            iterations, warmup = request.iterations, request.warmup
        else:
            iterations = max(MIN_ITERATIONS, min(MAX_ITERATIONS, int(ROW_S / one_s)))
            warmup = 5 if iterations >= 20 else 2 if iterations > MIN_ITERATIONS else 1
        return iterations, warmup, (warmup + iterations + 1) * one_s

    def _try(self, op: Collective, size: int) -> bool:
        """Measure a size and keep its time for the prediction.

        Returns False if it failed or took no time; only a failure adds a row, with the reason, to the table.

        Raises:
            FailedError: the ranks cannot go on together.
        """
        outcome = self._step(op, size, 1, CHECK_ITERATIONS)
        if self._refuse(op, size, outcome):
            return False
        times = slowest_of([done.times_s for done in outcome.done.values()])
        if times:
            self._known[op] = (size, nearest_rank(times, 50))
        return bool(times)

    def _step(
        self, op: Collective, size: int, warmup: int, iterations: int, takes_s: float = 0.0
    ) -> StepOutcome:
        """Have all ranks run a collective. `takes_s`: the predicted seconds; twice as many are allowed."""
        step = Step(
            id=0,
            what="collective",
            collective=op,
            bytes=size,
            warmup=warmup,
            iterations=iterations,
            check=True,
            timeout_s=max(self._run.results.request.timeout_s, 2 * takes_s),
        )
        return self._ranks.step(step, self._all)

    def _refuse(self, op: Collective, size: int, outcome: StepOutcome) -> bool:
        """Return True if a step failed; the row of the table then states why.

        Raises:
            FailedError: the ranks cannot go on together.
        """
        what = f"{op} of {size_text(size)}"
        failure = self._failure(outcome)
        if failure is not None:
            self._add(CollectiveResult(op, size, error=failure))
            raise FailedError(f"{what}: {failure}")
        errors = outcome.local_faults or outcome.errors
        if not errors:
            self._bad = 0
            return False
        first = min(errors)
        self._add(CollectiveResult(op, size, error=f"{self._ranks.names(errors)}: {errors[first]}"))
        self._given_up.add(op)
        self._bad += 1
        if self._bad >= BAD_OPS:
            if self._run.results.backend == "nccl":
                raise FailedError(f"{what}: {self._run.name(first)}: {errors[first]}")
            # Pairs over gloo have groups of their own: they find the link that broke the group of all.
            self._given_up.update(self._run.results.request.collectives)
            self._run.note(f"the group of all ranks is broken: no collective after {what} was measured")
        return True

    def _failure(self, outcome: StepOutcome) -> str | None:
        """Return why no further collective can run, with the ranks that failed; None if all answered."""
        timeout_s = self._run.results.request.timeout_s
        if outcome.failure is not None:
            return outcome.failure
        if outcome.absent:
            return f"{self._ranks.names(outcome.absent)} did not join it within {timeout_s:.0f} s"
        if not outcome.missing:
            return None
        errors = outcome.local_faults or outcome.errors
        silent = outcome.silent(self._run.node_of)
        if silent or not errors:
            return f"{self._ranks.names(silent or outcome.missing)} did not answer within {timeout_s:.0f} s"
        return f"{self._ranks.names(errors)}: {next(iter(errors.values()))}"

    def _add(self, row: CollectiveResult) -> None:
        """Insert a row so that the sizes of an operation are consecutive."""
        ops = self._run.results.request.collectives
        insort(self._run.results.collectives, row, key=lambda each: (ops.index(each.op), each.bytes))
        self._run.changed()


def _correct(outcome: StepOutcome) -> bool | None:
    message = [done.correct for done in outcome.done.values()]
    return None if not message or None in message else all(message)
