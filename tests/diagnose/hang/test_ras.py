"""The judgement of NCCL RAS reports: which rank the job waits for."""

from __future__ import annotations

import base64
import zlib

import pytest
from msgspec.structs import replace

from gpuwatch.diagnose.hang.combined_verdict import analyze, waiting_for
from gpuwatch.diagnose.hang.ras.json_format import read_json
from gpuwatch.diagnose.hang.ras.model import Ras, RasError
from gpuwatch.diagnose.hang.ras.reader import read_ras
from gpuwatch.diagnose.hang.ras.text_format import read_text
from gpuwatch.diagnose.hang.ras.verdict import judge_ras
from gpuwatch.diagnose.hang.stacks.groups import RankStack
from gpuwatch.diagnose.model.verdict import Verdict
from gpuwatch.wire import RasAnswer
from tests.sentences import Sentences
from tests.servers.ras_server import answer, missing, rank, text


def reported(words: str) -> Ras:
    return read_json(words.encode(), "gpu-001", "localhost:28028")


def stated(words: str) -> Ras:
    return read_text(words, "gpu-001", "localhost:28028")


def seconded(ras: Ras) -> list[Ras]:
    """The answers of the job's first and last node."""
    return [ras, replace(ras, node="gpu-512")]


def test_the_rank_with_the_fewest_launches_is_the_culprit(sentences: Sentences) -> None:
    verdict = judge_ras(seconded(reported(answer([rank(n, 41 if n == 13 else 42) for n in range(512)]))))
    assert (verdict.culprits, verdict.confidence) == ((13,), "high")
    sentences(verdict.sentence)
    assert "511 ranks" in verdict.sentence


def test_dead_ranks_say_more_than_counts_and_silent_ones_more_than_errors(sentences: Sentences) -> None:
    ranks = [rank(n, 41 if n == 3 else 42, async_error=1 if n == 5 else 0) for n in range(14)]
    gone = [missing(14, dead=True), missing(15)]
    verdict = judge_ras(seconded(reported(answer(ranks, gone, timeouts=1))))
    assert verdict.culprits == (14,)
    assert "dead" in verdict.sentence
    sentences(verdict.evidence)
    assert verdict.confidence == "high"
    listed = judge_ras([reported(answer(ranks, gone))], lambda _host, pid: pid and pid - 1000)
    assert (listed.culprits, listed.confidence) == ((14,), "medium"), "its own node lists the process"
    unplaced = judge_ras(seconded(reported(answer(ranks, gone))), running={14})
    assert (unplaced.culprits, unplaced.confidence) == ((14,), "medium"), "its node has just reported it"
    assert judge_ras([reported(answer(ranks, gone[1:]))]).culprits == (15,)
    assert judge_ras([reported(answer(ranks))]).culprits == (5,)


def test_who_met_the_end_of_another_is_not_the_one_that_ended() -> None:
    ranks = [rank(n, 41 if n == 3 else 42, async_error=6 if n == 5 else 0) for n in range(16)]
    assert judge_ras([reported(answer(ranks))]).culprits == (3,)


def test_who_left_or_aborted_is_reported(sentences: Sentences) -> None:
    verdict = judge_ras([reported(answer([rank(n, 7, abort_flag=n == 2) for n in range(8)]))])
    assert verdict.culprits == (2,)
    assert "aborted" in verdict.sentence
    left = judge_ras([reported(answer([rank(n, 7) for n in range(7)], [missing(7, unresponsive=False)]))])
    assert left.culprits == (7,)
    sentences(left.sentence)


def test_equal_counts_blame_nobody() -> None:
    verdict = judge_ras([reported(answer([rank(n, 42) for n in range(64)]))])
    assert not verdict.wrong
    assert "rank behind" in verdict.sentence
    assert any("launches" in each for each in verdict.settle)


@pytest.mark.parametrize(
    "words", ["{}", '{"communicators": []}', '{"communicators": [{"size": 1099511627776, "ranks": []}]}']
)
def test_an_answer_that_counts_no_rank_settles_nothing(words: str) -> None:
    verdict = judge_ras([reported(words)])
    assert not verdict.wrong
    assert "rank behind" not in verdict.sentence
    assert verdict.confidence == judge_ras([]).confidence


def test_a_text_without_a_warning_counts_its_ranks() -> None:
    assert stated(text()).counted == 16
    with pytest.raises(RasError):
        stated(text().replace("16", "1" * 5000))


def test_ranks_of_a_smaller_communicator_are_named_by_their_process() -> None:
    words = answer([rank(n, 7) for n in range(8)])
    small = answer([rank(0, 7), rank(1, 5)])
    both = [reported(words), reported(small)]
    assert judge_ras(both).culprits == ()
    assert "communicator 0xcf264af53edbe986" in judge_ras(both).sentence
    known = {("10.0.0.1", 1001): 5}
    assert judge_ras(both, lambda host, pid: known.get((str(host), int(pid or 0)))).culprits == (5,)


MISMATCH = """#0-0 (cf264af53edbe986) MISMATCH
  Communicator ranks have different AllReduce operation counts
  15 ranks have launched up to operation 6650
  Rank 11 has launched up to operation 6649 -- GPU 3 managed by process 4711 on node 10.0.0.2

"""


def test_the_text_of_older_versions_names_the_one_behind() -> None:
    found = stated(text(warnings=MISMATCH, word="MISMATCH"))
    assert (found.version, found.communicators[0].size) == ("2.24.3", 16)
    verdict = judge_ras(seconded(found))
    assert (verdict.culprits, verdict.confidence) == ((11,), "high")
    assert all(number in verdict.sentence for number in ("6649 ", "15 ", "6650"))
    assert "10.0.0.2 GPU 3 pid 4711" in verdict.sentence


def test_several_behind_stand_under_their_count(sentences: Sentences) -> None:
    several = """#0-0 (cf264af53edbe986) MISMATCH
  Communicator ranks have different AllGather operation counts
  14 ranks have launched up to operation 9
  2 ranks have not launched any operations
  Rank 2 -- GPU 2 managed by process 22 on node 10.0.0.1
  Rank 7 -- GPU 7 (NVML 6) managed by process 27 on node 10.0.0.1

"""
    verdict = judge_ras([stated(text(warnings=several, word="MISMATCH"))])
    assert verdict.culprits == (2, 7)
    sentences(verdict.sentence)


INCOMPLETE = """INCOMPLETE
  Missing communicator data from 1 job process
  Process 3487 on node 10.0.0.2 managing GPU 5

#0-0 (cf264af53edbe986) INCOMPLETE
  Missing communicator data from 1 rank
  Rank 13 -- GPU 5 managed by process 3487 on node 10.0.0.2

"""
DEAD = """DEAD
  1 job process is considered dead (unreachable via the RAS network)
  Process 3487 on node 10.0.0.2 managing GPU 5

"""
TIMEOUT = "TIMEOUT\n  Encountered 2 communication timeouts while gathering communicator data\n\n"


def test_silent_and_dead_ranks_of_the_text(sentences: Sentences) -> None:
    silent = stated(text(INCOMPLETE, TIMEOUT, "INCOMPLETE"))
    assert silent.timeouts == 2
    assert judge_ras([silent]).culprits == (13,)
    sentences(judge_ras([silent]).sentence)
    dead = judge_ras(seconded(stated(text(DEAD + INCOMPLETE.partition("\n\n")[2], TIMEOUT, "INCOMPLETE"))))
    assert (dead.culprits, dead.confidence) == ((13,), "high")
    alone = judge_ras(seconded(stated(text(DEAD))), lambda _host, pid: 13 if pid == 3487 else None)
    assert (alone.culprits, alone.confidence) == ((13,), "high")
    running = judge_ras(seconded(stated(text(DEAD))), lambda _host, _pid: 13, running={13})
    assert (running.culprits, running.confidence) == ((13,), "medium")


def test_errors_and_states_of_the_text() -> None:
    errors = """#0-0 (cf264af53edbe986) ERROR
  Asynchronous error on 1 rank
  Rank 4 reported Remote process error -- GPU 4 managed by process 44 on node 10.0.0.1

"""
    assert judge_ras([stated(text(errors, word="ERROR"))]).culprits == (4,)
    states = """#0-0 (cf264af53edbe986) MISMATCH
  Communicator ranks have different status
  15 ranks have status RUNNING
  Rank 6 has status FINALIZE -- GPU 6 managed by process 46 on node 10.0.0.1

"""
    verdict = judge_ras([stated(text(warnings=states, word="MISMATCH"))])
    assert verdict.culprits == (6,)
    assert "finalizing" in verdict.sentence


def test_what_cannot_be_read_says_why() -> None:
    packed = base64.b64encode(zlib.compress(b'{"communicators": 7}')).decode()
    with pytest.raises(RasError, match="not the JSON of NCCL RAS"):
        read_ras(RasAnswer(address="a", packed=packed, format="json"), "n")
    with pytest.raises(RasError, match="damaged"):
        read_ras(RasAnswer(address="a", packed="!", format="json"), "n")
    with pytest.raises(RasError, match="not an answer of NCCL RAS"):
        stated("220 mail.example.org ESMTP\n")
    with pytest.raises(RasError, match="refused"):
        read_ras(RasAnswer(address="a", error="connection refused"), "n")
    bomb = base64.b64encode(zlib.compress(b" " * (65 << 20))).decode()
    with pytest.raises(RasError, match="more than"):
        read_ras(RasAnswer(address="a", packed=bomb), "n")


def test_words_of_ras_cannot_steer_the_terminal() -> None:
    evil = MISMATCH.replace("10.0.0.2", "10.0.0.2\x1b[2J")
    assert "\x1b" not in judge_ras([stated(text(warnings=evil))]).sentence
    ranks = [{**rank(n, 41 if n == 1 else 42), "host": "a\x1b[2J"} for n in range(4)]
    assert "\x1b" not in judge_ras([reported(answer(ranks))]).sentence


@pytest.mark.parametrize("words", [answer([rank(n, 7) for n in range(8)], [missing(8, dead=True)]), None])
def test_one_node_names_no_process_of_another_node_with_high_confidence(words: str | None) -> None:
    """A node that lies answers for RAS, too."""
    ras = stated(text(DEAD)) if words is None else reported(words)
    elsewhere = {"10.0.0.2": "gpu-002"}
    assert judge_ras([ras], names=elsewhere).confidence == "medium"
    assert judge_ras([ras, ras], names=elsewhere).confidence == "medium"
    assert judge_ras(seconded(ras), names=elsewhere).confidence == "high"
    assert judge_ras([ras], names={"10.0.0.2": "gpu-001"}).confidence == "high"


def test_the_answer_about_one_job_says_nothing_about_another() -> None:
    """A job user answers for a job of their own at the address that all jobs use."""
    stacks = [RankStack(n, "gpu-001", 1000 + n, job) for job in ("41", "99") for n in range(4)]
    ras = reported(answer([rank(n, 7) for n in range(3)], [missing(3, dead=True)]))
    found = analyze(stacks, [replace(ras, jobs=frozenset({"99"}))], {}, lambda _host, _pid: None)
    assert found.named_ranks == ("99", (3,))
    one = Verdict("stacks", wrong=True, sentence="", culprits=(3,), confidence="medium", job="41")
    other = replace(one, source="ras", job="99")
    for job, level in (("99", "medium"), ("41", "high"), (None, "high")):
        combined = waiting_for([one, replace(other, job=job)])
        assert combined is not None
        assert combined.confidence == level
