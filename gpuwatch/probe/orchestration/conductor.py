"""The conductor of a probe: a thread that runs the stages, and takes the user's requests."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, TypeAlias

from msgspec.structs import replace

from gpuwatch.clock import SYSTEM, SessionClock
from gpuwatch.number_text import listed
from gpuwatch.probe.judging.checks.baseline import Baseline
from gpuwatch.probe.judging.judge import judge, suspects
from gpuwatch.probe.orchestration.nodes.node_line import Lost, NodeLine
from gpuwatch.probe.orchestration.nodes.node_pool import CancelledError, Confirmed, NodePool, RetestAsked
from gpuwatch.probe.orchestration.planning.schedule import Pair
from gpuwatch.probe.orchestration.stages.collectives import CollectiveStage
from gpuwatch.probe.orchestration.stages.counters import compare, count
from gpuwatch.probe.orchestration.stages.gpu_checks import check_gpus
from gpuwatch.probe.orchestration.stages.pairs import Pairs
from gpuwatch.probe.orchestration.stages.preflight import preflight
from gpuwatch.probe.orchestration.stages.ranks import RankControl
from gpuwatch.probe.orchestration.stages.reach import reach
from gpuwatch.probe.orchestration.stages.run import FailedError, ProbeRefusedError, ProbeRun
from gpuwatch.probe.probe_request import ProbeRequest
from gpuwatch.probe.protocol import Died, Leaving, Stop
from gpuwatch.probe.results import Phase, Results
from gpuwatch.probe.verdict import ProbeVerdict

Judge: TypeAlias = Callable[[Results, Baseline | None], ProbeVerdict]
Suspects: TypeAlias = Callable[[Results], Sequence[Pair]]

ASK_S = 600.0
"""Seconds that the user has to confirm."""
IDLE_S = 60.0
"""Seconds that the ranks are kept for retests after the end."""
STOP_S = 2.0
CLOSE_S = 4.0
RETEST_BUDGET_S = 120.0
RETEST_ROUNDS = 3
"""Maximum number of rounds of retests; a link that is fine alone makes others suspect."""
MAX_LEFT_OUT = 8


class Judging(NamedTuple):
    """How a probe is judged: the verdict on its results, and the pairs to measure again, alone."""

    verdict: Judge = judge
    """A function that returns the verdict on results and a baseline, which may be None."""
    suspects: Suspects = suspects


JUDGING = Judging()


class Conductor:
    """Runs one probe. Start it, read `results` at any time, close it. Only `wait` and `close` block."""

    results: Results

    def __init__(
        self,
        nodes: Sequence[NodeLine],
        request: ProbeRequest,
        *,
        judging: Judging = JUDGING,
        baseline: Baseline | None = None,
        clock: SessionClock = SYSTEM,
        ended: Callable[[], None] | None = None,
    ) -> None:
        """Prepare a probe; nothing is connected before `start`.

        Args:
            nodes: The connections to the nodes, in the order of the plan.
            request: The options of the probe.
            judging: How the results are judged.
            baseline: The baseline that the results are compared with; None: none.
            clock: The session's monotonic and wall clocks.
            ended: Called once when all connections are closed.
        """
        self.results = Results(request=request, started=clock.wall())
        self._clock, self._wall = clock.monotonic, clock.wall
        self._pool = NodePool(nodes, clock.monotonic)
        self._run = ProbeRun(self._pool, self.results, clock.monotonic)
        self._judging, self._baseline = judging, baseline
        self._before: Callable[[], None] | None = None
        self._ended = ended
        self._over = threading.Event()
        self._keeps_ranks = False
        self._finished = False
        self._thread = threading.Thread(target=self._conduct, name="probe conductor", daemon=True)

    @property
    def keeps_ranks(self) -> bool:
        """True if the ranks still run, so that `retest` can measure something."""
        return self._keeps_ranks

    def start(self, before: Callable[[], None] | None = None) -> None:
        """Connect and take the inventory; continues to `asking`, or to `refused`. Returns at once.

        Args:
            before: Called in the conductor's thread before anything is connected; it may take a while.
        """
        self._before = before
        self._thread.start()

    def confirm(self) -> None:
        """Start measuring: the user has confirmed."""
        self._pool.ask(Confirmed())

    def cancel(self) -> None:
        """Cancel everything on all nodes within 2 s; the measurements stay. Returns at once."""
        self._pool.cancel()

    def retest(self, pairs: Sequence[tuple[int, int]]) -> None:
        """Measure these pairs again, alone: after the current phase, or while the ranks are kept.

        Returns at once.
        """
        self._pool.ask(RetestAsked(tuple(pairs)))

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait for the end of the probe (not of the ranks that are kept); return False on timeout."""
        return self._over.wait(timeout_s)

    def close(self) -> None:
        """Cancel everything and wait for its end, at most `CLOSE_S` seconds."""
        self._pool.cancel()
        if self._thread.ident is not None:
            self._thread.join(CLOSE_S)

    def _conduct(self) -> None:
        try:
            self._perform()
        except CancelledError:
            self._end("cancelled", "it was cancelled")
        except ProbeRefusedError as error:
            self._end("refused", str(error))
        except FailedError as error:
            self._end("failed", str(error))
        except Exception as error:  # a thread that dies unseen would leave a probe that never ends
            self._end("failed", f"an error in gpuwatch, please report it: {error!r}")
        finally:
            self._pool.close()
            if self._ended is not None:
                self._ended()
            self._over.set()

    def _perform(self) -> None:
        run = self._run
        if self._before is not None:
            self._before()
        preflight(run)
        run.enter("asking")
        self._await_agreement()
        run.began = self._clock()
        run.deadline = run.began + self.results.request.budget_s
        ranks = RankControl(run, reach(run))
        ranks.start()
        self._keeps_ranks = True
        pairs = Pairs(run, ranks, self._judge_so_far)
        self._measure(ranks, pairs)
        self._finish()
        self._idle(pairs)

    def _await_agreement(self) -> None:
        until = self._clock() + ASK_S
        while (item := self._pool.wait_for_user(until)) is not None:
            if isinstance(item, Confirmed):
                return
            if isinstance(item, tuple) and isinstance(item[1], Lost):
                raise FailedError(f"{item[0]} was lost: {item[1].reason}")
        raise ProbeRefusedError(f"it was not confirmed within {ASK_S / 60:.0f} minutes")

    def _measure(self, ranks: RankControl, pairs: Pairs) -> None:
        run = self._run
        count(run)
        if ranks.together:
            CollectiveStage(run, ranks).measure()
            self._judge_so_far()
        if run.plan is not None and run.plan.rounds:
            pairs.measure()
            self._retest_suspects(pairs)
        check_gpus(run, ranks)
        count(run)
        compare(run)
        if run.left_out:
            run.note(f"not measured for lack of time: {listed(run.left_out, MAX_LEFT_OUT)}")

    def _retest_suspects(self, pairs: Pairs) -> None:
        asked = self._links(pair for each in self._pool.asked_retests() for pair in each.pairs)
        done: set[Pair] = set()
        for _ in range(RETEST_ROUNDS):
            suspected = [pair for pair in (*asked, *self._judging.suspects(self.results)) if pair not in done]
            if not suspected:
                return
            self._run.enter("retesting")
            pairs.retest([pair for pair in suspected if pair not in asked])
            pairs.retest(asked, anew=True)
            done.update(suspected)
            asked = []

    def _finish(self) -> None:
        self._finished = True
        self._settle("done", "")
        self._over.set()

    def _idle(self, pairs: Pairs) -> None:
        """Keep the ranks for `IDLE_S` seconds after the last retest that the user requests, then end them."""
        until = self._clock() + IDLE_S
        while (item := self._pool.wait_for_user(until)) is not None:
            if isinstance(item, RetestAsked):
                self._retest_again(pairs, item.pairs)
                until = self._clock() + IDLE_S
            elif isinstance(item, tuple) and isinstance(item[1], Lost | Died | Leaving):
                break
        self._keeps_ranks = False
        self._run.changed()
        self._pool.send(self._pool.present, Stop())
        self._pool.await_end(self._clock() + STOP_S)

    def _retest_again(self, pairs: Pairs, asked: Sequence[Pair]) -> None:
        run = self._run
        self._over.clear()
        run.deadline = self._clock() + RETEST_BUDGET_S
        run.enter("retesting")
        pairs.retest(self._links(asked), anew=True)
        self._finish()

    def _links(self, pairs: Iterable[Pair]) -> list[Pair]:
        """Return the pairs that consist of two different existing ranks, each pair once."""
        return [pair for pair in dict.fromkeys(pairs) if self._run.is_link(pair)]

    def _judge_so_far(self) -> None:
        self.results.verdict = self._judged(self.results)
        self._run.changed()

    def _judged(self, results: Results) -> ProbeVerdict | None:
        try:
            return self._judging.verdict(results, self._baseline)
        except Exception as error:  # the numbers are worth keeping without a verdict
            self._run.note(f"no verdict, by an error in gpuwatch, please report it: {error!r}")
            return None

    def _end(self, phase: Phase, reason: str) -> None:
        self._keeps_ranks = False
        self._pool.close()
        if not self._finished:
            compare(self._run)
            self._settle(phase, reason)
        elif self.results.phase != "done":  # in a retest, long after all was measured
            self._run.note(f"the retest ended early: {reason}")
            self._settle("done", "")

    def _settle(self, phase: Phase, reason: str) -> None:
        """Set the final phase and verdict together, so that no end is seen without its verdict."""
        ended = self._wall()
        last = replace(self.results, phase=phase, reason=reason, ended=ended, testing=(), left_s=None)
        measured = bool(last.pairs or last.collectives or last.gpus)
        verdict = self._judged(last) if measured or phase in {"done", "failed"} else None
        results = self.results
        results.verdict, results.reason, results.ended = verdict, reason, ended
        results.testing, results.left_s = (), None
        results.phase = phase
        self._run.changed()
