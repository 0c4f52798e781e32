"""What the last lines of a log state, in words that no list of messages holds."""

from __future__ import annotations

import pytest

from gpuwatch.diagnose.last_lines.endings import is_ordinary, states_job_end
from gpuwatch.diagnose.last_lines.trouble_words import has_trouble_words

JOB_ENDS = (
    "finished 512 steps, best at 480",
    "job complete, 12 of 12 rounds",
    "fit loop done: 96 updates",
    "Job 'nightly-3' succeeded",
    "success after 4 tries",
    "reached max_iters=640, exiting",
    "exit 0",
    "INFO done",
)
TROUBLE = (
    "barrier was not reached within 90 s, leaving",
    "task 11 ended with 134 after 2 h",
    "helper 4 exited: rc 0x008b",
    "fi_getinfo: err 61, done",
    "run never finished",
    "everything but rank 6 completed, gone since 40 s",
    "firmware too old, stopping",
)
PARTS = (
    "Rank 7: All-Reduce complete",
    "all ranks: process group initialized, done",
    "worker 3 finished loading the index",
    "job setup complete",
    "all 8 ranks reached the barrier",
    "train dataset: tokenization finished",
)
ORDINARY = (
    "======================",
    "best val 1.72 at step 900",
    "peak memory 61.2 GiB",
    "wrote 12 shards to /out",
    "loss=2.1 acc=0.71",
    "user@head:~$",
)


@pytest.mark.parametrize("line", JOB_ENDS)
def test_a_good_end_in_any_words(line: str) -> None:
    assert states_job_end(line)


@pytest.mark.parametrize("line", PARTS)
def test_the_end_of_a_part_is_no_end_of_the_job(line: str) -> None:
    assert not states_job_end(line)


@pytest.mark.parametrize("line", TROUBLE)
def test_a_denied_end_is_none(line: str) -> None:
    assert has_trouble_words(line)
    assert not states_job_end(line)
    assert not is_ordinary(line)


@pytest.mark.parametrize("line", ORDINARY)
def test_what_a_program_prints_when_its_work_is_over(line: str) -> None:
    assert is_ordinary(line)
    assert not states_job_end(line)
