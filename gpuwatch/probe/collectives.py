"""The stage that fills the table of collectives: correctness of every operation first, then the sweep."""

from __future__ import annotations

from gpuwatch.probe.plan import ITERATIONS_MOST, ROW_S
from gpuwatch.probe.ranks import Ranks, StepOutcome
from gpuwatch.probe.results import CollectiveResult
from gpuwatch.probe.run import FailedError, ProbeRun
from gpuwatch.probe.sizes import size_text
from gpuwatch.probe.summary import collective_row, nearest_rank, slowest_of
from gpuwatch.probe.talk import Step
from gpuwatch.probe.wish import Collective

CHECK_BYTES = 64 * 1024
CHECK_ITERATIONS = 3
ITERATIONS_LEAST = 3
SLOWEST_S = 4.0
"""A size whose single iteration would take longer is left out, and larger ones with it."""
SHARE = 0.45
"""Of the budget, when pairs are to be measured too."""
BAD_OPS = 2
"""So many operations in a row that end in errors, and the group is taken for broken."""


class Collectives:
    """All collectives of one probe."""

    def __init__(self, run: ProbeRun, ranks: Ranks) -> None:
        self._run = run
        self._ranks = ranks
        self._all = [seat.rank for seat in run.results.seats]
        self._nodes = len({seat.node for seat in run.results.seats})
        self._known: dict[Collective, tuple[int, float]] = {}
        """The largest size that was measured, and what an iteration of it took."""
        self._given_up: set[Collective] = set()
        self._bad = 0

    def measure(self) -> None:
        """Fill `results.collectives`.

        Raises:
            FailedError: a rank hangs or died, a node was lost, or nothing works any more.
            CancelledError: the person has cancelled.
        """
        run = self._run
        plan = run.plan
        assert plan is not None  # noqa: S101 - the preflight has made it
        run.enter("collectives")
        share_s = run.left_s() * (SHARE if plan.rounds else 1.0)
        for op in plan.checks:
            self._check(op)
            run.step_done()
        # The time is shared out between the operations, so that the last one is not left without any.
        ops = dict.fromkeys(op for op, _ in plan.rows)
        began = run.clock()
        until = {op: began + share_s * (turn + 1) / len(ops) for turn, op in enumerate(ops)}
        for op, size in plan.rows:
            if op not in self._given_up:
                self._row(op, size, until[op] - run.clock())
            run.step_done()

    def _check(self, op: Collective) -> None:
        if op in self._run.lacks:
            self._given_up.add(op)
            self._add(
                CollectiveResult(
                    op, CHECK_BYTES, error=f"this torch's {self._run.results.backend} cannot do it"
                )
            )
            return
        outcome = self._step(op, CHECK_BYTES, 1, CHECK_ITERATIONS)
        correct = _correct(outcome)
        if self._refuse(op, CHECK_BYTES, outcome):
            return
        if correct is False:
            wrong = self._ranks.names([rank for rank, done in outcome.done.items() if done.correct is False])
            self._add(CollectiveResult(op, CHECK_BYTES, correct=False, error=f"wrong result on {wrong}"))
        self._learn(op, CHECK_BYTES, outcome)

    def _row(self, op: Collective, size: int, left_s: float) -> None:
        expected = self._expected(op, size)
        if expected > SLOWEST_S or left_s <= 0:
            self._given_up.add(op)
            self._run.leave_out(f"{op} from {size_text(size)} up")
            return
        iterations = max(ITERATIONS_LEAST, min(ITERATIONS_MOST, int(ROW_S * 0.8 / expected)))
        warmup = 5 if iterations >= 20 else 2 if iterations > ITERATIONS_LEAST else 1
        outcome = self._step(op, size, warmup, iterations)
        if self._refuse(op, size, outcome):
            return
        times = {rank: done.times_s for rank, done in outcome.done.items()}
        self._add(collective_row(op, size, times, self._nodes, _correct(outcome)))
        self._learn(op, size, outcome)

    def _step(self, op: Collective, size: int, warmup: int, iterations: int) -> StepOutcome:
        step = Step(
            id=0,
            what="collective",
            collective=op,
            bytes=size,
            warmup=warmup,
            iterations=iterations,
            check=True,
            timeout_s=self._run.results.wish.timeout_s,
        )
        return self._ranks.step(step, self._all)

    def _refuse(self, op: Collective, size: int, outcome: StepOutcome) -> bool:
        """Whether it did not come to a result: the row says why.

        Raises:
            FailedError: the ranks cannot go on together.
        """
        what = f"{op} of {size_text(size)}"
        timeout_s = self._run.results.wish.timeout_s
        blame = outcome.blame
        if blame is None and outcome.absent:
            blame = f"{self._ranks.names(outcome.absent)} did not come to it within {timeout_s:.0f} s"
        if blame is None and outcome.missing:
            blame = f"{self._ranks.names(outcome.missing)} did not answer within {timeout_s:.0f} s"
        if blame is not None:
            self._add(CollectiveResult(op, size, error=blame))
            raise FailedError(f"{what}: {blame}")
        errors = {rank: done.error for rank, done in outcome.done.items() if done.error is not None}
        if not errors:
            self._bad = 0
            return False
        first = min(errors)
        self._add(CollectiveResult(op, size, error=f"{self._ranks.names(errors)}: {errors[first]}"))
        self._given_up.add(op)
        self._bad += 1
        if self._bad >= BAD_OPS:
            raise FailedError(f"{what}: {self._run.name(first)}: {errors[first]}")
        return True

    def _expected(self, op: Collective, size: int) -> float:
        known, took_s = self._known.get(op, (size, ROW_S / 10))
        return max(took_s * size / known, 1e-6)

    def _learn(self, op: Collective, size: int, outcome: StepOutcome) -> None:
        times = slowest_of([done.times_s for done in outcome.done.values()])
        if times:
            self._known[op] = (size, nearest_rank(times, 50))

    def _add(self, row: CollectiveResult) -> None:
        self._run.results.collectives.append(row)
        self._run.changed()


def _correct(outcome: StepOutcome) -> bool | None:
    said = [done.correct for done in outcome.done.values()]
    return None if not said or None in said else all(said)
