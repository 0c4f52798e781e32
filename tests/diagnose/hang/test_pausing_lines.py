"""A rank that announced a pause in its last line: it is no hang yet, and it comes back."""

from __future__ import annotations

import pytest

from gpuwatch.diagnose.hang.pausing_lines import pausing_by_lines, pausing_line, with_pause
from gpuwatch.diagnose.model.verdict import Verdict

STEP = "2024-05-01 10:00:00 step 100/1000 loss 2.5"
SAID = "evaluating on rank 0"
NAMED = Verdict(
    "stacks",
    wrong=True,
    sentence="rank 0 (n3) is in main (train.py:84), while the other one is in all_reduce",
    culprits=(0,),
    confidence="medium",
)


@pytest.mark.parametrize(
    "lines",
    [
        [STEP, "evaluating on rank 0"],
        [STEP, "Saving checkpoint to /ckpt/step_100"],
        [STEP, "***** Running Evaluation *****", "  Num examples = 1000", "  Batch size = 8"],
        [STEP, "Running tokenizer on dataset (num_proc=4):  45%|####     | 450/1000"],
        [STEP, "Evaluating:  45%|####     | 450/1000 [00:10<00:12]"],
        [STEP, "[rank0]: Starting evaluation at step 100"],
        [STEP, "Writing model checkpoint (shard 3 of 8)"],
    ],
)
def test_an_announced_pause_is_the_last_line_that_counts(lines: list[str]) -> None:
    assert pausing_line(lines) is not None


@pytest.mark.parametrize(
    "lines",
    [
        [STEP],
        ["evaluating on rank 0", "evaluation done", STEP],
        ["Saving checkpoint to /ckpt", "Saved checkpoint step 100"],
        ["Evaluating: 100%|#########| 1000/1000"],
        [STEP, "fetching shard 17"],
        [f"{STEP} eval_loss 1.2"],
        ["Saving checkpoint", STEP],
    ],
)
def test_a_pause_that_is_over_or_was_not_announced_is_none(lines: list[str]) -> None:
    assert pausing_line(lines) is None


def test_a_line_of_a_shared_file_is_of_the_rank_that_it_names() -> None:
    files = [((0, 1), [STEP, "[rank1]: evaluating"]), ((2,), [STEP, "saving the model"]), ((3,), [STEP])]
    assert set(pausing_by_lines(files)) == {1, 2}
    assert set(pausing_by_lines([((0, 1), [STEP, "Saving checkpoint"])])) == {0, 1}


def test_a_pausing_culprit_is_described_by_what_it_does_with_low_confidence() -> None:
    for doing, writing in (({0: SAID}, {}), ({}, {0: SAID}), ({0: SAID, 1: SAID}, {0: SAID})):
        verdict = with_pause(NAMED, doing, writing)
        assert (verdict.confidence, verdict.culprits) == ("low", (0,))
        assert SAID in verdict.sentence
        assert "main" not in verdict.sentence
    assert with_pause(NAMED, {1: "evaluating on rank 1"}, {2: "/ckpt"}) == NAMED
