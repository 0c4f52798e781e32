"""Stacks of all ranks merged: the one that is somewhere else."""

from __future__ import annotations

import pytest
from msgspec import structs
from msgspec.structs import replace

from gpuwatch.diagnose.hang.combined_verdict import analyze, waiting_for
from gpuwatch.diagnose.hang.stacks.compare import judge_stacks
from gpuwatch.diagnose.hang.stacks.groups import RankStack
from gpuwatch.diagnose.model.verdict import Confidence, EvidenceSource, Verdict
from gpuwatch.wire import KernelThread, ProcessStack
from tests.counted_calls import calls_of
from tests.diagnose.hang.rank_stacks import LOADS, MINE, TORCH, WAITS, kernel_thread, python
from tests.sentences import Sentences


def kernel(rank: int, thread: KernelThread) -> RankStack:
    stack = ProcessStack(
        pid=1000 + rank, cpu_pct=thread.cpu_pct, threads=[thread], why="py-spy is not installed"
    )
    return RankStack(rank, f"gpu-{rank // 8:03}", 1000 + rank, "4711", rank % 8, None, stack)


def test_the_minority_is_named_with_its_line_and_comes_first(sentences: Sentences) -> None:
    (job,) = judge_stacks([python(rank, LOADS if rank == 137 else WAITS) for rank in range(512)])
    assert [len(spot.ranks) for spot in job.spots] == [1, 511]
    stated = job.verdict
    assert (stated.culprits, stated.confidence) == ((137,), "high")
    sentences(stated.sentence)


def test_ranks_at_other_lines_inside_of_torch_are_together(sentences: Sentences) -> None:
    other = (("_work_wait", TORCH, 99), *WAITS)
    (job,) = judge_stacks([python(rank, other if rank % 2 else WAITS) for rank in range(8)])
    assert len(job.spots) == 1
    assert not job.verdict.wrong
    sentences(job.verdict.sentence)


def test_halves_at_two_places_blame_nobody() -> None:
    (job,) = judge_stacks([python(rank, LOADS if rank < 4 else WAITS) for rank in range(8)])
    assert not job.verdict.wrong
    assert "no majority" in job.verdict.sentence


def test_of_two_ranks_the_one_that_the_other_waits_for_is_named(sentences: Sentences) -> None:
    (job,) = judge_stacks([python(0, WAITS), python(1, LOADS)])
    stated = job.verdict
    assert (stated.wrong, stated.culprits, stated.confidence) == (True, (1,), "medium")
    sentences(stated.sentence)
    (job,) = judge_stacks([python(0, LOADS), python(1, (("forward", MINE, 12), *LOADS))])
    assert not job.verdict.wrong


def test_a_deadlock_names_those_that_wait_for_one_another_and_what_they_call(sentences: Sentences) -> None:
    receives = (("recv", TORCH, 2799), ("exchange", MINE, 22), ("main", MINE, 41))
    (job,) = judge_stacks([python(rank, receives if rank in (1, 2) else WAITS) for rank in range(4)])
    stated = job.verdict
    assert (stated.wrong, stated.culprits, stated.confidence) == (True, (1, 2), "medium")
    sentences(stated.sentence)
    sentences(stated.settle[0])


def test_a_pipeline_in_which_one_rank_computes_is_no_deadlock(sentences: Sentences) -> None:
    receives = (("recv", TORCH, 2799), ("forward", MINE, 22), ("main", MINE, 41))
    places = {0: LOADS, 1: receives, 2: receives, 3: WAITS, 4: WAITS, 5: WAITS}
    (job,) = judge_stacks([python(rank, place) for rank, place in places.items()])
    assert job.verdict.culprits != (1, 2)
    sentences(job.verdict.sentence)


def at(rank: int, frames: tuple[tuple[str, str, int], ...], below: KernelThread) -> RankStack:
    """A rank with frames, and what the kernel says of its main thread."""
    whole = python(rank, frames)
    assert whole.stack is not None
    return replace(whole, stack=structs.replace(whole.stack, threads=[below], cpu_pct=below.cpu_pct))


STDLIB = "/usr/lib/python3.11/"
SITE = "/opt/venv/lib/python3.11/site-packages/"
OPENS = (("load_shard", MINE, 25), ("main", MINE, 39))


@pytest.mark.parametrize(
    "frames",
    [
        (
            ("_PollLikeSelector.select", f"{STDLIB}selectors.py", 415),
            ("wait", f"{STDLIB}multiprocessing/connection.py", 947),
            ("_BaseDataLoaderIter.__next__", f"{SITE}torch/utils/data/dataloader.py", 725),
        ),
        (("Cmd.cmdloop", f"{STDLIB}cmd.py", 126), ("Bdb.trace_dispatch", f"{STDLIB}bdb.py", 94)),
        (("Popen._try_wait", f"{STDLIB}subprocess.py", 2004), ("run", f"{STDLIB}subprocess.py", 550)),
    ],
    ids=["data loader", "breakpoint", "started program"],
)
def test_waits_for_other_things_than_ranks_are_described(
    frames: tuple[tuple[str, str, int], ...], sentences: Sentences
) -> None:
    ranks = [python(rank, (*frames, ("main", MINE, 39)) if rank == 2 else WAITS) for rank in range(4)]
    (job,) = judge_stacks(ranks)
    assert (job.verdict.culprits, job.verdict.confidence) == ((2,), "high")
    sentences(job.verdict.sentence)


def test_a_stopped_rank_is_stopped_wherever_it_is(sentences: Sentences) -> None:
    """Also where it was stopped in the very call in which the others wait for it."""
    stopped = at(2, WAITS, kernel_thread(None, "T"))
    (job,) = judge_stacks([stopped, *(python(rank, WAITS) for rank in (0, 1, 3))])
    assert (job.verdict.culprits, job.verdict.confidence) == ((2,), "high")
    sentences(job.verdict.sentence)


def test_of_two_ranks_the_stopped_one_is_named() -> None:
    ranks = [at(1, (("train", MINE, 7),), kernel_thread(None, "T")), at(0, LOADS, kernel_thread("poll"))]
    (job,) = judge_stacks([structs.replace(each, world=8) for each in ranks])
    assert (job.verdict.wrong, job.verdict.culprits) == (True, (1,))


@pytest.mark.parametrize(("call", "culprits"), [("clock_nanosleep", (1,)), ("recvfrom", ())])
def test_the_only_rank_that_waits_on_no_socket_is_named_cautiously(
    call: str, culprits: tuple[int, ...]
) -> None:
    """Ranks that exchange data over their own sockets stand at lines of their own."""
    ranks = [at(rank, (("receive", MINE, rank),), kernel_thread("recvfrom")) for rank in (0, 2, 3)]
    (job,) = judge_stacks([*ranks, at(1, (("read_shard", MINE, 99),), kernel_thread(call))])
    assert job.verdict.culprits == culprits
    assert job.verdict.confidence == "low"


def test_the_worker_that_is_stuck_is_reported_with_its_rank(sentences: Sentences) -> None:
    rank = at(2, LOADS, kernel_thread("poll"))
    assert rank.stack is not None
    worker = KernelThread(tid=4711, name="pt_data_worker", state="D", wchan="nfs_wait_bit_killable")
    rank = replace(rank, stack=structs.replace(rank.stack, children=[worker]))
    (job,) = judge_stacks([rank, *(python(each, WAITS) for each in (0, 1, 3))])
    sentences(job.verdict.evidence[2])


def test_the_system_call_is_reported_where_the_frames_end_before_it() -> None:
    rank = at(2, OPENS, kernel_thread("flock"))
    (job,) = judge_stacks([rank, *(python(rank, WAITS) for rank in (0, 1, 3))])
    assert "1 of 4 in load_shard (train.py:25), 0 % CPU, waiting (flock)" in job.verdict.evidence[0]


def test_all_but_one_wait_each_in_its_own_call(sentences: Sentences) -> None:
    """A pipeline: one stage sends, two receive, and one does neither."""
    sends = (("send", TORCH, 2753), ("forward", MINE, 23), ("main", MINE, 41))
    receives = (("recv", TORCH, 2799), ("forward", MINE, 22), ("main", MINE, 41))
    places = {0: sends, 1: LOADS, 2: receives, 3: receives}
    (job,) = judge_stacks([python(rank, place) for rank, place in places.items()])
    stated = job.verdict
    assert (stated.wrong, stated.culprits, stated.confidence) == (True, (1,), "medium")
    sentences(stated.sentence)


def test_who_waits_alone_in_the_same_call_may_wait_in_another_group(sentences: Sentences) -> None:
    own = (("all_reduce", TORCH, 2700), ("reduce_pair", MINE, 15), ("main", MINE, 38))
    (job,) = judge_stacks([python(rank, own if rank == 0 else WAITS) for rank in range(4)])
    assert (job.verdict.culprits, job.verdict.confidence) == ((0,), "low")
    sentences(job.verdict.settle[0])


def test_ranks_that_all_wait_in_different_calls_hang_and_nobody_is_blamed(sentences: Sentences) -> None:
    pair = (("all_reduce", TORCH, 2700), ("reduce_pair", MINE, 15), ("main", MINE, 38))
    late = (("broadcast", TORCH, 2600), ("main", MINE, 44))
    places = {0: WAITS, 1: WAITS, 2: pair, 3: late}
    (job,) = judge_stacks([python(rank, place) for rank, place in places.items()])
    stated = job.verdict
    assert (stated.wrong, stated.culprits, stated.confidence) == (True, (), "low")
    sentences(stated.sentence)
    moving = [at(rank, place, kernel_thread("futex", cpu=60.0)) for rank, place in places.items()]
    assert not judge_stacks(moving)[0].verdict.wrong, "their data is on its way"


def test_a_wait_that_python_does_not_show_is_seen_by_the_kernel() -> None:
    """`work.wait()` and `loss.item()` are no Python: the frame is the program's own line."""
    in_c = (("train_step", MINE, 12), ("main", MINE, 40))
    asleep = at(2, LOADS, kernel_thread("clock_nanosleep"))
    (job,) = judge_stacks([asleep, *(python(rank, in_c) for rank in (0, 1, 3))])
    assert (job.verdict.culprits, job.verdict.confidence) == ((2,), "medium")


def test_before_the_first_collective_they_wait_where_they_meet(sentences: Sentences) -> None:
    meet = (
        ("_new_process_group_helper", TORCH, 2169),
        ("init_process_group", TORCH, 1899),
        ("main", MINE, 9),
    )
    (job,) = judge_stacks([python(rank, LOADS if rank == 2 else meet) for rank in range(4)])
    assert job.verdict.confidence == "high"
    sentences(job.verdict.sentence)


@pytest.mark.parametrize(
    ("odd", "words"),
    [
        (kernel_thread("clock_nanosleep"), "asleep (clock_nanosleep)"),
        (
            kernel_thread(None, "D", wchan="nfs_wait_bit_killable"),
            "stuck in the kernel in nfs_wait_bit_killable",
        ),
        (kernel_thread("read"), "waiting (read)"),
        (kernel_thread(None, "Z"), "dead"),
        (kernel_thread(None, "T"), "stopped"),
    ],
)
@pytest.mark.parametrize("usual", [kernel_thread("futex"), kernel_thread(None, "R", 99.0)])
def test_without_python_stacks_the_kernel_tells(odd: KernelThread, words: str, usual: KernelThread) -> None:
    (job,) = judge_stacks([kernel(rank, odd if rank == 2 else usual) for rank in range(8)])
    assert (job.by, job.verdict.culprits, job.verdict.confidence) == ("kernel", (2,), "medium")
    assert words in job.verdict.sentence
    assert any("py-spy" in each for each in job.verdict.settle)


def test_only_the_kernels_function_may_be_readable(sentences: Sentences) -> None:
    usual, odd = kernel_thread(None, wchan="futex_do_wait"), kernel_thread(None, wchan="hrtimer_nanosleep")
    (job,) = judge_stacks([kernel(rank, odd if rank == 0 else usual) for rank in range(4)])
    assert job.verdict.culprits == (0,)
    blind = kernel_thread(None)
    (job,) = judge_stacks([kernel(rank, blind) for rank in range(4)])
    assert not job.verdict.wrong
    sentences(job.verdict.sentence)


def test_one_without_python_stacks_is_compared_by_what_all_have() -> None:
    stuck = kernel(3, kernel_thread(None, "D", wchan="nv_ioctl"))
    (job,) = judge_stacks([*(python(rank, WAITS) for rank in range(3)), stuck])
    assert job.by == "kernel"
    assert job.verdict.culprits == (3,)
    assert job.spots[-1].frames[0].startswith("all_reduce")


def test_ranks_that_do_not_answer_are_reported_and_lower_the_confidence() -> None:
    ranks = [python(rank, LOADS if rank == 1 else WAITS) for rank in range(7)]
    unseen = RankStack(7, "gpu-000", 1007, "4711", 7, None, None, "silent")
    (job,) = judge_stacks([*ranks, unseen])
    assert job.unseen == (unseen,)
    assert (job.verdict.culprits, job.verdict.confidence) == ((1,), "low")
    assert any("rank 7" in each and "silent" in each for each in job.verdict.evidence)


def test_ranks_that_run_nowhere_are_those_that_the_others_wait_for(sentences: Sentences) -> None:
    (job,) = judge_stacks([python(rank, WAITS, world=64) for rank in range(64) if rank // 8 != 2])
    assert job.absent == tuple(range(16, 24))
    assert (job.verdict.culprits, job.verdict.confidence) == (job.absent, "medium")
    sentences(job.verdict.sentence)
    (busy,) = judge_stacks([python(rank, LOADS, world=64) for rank in range(63)])
    assert not busy.verdict.wrong


def test_ranks_that_run_nowhere_are_likelier_than_a_rank_in_another_wait() -> None:
    """The rank that keeps the store waits in its socket, the others wait for an answer of it."""
    calls = ["poll", "futex", "futex", "futex"]
    stacks = [replace(kernel(rank, kernel_thread(call)), world=5) for rank, call in enumerate(calls)]
    (job,) = judge_stacks(stacks)
    assert (job.verdict.culprits, job.verdict.confidence) == ((4,), "low")
    asleep = replace(kernel(0, kernel_thread("clock_nanosleep")), world=5)
    (job,) = judge_stacks([asleep, *stacks[1:]])
    assert (job.verdict.culprits, job.verdict.confidence) == ((0,), "medium")


def test_jobs_are_judged_apart() -> None:
    other = RankStack(0, "gpu-009", 9, "other", None, None, python(0, LOADS).stack)
    jobs = judge_stacks([other, *(python(rank, WAITS) for rank in range(4))])
    assert [(job.job, len(job.spots)) for job in jobs] == [("4711", 1), ("other", 1)]


def test_of_several_jobs_the_sentence_names_the_one_that_hangs() -> None:
    well = [replace(python(rank, WAITS), job="4712") for rank in range(8)]
    hung = [python(rank, LOADS if rank == 1 else WAITS) for rank in range(4)]
    hang_report = analyze([*well, *hung], [], {}, lambda _host, _pid: None)
    assert hang_report.verdict is not None
    assert hang_report.verdict.sentence.startswith("job 4711: rank 1 (gpu-000 GPU 1) is in data_loader_next")
    assert hang_report.named_ranks == ("4711", (1,))


def test_a_thousand_ranks_cost_little() -> None:
    stacks = [python(rank, LOADS if rank == 500 else WAITS) for rank in range(1000)]
    few = stacks[450:550]
    assert [judge_stacks(each)[0].verdict.culprits for each in (few, stacks)] == [(500,)] * 2
    assert calls_of(lambda: judge_stacks(stacks)) < 15 * calls_of(lambda: judge_stacks(few))


def stated(
    source: EvidenceSource,
    culprits: tuple[int, ...],
    confidence: Confidence,
    *,
    wrong: bool = True,
) -> Verdict:
    sentence = f"by {source}"
    return Verdict(source, wrong, sentence, culprits, confidence, ("proof",), ("doubt",))


def test_sources_that_agree_raise_the_confidence(sentences: Sentences) -> None:
    both = waiting_for([stated("stacks", (2,), "medium"), stated("ras", (2,), "medium")])
    assert both is not None
    assert (both.culprits, both.confidence) == ((2,), "high")
    sentences(both.evidence)


def test_sources_that_contradict_each_other_lower_the_confidence() -> None:
    both = waiting_for([stated("stacks", (2,), "medium"), stated("flight", (5,), "high")])
    assert both is not None
    assert (both.culprits, both.confidence) == ((5,), "medium")
    assert "rank 2 instead" in both.settle[0]


def test_one_who_saw_nothing_does_not_contradict() -> None:
    both = waiting_for([stated("stacks", (), "low", wrong=False), stated("ras", (4,), "high")])
    assert both is not None
    assert (both.culprits, both.confidence) == ((4,), "high")
    assert any("by stacks" in each for each in both.evidence)
    assert waiting_for([]) is None


def test_without_ranks_there_is_no_verdict() -> None:
    assert analyze([], [], {}, lambda _host, _pid: None).verdict is None
