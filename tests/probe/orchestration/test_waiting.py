"""How long a step waits for its ranks, on a clock that jumps from word to word."""

from __future__ import annotations

from collections.abc import Iterable

from hypothesis import given
from hypothesis.strategies import DataObject, booleans, data, floats, integers, sampled_from, sets

from gpuwatch.probe.orchestration.nodes.node_line import Received
from gpuwatch.probe.orchestration.nodes.node_pool import NodePool
from gpuwatch.probe.orchestration.stages.ranks import AFTER_DEATH_S, STEP_MARGIN_S, RankControl
from gpuwatch.probe.orchestration.stages.reach import Rendezvous
from gpuwatch.probe.orchestration.stages.run import ProbeRun
from gpuwatch.probe.probe_request import ProbeRequest
from gpuwatch.probe.protocol import AnyOrder, Done, Step
from gpuwatch.probe.results import RankSlot, Results
from tests.sentences import Sentences

TIMEOUT_S = 30.0
MEETING = Rendezvous("gpu-0", "10.0.0.1", 4000, pairs_only=False)


class Words(NodePool):
    """Says at which second what is heard of the ranks."""

    def __init__(self, *message: tuple[float, Done]) -> None:
        super().__init__([])
        self.now = 0.0
        self._message = list(message)

    def send(self, nodes: Iterable[str], order: AnyOrder) -> None:
        assert list(nodes) and order

    def receive(self, until: float) -> tuple[str, Received] | None:
        if not self._message or self._message[0][0] > until:
            self.now = until
            return None
        self.now, done = self._message.pop(0)
        return f"gpu-{done.rank}", done


def ranks_of(words: Words) -> RankControl:
    results = Results(
        request=ProbeRequest(), started=0.0, slots=[RankSlot(rank, f"gpu-{rank}", 0) for rank in range(4)]
    )
    return RankControl(ProbeRun(words, results, lambda: words.now), MEETING)


def done(rank: int, error: str | None = None, absent: Iterable[int] = ()) -> Done:
    return Done(step=1, rank=rank, times_s=[0.1], error=error, absent=list(absent))


COLLECTIVE = Step(id=0, what="collective", collective="all_reduce", timeout_s=TIMEOUT_S)
OUT_OF_MEMORY = "CUDA out of memory. Tried to allocate 2.00 GiB"
TIMED_OUT = "Timed out waiting 30000ms for recv operation to complete"
PAIRS = Step(id=0, what="bandwidth", pairs=[(0, 1), (2, 3)], timeout_s=TIMEOUT_S)


def test_an_error_of_one_pair_does_not_shorten_the_time_of_the_other() -> None:
    words = Words((1.0, done(0, "refused")), (1.0, done(1, "refused")), (25.0, done(2)), (25.0, done(3)))
    outcome = ranks_of(words).step(PAIRS, range(4))
    assert sorted(outcome.done) == [0, 1, 2, 3]
    assert not outcome.missing


def test_the_partner_of_a_rank_that_gave_up_is_not_waited_for_to_the_end_and_not_blamed() -> None:
    words = Words((1.0, done(2)), (1.0, done(3)), (2.0, done(0, "reset by peer")))
    ranks = ranks_of(words)
    outcome = ranks.step(PAIRS, range(4))
    assert (outcome.missing, words.now) == ([1], 2.0 + STEP_MARGIN_S)
    assert not ranks._run.results.gone


def test_a_rank_that_hangs_beside_a_pair_that_failed_is_named(sentences: Sentences) -> None:
    words = Words((1.0, done(0, "refused")), (1.0, done(1, "refused")), (2.0, done(2)))
    ranks = ranks_of(words)
    assert ranks.step(PAIRS, range(4)).missing == [3]
    assert words.now == 2 * TIMEOUT_S + STEP_MARGIN_S
    sentences(ranks._run.results.gone)


def test_a_rank_without_memory_is_blamed_and_not_those_who_wait_for_it() -> None:
    words = Words((1.0, done(2, OUT_OF_MEMORY)))
    ranks = ranks_of(words)
    assert ranks.step(COLLECTIVE, range(4)).missing == [0, 1, 3]
    assert words.now == 1.0 + STEP_MARGIN_S
    assert ranks._run.results.gone == {2: OUT_OF_MEMORY}


def test_an_error_that_a_peer_can_cause_excuses_nobody_early() -> None:
    """Rank 3 has closed its connections and is silent; rank 1 waits its whole time for it."""
    closed = "Connection closed by peer [10.1.0.4]:41287"
    words = Words((1.0, done(0, closed)), (1.0, done(2, closed)), (58.0, done(1, TIMED_OUT)))
    ranks = ranks_of(words)
    assert ranks.step(COLLECTIVE, range(4)).missing == [3]
    assert list(ranks._run.results.gone) == [3]


def test_a_rank_that_all_others_miss_is_named_before_the_end() -> None:
    words = Words(*((TIMEOUT_S, done(rank, "did not come", [2])) for rank in (0, 1, 3)))
    ranks = ranks_of(words)
    assert ranks.step(COLLECTIVE, range(4)).absent == [2]
    assert words.now == TIMEOUT_S + AFTER_DEATH_S
    assert list(ranks._run.results.gone) == [2]


def test_a_late_rank_that_others_miss_speaks_for_itself() -> None:
    missed = [(0.1, done(rank, "did not come", [2])) for rank in (0, 1, 3)]
    ranks = ranks_of(Words(*missed, (20.0, done(2, "did not come", [2]))))
    assert not ranks.step(COLLECTIVE, range(4)).absent
    assert not ranks._run.results.gone


def test_ranks_without_a_part_in_the_step_are_not_absent_from_it() -> None:
    answers = [(1.0, done(rank, "did not come", [1, 3, 77])) for rank in (0, 2)]
    ranks = ranks_of(Words(*answers))
    assert not ranks.step(COLLECTIVE, [0, 2]).absent
    assert not ranks._run.results.gone


@given(data())
def test_one_false_node_gets_no_other_named(draw: DataObject) -> None:
    """Rank 3 answers anything at any time; the others answer within both time limits, or all hang."""
    at = floats(0.0, 2 * TIMEOUT_S)
    lie = done(
        3,
        draw.draw(sampled_from([None, OUT_OF_MEMORY, TIMED_OUT, "did not come"])),
        draw.draw(sets(integers(0, 5))),
    )
    answers = [(draw.draw(at), lie)]
    if draw.draw(booleans()):
        missed = [3] if draw.draw(booleans()) else []
        honest = sampled_from([TIMED_OUT, "Connection closed by peer"])
        answers += [(draw.draw(at), done(rank, draw.draw(honest), missed)) for rank in range(3)]
    ranks = ranks_of(Words(*sorted(answers, key=lambda answer: answer[0])))
    outcome = ranks.step(COLLECTIVE, range(4))
    assert set(ranks._run.results.gone) <= {3}, outcome


def test_a_gpu_check_that_fails_leaves_the_others_their_time() -> None:
    words = Words((1.0, done(0, "no GPU")), *((20.0, done(rank)) for rank in (1, 2, 3)))
    outcome = ranks_of(words).step(Step(id=0, what="matmul", timeout_s=TIMEOUT_S), range(4))
    assert not outcome.missing
