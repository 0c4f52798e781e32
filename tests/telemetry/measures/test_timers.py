"""Timers of the host, and of a GPU whose events the test reaches."""

from __future__ import annotations

import threading

import pytest

from gpuwatch.telemetry.measures.distribution import Distribution
from gpuwatch.telemetry.measures.timers import DeviceEvents, DeviceTimer, Timers


class Event:
    """A CUDA event as torch has it, on a clock of the test."""

    now = 0.0
    reached = -1.0
    broken = False

    def __init__(self) -> None:
        self.at = 0.0

    def record(self) -> None:
        Event.now += 1.0
        self.at = Event.now

    def query(self) -> bool:
        if Event.broken:
            raise RuntimeError("CUDA error: an illegal memory access was encountered")
        return self.at <= Event.reached

    def synchronize(self) -> None:
        Event.reached = max(Event.reached, self.at)

    def elapsed_time(self, end: Event) -> float:
        return (end.at - self.at) * 1e3


@pytest.fixture(autouse=True)
def fresh_clock() -> None:
    Event.now, Event.reached, Event.broken = 0.0, -1.0, False


def test_a_block_and_a_function() -> None:
    """Document 001, line 217."""
    timers = Timers()
    with timers.timer("block"):
        pass

    @timers.timer("function")
    def count(n: int) -> int:
        return n and count(n - 1)

    count(3)
    assert (timers.host["block"].count, timers.host["function"].count) == (1, 4)


def test_a_block_that_raises_is_timed_too() -> None:
    timers = Timers()
    with pytest.raises(KeyError), timers.timer("block"):
        raise KeyError
    assert timers.host["block"].count == 1


def test_threads_lose_no_times() -> None:
    timers = Timers()

    def work() -> None:
        for _ in range(2000):
            with timers.timer("work"):
                pass

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert timers.host["work"].count == 8000


def test_without_a_gpu_a_device_timer_is_one_of_the_host() -> None:
    timers = Timers()
    with timers.device_timer("forward"):
        pass
    assert (timers.host["forward"].count, timers.device) == (1, {})


def test_the_time_of_a_gpu_is_read_when_the_gpu_has_passed_it() -> None:
    """Document 001, line 140."""
    timers = Timers(new_event=Event)
    for _ in range(3):
        with timers.device_timer("forward"):
            pass
    assert timers.device["forward"].count == 0, "the host does not wait"
    timers.settle()
    assert (timers.device["forward"].count, timers.device["forward"].mean) == (3, 1.0)


def test_few_events_are_open_at_a_time() -> None:
    made: list[Event] = []

    def new_event() -> Event:
        made.append(Event())
        return made[-1]

    events, numbers = DeviceEvents(new_event, max_pending=8), Distribution()
    for _ in range(1000):
        with DeviceTimer(events, numbers):
            pass
    assert len(made) <= 20
    assert numbers.count >= 990


def test_a_gpu_that_fails_costs_its_times_only() -> None:
    timers = Timers(new_event=Event)
    with pytest.raises(ValueError, match="own error"), timers.device_timer("forward"):
        raise ValueError("own error")
    with timers.device_timer("forward"):
        pass
    Event.broken = True
    with timers.device_timer("forward"):
        pass
    timers.settle()
    assert timers.device["forward"].count == 0
