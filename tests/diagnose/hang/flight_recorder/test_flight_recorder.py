"""Dumps of a flight recorder judged: whom the job waited for."""

from __future__ import annotations

import pickle

import pytest

from gpuwatch.diagnose.hang.flight_recorder.verdict import judge_flight
from gpuwatch.runs.flight.dumps import read_dump
from gpuwatch.runs.flight.rank_dump import RankDump
from tests.counted_calls import calls_of
from tests.diagnose.dumps import BEGAN_S, content, dump, entry, job, steps
from tests.sentences import Sentences


def test_the_one_that_never_came_is_named_among_512(sentences: Sentences) -> None:
    analysis = judge_flight(job(512, {137: steps(41, "completed")}, steps(42)))
    stated = analysis.verdict
    assert (stated.culprits, stated.confidence) == ((137,), "high")
    sentences(stated.sentence)
    assert any("gpuwatch stacks" in each for each in stated.settle)


def test_who_called_something_else_is_outvoted_whatever_its_rank(sentences: Sentences) -> None:
    odd = [*steps(6, "completed"), entry(7, "broadcast", state="started")]
    for rank in (0, 3):  # a comparison with the first rank would blame the others in one of the cases
        stated = judge_flight(job(8, {rank: odd}, steps(7))).verdict
        assert (stated.culprits, stated.confidence) == ((rank,), "high")
        sentences(stated.sentence)


@pytest.mark.parametrize(("change", "word"), [({"size": 999}, "[999]"), ({"dtype": "Half"}, "Half")])
def test_another_size_or_type_is_reported_with_both(change: dict[str, object], word: str) -> None:
    odd = [*steps(6, "completed"), entry(7, state="started", **change)]  # type: ignore[arg-type]
    stated = judge_flight(job(8, {5: odd}, steps(7))).verdict
    assert stated.culprits == (5,)
    assert word in stated.sentence
    assert "all_reduce of [1024] Float" in stated.sentence


def test_half_against_half_blames_nobody(sentences: Sentences) -> None:
    odd = [*steps(6, "completed"), entry(7, "broadcast", state="started")]
    stated = judge_flight(job(4, {0: odd, 1: odd}, steps(7))).verdict
    assert stated.wrong
    assert (stated.culprits, stated.confidence) == ((), "low")
    sentences(stated.sentence)


def test_shapes_with_equal_elements_are_equal_and_shares_may_differ(sentences: Sentences) -> None:
    flat = [
        *steps(6, "completed"),
        entry(7, state="completed", input_sizes=[[32, 32]], output_sizes=[[32, 32]]),
    ]
    assert not judge_flight(job(4, {1: flat}, steps(7, "completed"))).verdict.wrong
    uneven = [entry(1, "all_to_all", state="started", input_sizes=[[10]], output_sizes=[[30]])]
    other = [entry(1, "all_to_all", state="started", input_sizes=[[30]], output_sizes=[[10]])]
    stated = judge_flight(job(2, {0: uneven, 1: other}, [])).verdict
    assert (stated.wrong, stated.culprits) == (True, ())
    sentences(stated.sentence)
    short = [entry(1, "all_to_all", state="started", input_sizes=[[30]], output_sizes=[[9]])]
    sentences(judge_flight(job(2, {0: uneven, 1: short}, [])).verdict.sentence)


def test_all_in_one_collective_that_does_not_end_is_no_ranks_fault(sentences: Sentences) -> None:
    stated = judge_flight(job(16, {}, steps(9))).verdict
    assert stated.wrong
    assert stated.culprits == ()
    sentences(stated.sentence)
    assert any("probe" in each for each in stated.settle)


def test_a_gpu_that_has_not_begun_what_the_others_are_in_is_named(sentences: Sentences) -> None:
    stated = judge_flight(job(16, {4: steps(9, "scheduled")}, steps(9))).verdict
    assert stated.culprits == (4,)
    sentences(stated.sentence)


def test_who_runs_ahead_does_not_hide_the_collective_in_which_all_are() -> None:
    ahead = [*steps(9), *(entry(seq, state="scheduled") for seq in range(10, 30))]
    stated = judge_flight(job(8, {0: ahead}, steps(9))).verdict
    assert stated.culprits == ()
    assert "all_reduce #9" in stated.sentence


def test_finished_jobs_are_well() -> None:
    analysis = judge_flight(job(64, {}, steps(50, "completed")))
    assert not analysis.verdict.wrong
    assert analysis.problems == ()
    assert "64 dumps agree" in analysis.verdict.sentence


def test_dumps_without_an_entry_are_no_sign_of_health(sentences: Sentences) -> None:
    stated = judge_flight([dump(rank, [], {"0": range(4)}) for rank in range(4)]).verdict
    sentences(stated.sentence)
    assert "TORCH_FR_BUFFER_SIZE" in stated.settle[0]
    sentences(judge_flight(job(1, {}, steps(5, "completed"))).verdict.sentence)


def test_a_missing_dump_is_the_suspect_only_where_the_others_hang(sentences: Sentences) -> None:
    stated = judge_flight(job(8, {}, steps(5), gone=[6])).verdict
    assert (stated.culprits, stated.confidence) == ((6,), "medium")
    sentences(stated.sentence)
    assert not judge_flight(job(8, {}, steps(5, "completed"), gone=[6])).verdict.wrong


def test_a_missing_dump_lowers_the_confidence_in_who_is_missing() -> None:
    stated = judge_flight(job(8, {2: steps(4, "completed")}, steps(5), gone=[6])).verdict
    assert stated.culprits == (2,)
    assert stated.confidence != "high"
    assert any("rank 6" in each for each in stated.evidence)


def test_entries_that_were_overwritten_are_not_missing() -> None:
    def ring(first: int, last: int) -> list[dict[str, object]]:
        return [entry(seq, state="completed" if seq < last else "started") for seq in range(first, last + 1)]

    dumps = [dump(rank, ring(1 + 10 * rank, 100), {"0": range(4)}) for rank in range(4)]
    stated = judge_flight(dumps).verdict
    assert stated.culprits == ()
    assert "all_reduce #100" in stated.sentence


def two_groups(rank: int, own: dict[str, tuple[int, str]]) -> RankDump:
    """Ranks 0 and 1 are tp group 1, ranks 2 and 3 group 2; group 0 is all of them."""
    mine = "1" if rank < 2 else "2"
    entries = [
        {**each, "time_created_ns": int((BEGAN_S + 100 * int(group) + each["collective_seq_id"]) * 1e9)}
        for group, (last, state) in own.items()
        for each in steps(last, state, group=group)
    ]
    for number, each in enumerate(entries):
        each["record_id"] = number
    return dump(rank, entries, {"0": range(4), mine: [0, 1] if mine == "1" else [2, 3]})


def test_the_cause_is_the_group_at_the_end_of_the_chain(sentences: Sentences) -> None:
    """Ranks 0 and 1 wait for 2 in the group of all; 2 waits for 3 in its own group; 3 is the cause."""
    dumps = [
        two_groups(0, {"1": (3, "completed"), "0": (8, "started")}),
        two_groups(1, {"1": (3, "completed"), "0": (8, "started")}),
        two_groups(2, {"0": (7, "completed"), "2": (4, "started")}),
        two_groups(3, {"0": (7, "completed"), "2": (3, "completed")}),
    ]
    analysis = judge_flight(dumps)
    assert analysis.verdict.culprits == (3,)
    sentences(analysis.verdict.evidence)


def test_two_groups_that_wait_for_each_other_are_a_deadlock() -> None:
    dumps = [
        two_groups(0, {"1": (4, "started"), "0": (7, "completed")}),
        two_groups(1, {"1": (3, "completed"), "0": (8, "started")}),
        two_groups(2, {"2": (3, "completed"), "0": (8, "started")}),
        two_groups(3, {"2": (3, "completed"), "0": (8, "started")}),
    ]
    stated = judge_flight(dumps).verdict
    assert stated.sentence.startswith("deadlock: ")
    assert stated.culprits == (0, 1)


def pair(rank: int, *halves: str, batch: str | None = None) -> RankDump:
    entries = [
        entry(5, half, state="scheduled" if batch else "started", p2p=n) for n, half in enumerate(halves, 1)
    ]
    if batch is not None:
        entries = [{**each, "p2p_seq_id": 1} for each in entries]
        entries.append(entry(5, "coalesced", state=batch, p2p=1))
    done = [entry(seq, state="completed") for seq in range(1, 6)]
    return dump(rank, [*done, *entries], {"0": range(3)})


def test_a_send_without_its_receive_names_the_silent_side() -> None:
    stated = judge_flight([pair(0, "send 0->1"), pair(1), pair(2)]).verdict
    assert stated.culprits == (1,)
    assert "rank 0 waits" in stated.sentence
    assert "send 0->1" in stated.sentence


def test_chains_of_a_pipeline_lead_to_its_end() -> None:
    stated = judge_flight([pair(0, "recv 0<-1"), pair(1, "recv 1<-2"), pair(2)]).verdict
    assert stated.culprits == (2,)


def test_batches_end_together() -> None:
    matched = [pair(0, "send 0->1", batch="completed"), pair(1, "recv 1<-0", batch="completed"), pair(2)]
    assert not judge_flight(matched).verdict.wrong
    waits = [pair(0, "send 0->1", batch="started"), pair(1), pair(2)]
    assert judge_flight(waits).verdict.culprits == (1,)


@pytest.mark.parametrize("backend", ["nccl", "nccl2", "xccl", "rccl", "ncclx"])
def test_any_backends_names_are_understood(backend: str) -> None:
    usual = steps(7, backend=backend)
    analysis = judge_flight(job(4, {3: steps(6, "completed", backend=backend)}, usual))
    assert analysis.verdict.culprits == (3,)
    assert "all_reduce #7" in analysis.verdict.sentence


def test_a_verdict_does_not_cost_more_for_longer_histories() -> None:
    short = job(1000, {500: steps(39, "completed")}, steps(40))
    long = job(1000, {500: steps(1999, "completed")}, steps(2000))
    assert judge_flight(short).verdict.culprits == judge_flight(long).verdict.culprits == (500,)
    assert calls_of(lambda: judge_flight(long)) < 2 * calls_of(lambda: judge_flight(short))


def test_a_dump_that_could_not_be_read_does_not_accuse_its_rank(sentences: Sentences) -> None:
    dumps = job(8, {}, steps(7), gone=(3, 5))
    assert judge_flight(dumps).verdict.culprits == (3, 5)
    one = judge_flight(dumps, unread={3}).verdict
    assert (one.culprits, one.confidence) == ((5,), "low")
    sentences(one.evidence)
    none = judge_flight(dumps, unread={3, 5}).verdict
    assert (none.wrong, none.culprits, none.confidence) == (True, (), "low")
    sentences((none.sentence, *none.evidence, *none.settle))


def test_beside_a_culprit_the_unread_are_reported_as_what_they_are(sentences: Sentences) -> None:
    stated = judge_flight(job(8, {2: steps(6, "completed")}, steps(7), gone=(5,)), unread={5}).verdict
    assert stated.culprits == (2,)
    sentences(stated.evidence)


def test_gloo_which_tells_no_states_blames_nobody_for_an_unread_dump() -> None:
    entries = [entry(seq, state="scheduled", backend="gloo") for seq in range(1, 5)]
    held = pickle.dumps(content(entries, {}), 2)
    dumps = [read_dump(held, rank, "x") for rank in (0, 1, 3)]
    assert judge_flight(dumps, 4).verdict.culprits == (2,)
    stated = judge_flight(dumps, 4, unread={2}).verdict
    assert (stated.wrong, stated.culprits) == (False, ())
