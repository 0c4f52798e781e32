"""What dumps of a running job are worth: their age, and what the job did since."""

from __future__ import annotations

import pytest

from gpuwatch.diagnose.hang.combined_verdict import waiting_for
from gpuwatch.diagnose.hang.flight_recorder.job_dumps import (
    DumpRead,
    FlightEvidence,
    JobDumps,
    outlived,
    reasons_text,
)
from gpuwatch.diagnose.model.verdict import Verdict
from tests.sentences import Sentences

WRITTEN = 1_790_000_000.0
SAID = Verdict("flight", wrong=True, sentence="rank 2 never came", culprits=(2,), confidence="high")


def received() -> FlightEvidence:
    read = tuple(DumpRead(rank, "a", f"/d/{rank}", 10, WRITTEN) for rank in range(4))
    return FlightEvidence((JobDumps("J", 4, read, {}, verdict=SAID),))


@pytest.mark.parametrize("stepped", [{}, {"J": WRITTEN - 60}, {"other": WRITTEN + 60}])
def test_dumps_from_after_the_last_step_stand(stepped: dict[str | None, float]) -> None:
    assert outlived(received(), stepped).verdict == SAID


def test_dumps_from_before_the_last_step_are_hardly_believed(sentences: Sentences) -> None:
    stated = outlived(received(), {"J": WRITTEN + 60}).verdict
    assert stated is not None
    assert stated.confidence == "low"
    sentences(stated.evidence[0])
    assert len(stated.settle) == 1


def test_a_doubtful_source_does_not_raise_the_confidence() -> None:
    stacks = Verdict("stacks", wrong=True, sentence="rank 2 sleeps", culprits=(2,), confidence="medium")
    doubtful = outlived(received(), {"J": WRITTEN + 60}).verdict
    assert doubtful is not None
    verdict = waiting_for([stacks, doubtful])
    assert verdict is not None
    assert (verdict.sentence, verdict.confidence) == ("rank 2 sleeps", "medium")
    surer = waiting_for([stacks, SAID])
    assert surer is not None
    assert surer.confidence == "high"


def test_equal_reasons_are_reported_once(sentences: Sentences) -> None:
    reported = reasons_text({0: "none is there", 1: "none is there", 5: "b: no answer in 20 s"})
    sentences(reported)
