"""Readers of damaged and hostile inputs: no crash, no hang, bounded memory, no escape to the terminal.

A reader that hangs is ended by the time limit of its test.
"""

from __future__ import annotations

import contextlib
import os
import resource
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.fuzz.targets import TARGETS, Target
from tests.hostile_text import steering

KEPT = Path(__file__).with_name("kept")
MAX_GROWTH_BYTES = 512 << 20
LONG_S = float(os.environ.get("GPUWATCH_FUZZ_S", "600"))


@contextlib.contextmanager
def bounded_memory() -> Iterator[None]:
    """A limit of the address space, as the processes have that read dumps."""
    limits = resource.getrlimit(resource.RLIMIT_AS)
    size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + MAX_GROWTH_BYTES, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limits)


def check(target: Target, data: bytes) -> None:
    """Read an input, and fail on what no input may do.

    Raises:
        AssertionError: its text steers a terminal.
        Exception: of a kind that the reader does not state.
    """
    try:
        with bounded_memory():
            shown = list(target.read(data))
    except target.errors as error:
        shown = [str(error)]
    assert steering("".join(shown)) == []


def one_of(target: Target, number: int) -> bytes:
    """The input of this number."""
    chance = Random(number)
    return target.mutation(chance.choice(target.seeds()), chance)


@pytest.mark.parametrize("name", TARGETS)
def test_valid_inputs_are_read(name: str) -> None:
    target = TARGETS[name]
    for data in target.seeds():
        target.read(data)


@pytest.mark.parametrize("name", TARGETS)
def test_inputs_that_once_failed_are_read(name: str) -> None:
    for file in sorted((KEPT / name).glob("*")):
        check(TARGETS[name], file.read_bytes())


@pytest.mark.parametrize("name", TARGETS)
def test_changed_inputs_are_read_or_refused(name: str) -> None:
    target = TARGETS[name]

    @settings(
        max_examples=target.examples, deadline=None, database=None, derandomize=True,
        phases=(Phase.generate,), suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(st.integers(0, 2**32))
    def run(number: int) -> None:
        check(target, one_of(target, number))

    run()


@pytest.mark.long
@pytest.mark.timeout(2 * LONG_S + 120)
@pytest.mark.parametrize("name", TARGETS)
def test_changed_inputs_for_ten_minutes(name: str, tmp_path: Path) -> None:
    """A failure leaves its input beside the seeds, as a file to keep: `tests/fuzz/kept/TARGET`."""
    target, first = TARGETS[name], Random().randrange(2**40)
    before, until, number = (
        resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
        time.monotonic() + LONG_S,
        first,
    )
    while time.monotonic() < until:
        number += 1
        data = one_of(target, number)
        try:
            check(target, data)
        except BaseException as error:
            file = tmp_path / f"{number}"
            file.write_bytes(data)
            raise AssertionError(f"input {number}, kept in {file}") from error
    grown = 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
    assert grown <= MAX_GROWTH_BYTES
