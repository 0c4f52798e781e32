"""The comparison of results, handed damaged ones: one that always says yes would pass every other test."""

from __future__ import annotations

from typing import Any

import pytest

from gpuwatch.probe.ranks.measures.checked_values import PERIOD, DataPattern
from gpuwatch.probe.ranks.measures.collectives import Buffers, CollectiveRunner
from gpuwatch.probe.ranks.shared import words
from gpuwatch.probe.ranks.shared.orders import StepFields
from tests.parts import need_torch
from tests.sentences import Sentences

SIZES = [1, PERIOD - 1, PERIOD, PERIOD + 1, 4096 * PERIOD, 4096 * PERIOD + 7, 1 << 21]


@pytest.fixture(scope="module")
def torch() -> Any:
    need_torch()
    import torch  # noqa: PLC0415 - where it is missing these tests are skipped

    return torch


@pytest.mark.sampled(3)
@pytest.mark.parametrize("size", SIZES)
def test_what_was_written_is_right_and_one_wrong_element_is_found(torch: Any, size: int) -> None:
    """Wherever it is: in the first rows, in a later part, in the rest that fills no row."""
    pattern = DataPattern(torch, "cpu")
    wave = pattern.wave(3)
    data = torch.empty(size)
    pattern.write(data, wave)
    assert pattern.wrong(data, wave) == (0, None)
    for at in {0, size // 2, size - 1}:
        data[at] += 1
        assert pattern.wrong(data, wave) == (1, at)
        data[at] -= 1


def test_the_numbers_are_those_of_the_definition(torch: Any) -> None:
    """And sums are exact for more ranks than there are."""
    pattern = DataPattern(torch, "cpu")
    assert pattern.wave(2, 5, 3).tolist() == [float((p + 5 + 26 + 87) % 251) for p in range(251)]
    total = pattern.total(range(2000), 7)
    assert total.tolist() == [float(sum((p + 7 + 13 * r) % 251 for r in range(2000))) for p in range(251)]


def test_another_rank_s_data_and_data_at_a_wrong_place_are_wrong(torch: Any) -> None:
    """A swapped neighbour, a shift by any power of two, zeros."""
    pattern = DataPattern(torch, "cpu")
    data = torch.empty(1 << 12)
    pattern.write(data, pattern.wave(1))
    assert pattern.wrong(data, pattern.wave(2))[0] == data.numel()
    for power in range(30):
        assert pattern.wrong(data, pattern.wave(1, 1 << power))[0] == data.numel()
    assert pattern.wrong(torch.zeros(PERIOD), pattern.wave(0)) == (PERIOD - 1, 1)


class OneRank:
    """torch for a world of one, whose all_reduce damages an element."""

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self.distributed = self

    def __getattr__(self, name: str) -> Any:
        return getattr(self._torch, name)

    def all_reduce(self, buffer: Any) -> None:
        buffer[10 % buffer.numel()] += 1


class Stopped:
    """A clock that measures nothing."""

    def times(self, *_: Any) -> list[float]:
        return []

    def settle(self, _: float) -> None:
        return


def test_a_damaged_result_is_not_correct_and_the_place_is_reported(torch: Any, sentences: Sentences) -> None:
    """In `Done` as a fact, and in a note in words.

    Document 004, line 486.
    """
    fake = OneRank(torch)
    collectives = CollectiveRunner(fake, Buffers(fake, "cpu"), Stopped(), 0, 1)
    collectives.learn(1.0)
    message = collectives.measure(StepFields(1, "collective", "all_reduce", bytes=4096, check=True))
    assert message["correct"] is False
    sentences(message["note"])


@pytest.mark.parametrize(
    ("line", "transport"),
    [
        ("gpu-a:11:22 [0] NCCL INFO Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/0", "NET/IB"),
        (
            "gpu-a:11:22 [0] NCCL INFO Channel 03/0 : 0[0] -> 8[0] via NET/IB/3(4)/GDRDMA",
            "NET/IB/GDRDMA",
        ),
        ("gpu-a:11:22 [1] NCCL INFO Channel 00/0 : 1[1] -> 9[1] [send] via NET/Socket/1", "NET/Socket"),
        ("gpu-a:11:22 [1] NCCL INFO Channel 02/0 : 1[1] -> 2[2] via P2P/CUMEM/read", "P2P/CUMEM"),
        ("gpu-a:11:22 [1] NCCL INFO Channel 02 : 1[1] -> 2[2] via P2P/IPC", "P2P/IPC"),
        ("gpu-a:11:22 [1] NCCL INFO Channel 02 : 1[1] -> 2[2] via SHM/direct/direct", "SHM/direct"),
        (
            "gpu-a:11:22 [1] NCCL INFO Channel 00/0 : 1[1] -> 9[1] via NET/AWS Libfabric/1",
            "NET/AWS Libfabric",
        ),
        ("gpu-a:11:22 [1] NCCL INFO Connected all rings", None),
        ("a line of a program that goes via NET/IB", None),
    ],
)
def test_transports_are_read_from_what_nccl_says(line: str, transport: str | None) -> None:
    """Without the number of the device; with GDRDMA, since its absence explains a slow link."""
    assert words.transport(line) == transport


def test_errors_are_one_harmless_line(sentences: Sentences) -> None:
    """No source positions of torch, no advice, no control characters, nothing endless."""
    error = RuntimeError(
        "[/build/pytorch/gloo/pair.cc:547] Connection closed by peer [10.0.0.1]:4711. "
        "This is typically caused by a remote worker hanging.\nException raised from here"
    )
    sentences(words.first_line(error))
    assert words.first_line(ValueError("\x1b]0;title\x07 red \x1b[31m")) == "]0;title  red  [31m"
    assert words.first_line(ValueError()) == "ValueError"
    assert len(words.first_line(ValueError("x" * 10_000))) == words.MAX_ERROR_CHARS
    assert (words.ending(6), words.ending(3 << 8)) == ("killed by SIGABRT", "exit code 3")
    assert words.ranks([4]) == "rank 4" and words.ranks([4, 5, 9]) == "ranks 4, 5 and 9"
    assert words.ranks(list(range(12))) == "ranks 0, 1, 2, 3, 4, 5, 6, 7 and 4 more"
