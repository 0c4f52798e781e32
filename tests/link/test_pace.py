"""Waiting, queueing and judging: the parts of a link that need no process."""

from __future__ import annotations

import resource
import threading
import time
from collections.abc import Callable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuwatch.link.agent.backoff import Backoff, RetryPace
from gpuwatch.link.agent.call import Call, CallTiming
from gpuwatch.link.agent.heartbeat import Heartbeat
from gpuwatch.link.agent.login_slots import ConnectSlots
from gpuwatch.link.agent.thread_pool import DaemonThreadPool
from gpuwatch.link.dialers import make_room
from gpuwatch.link.start.failure_reasons import QUOTED_CHARACTERS, after_start, before_start
from gpuwatch.link.stream.clock import WINDOW_S, ClockComparison
from gpuwatch.link.stream.frame_stream import FrameStream, Item, Started
from gpuwatch.link.stream.inbox import ClockReading, Content
from gpuwatch.plain import plain
from gpuwatch.wire import Reply
from tests.link.watching import nothing_left, until
from tests.sentences import Sentences


def test_waits_double_to_their_limit() -> None:
    backoff = Backoff(RetryPace(), chance=lambda: 1.0)
    assert [backoff.wait_s(final=False, live_s=0.0) for _ in range(7)] == [1, 2, 4, 8, 8, 8, 8]


def test_a_link_that_was_live_for_long_starts_again() -> None:
    backoff = Backoff(RetryPace(), chance=lambda: 1.0)
    waits = [backoff.wait_s(final=False, live_s=live) for live in (0.0, 0.0, 3.0, 31.0)]
    assert waits == [1, 2, 4, 1]


def test_final_failures_are_tried_rarely() -> None:
    backoff = Backoff(RetryPace(), chance=lambda: 0.0)
    waits = [backoff.wait_s(final=True, live_s=0.0) for _ in range(6)]
    assert waits == [45, 90, 180, 360, 450, 450]


@given(st.floats(0, 1), st.integers(0, 2000))
def test_a_wait_is_never_longer_than_its_limit(chance: float, failures: int) -> None:
    backoff = Backoff(RetryPace(), chance=lambda: chance)
    waits = [backoff.wait_s(final=False, live_s=0.0) for _ in range(failures)]
    assert all(0.75 <= wait <= 8 for wait in waits)


def test_a_slow_login_gives_its_slot_up_and_a_quick_one_passes_it_on() -> None:
    now = [0.0]
    slots = ConnectSlots(1, lease_s=2.0, clock=lambda: now[0])
    slow = slots.take(lambda: False)
    now[0] = 2.5
    quick = slots.take(lambda: False)
    assert None not in (slow, quick)
    slots.give(slow)
    taken: list[object | None] = []
    waiting = threading.Thread(target=lambda: taken.append(slots.take(lambda: False)))
    waiting.start()
    assert taken == []
    slots.give(quick)
    waiting.join(30)
    assert len(taken) == 1


def test_waiting_for_a_slot_can_be_given_up() -> None:
    slots = ConnectSlots(1, lease_s=3600.0)
    slots.take(lambda: False)
    closing = threading.Event()
    taken: list[object | None] = []
    waiting = [threading.Thread(target=lambda: taken.append(slots.take(closing.is_set))) for _ in range(20)]
    for thread in waiting:
        thread.start()
    closing.set()
    slots.wake()
    for thread in waiting:
        thread.join(30)
    assert taken == [None] * 20


def test_no_more_than_the_limit_log_in_at_once() -> None:
    slots = ConnectSlots(4, lease_s=3600.0)
    lock, inside, most = threading.Lock(), [0], [0]
    full = threading.Barrier(4)  # each waits for three others

    def log_in() -> None:
        slot = slots.take(lambda: False)
        with lock:
            inside[0] += 1
            most[0] = max(most[0], inside[0])
        full.wait(60)
        with lock:
            inside[0] -= 1
        slots.give(slot)

    threads = [threading.Thread(target=log_in) for _ in range(40)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert inside == [0]
    assert most == [4]


def test_a_stuck_job_holds_up_no_other_and_idle_threads_leave() -> None:
    with nothing_left():
        thread_pool = DaemonThreadPool("test crew", idle_s=0.05)
        release = threading.Event()
        done: list[int] = []
        for _ in range(5):
            thread_pool.run(release.wait)  # type: ignore[arg-type] # what it returns is of no interest
        for number in range(20):
            thread_pool.run(lambda number=number: done.append(number))  # type: ignore[misc]
        until(lambda: len(done) == 20, "the jobs beside the stuck ones")
        release.set()
        until(
            lambda: "test crew" not in {thread.name for thread in threading.enumerate()},
            "idle threads to leave",
        )
        thread_pool.run(lambda: done.append(99))
        until(lambda: 99 in done, "a job after all had left")
        thread_pool.close(30.0)
        thread_pool.run(lambda: done.append(100))
        assert 100 not in done


def test_a_heartbeat_without_calls_costs_no_thread() -> None:
    before = threading.active_count()
    Heartbeat().close()
    assert threading.active_count() == before


class _DeadAir:
    """A carrier that receives nothing."""

    def __init__(self) -> None:
        self.closed = threading.Event()

    def recv(self, limit: int) -> bytes:
        self.closed.wait()
        return b""[:limit]

    def send(self, data: bytes) -> None:
        if not data:
            raise ValueError("nothing to send")

    def stderr(self) -> str:
        return ""

    def exit_status(self, timeout_s: float) -> int | None:  # noqa: ARG002 - nothing runs
        return None

    def close(self) -> None:
        self.closed.set()


class _UnreadAir(_DeadAir):
    """A carrier whose bytes nobody has read yet."""

    unread = True

    def receive(self, take: Callable[[bytes], None]) -> None:
        self.closed.wait()
        take(b"")

    def ended_alone(self) -> bool:
        return False

    def waiting(self) -> bool:
        return self.unread


@pytest.mark.parametrize(("unread", "later_s"), [(False, 80.0), (True, 95.0)], ids=["read", "without-end"])
def test_bytes_that_wait_to_be_read_excuse_a_silence_for_a_while(unread: bool, later_s: float) -> None:
    """A server that floods packets without data keeps them waiting for ever."""
    thread_pool, carrier = DaemonThreadPool("test crew"), _UnreadAir()
    call = Call(carrier, FrameStream("x"), lambda _: None, thread_pool, CallTiming(start_s=30.0))
    now = time.monotonic()
    call.watch(now + 80.0, overslept_s=0.0)
    assert not carrier.closed.wait(0.05)
    carrier.unread = unread
    call.watch(now + later_s, overslept_s=0.0)
    assert carrier.closed.wait(30)
    thread_pool.close(30.0)


def test_silence_is_not_held_against_a_node_while_we_were_stopped_ourselves(sentences: Sentences) -> None:
    thread_pool, carrier = DaemonThreadPool("test crew"), _DeadAir()
    call = Call(carrier, FrameStream("x"), lambda _: None, thread_pool, CallTiming(start_s=30.0))
    now = time.monotonic()
    call.watch(now + 300.0, overslept_s=299.0)
    call.watch(now + 320.0, overslept_s=0.0)
    assert not carrier.closed.is_set()
    call.watch(now + 340.0, overslept_s=0.0)
    assert carrier.closed.wait(30)
    sentences(call.converse(lambda: b"bundle", None).reason)
    thread_pool.close(30.0)


class _LatePong:
    """A stream whose only item is the reply to the first ping, decoded some time after it came."""

    started, noise, line = True, "", None

    def feed(self, data: bytes, now: float) -> Iterator[Item]:  # noqa: ARG002 - a stream's arguments
        answered_at = time.time()
        time.sleep(0.3)  # as other frames of the same piece take, or a busy machine
        yield Reply(t=answered_at, seq=1, id=-1)


class _OnePiece(_DeadAir):
    """Delivers a piece as soon as the ping was sent."""

    def __init__(self) -> None:
        super().__init__()
        self.pieces, self.sent = [b"", b"x"], threading.Event()

    def send(self, data: bytes) -> None:
        if b"ping" in data:
            self.sent.set()

    def recv(self, limit: int) -> bytes:
        self.sent.wait(60)
        return self.pieces.pop()[:limit]


def test_the_error_of_a_clock_reading_covers_the_time_until_the_reply_was_decoded() -> None:
    thread_pool, carrier = DaemonThreadPool("test crew"), _OnePiece()
    found: list[Content | Started] = []
    call = Call(carrier, _LatePong(), found.append, thread_pool, CallTiming())
    call.watch(time.monotonic() + 1.0, overslept_s=0.0)
    call.converse(lambda: b"bundle", None)
    thread_pool.close(30.0)
    (reading,) = found
    assert isinstance(reading, ClockReading)
    assert abs(reading.offset_s) <= reading.error_s + 0.001


def test_the_best_clock_reading_of_the_last_minute_is_kept() -> None:
    clock = ClockComparison()
    first = clock.add(0.0, our_time=1000.0, their_time=1004.9, round_trip_s=0.2)
    assert first is not None
    assert (round(first.offset_s, 6), first.error_s) == (5.0, 0.1)
    assert clock.add(1.0, 1001.0, 1005.0, round_trip_s=4.0) is None
    better = clock.add(2.0, 1002.0, 1007.0, round_trip_s=0.02)
    assert better is not None
    assert better.error_s == 0.01
    later = clock.add(2.0 + WINDOW_S + 1, 1063.0, 1063.0, round_trip_s=0.5)
    assert later is not None
    assert later.error_s == 0.25


def test_readings_that_agree_do_not_move_the_offset() -> None:
    """A new offset moves the times of all that the node has logged: 08:00:45 to 08:00:44 and back."""
    clock = ClockComparison()
    assert clock.add(0.0, 1000.0, 1000.0, 0.004) is not None
    pings = [(5.0 * n, (0.003, 0.004, 0.006)[n % 3]) for n in range(1, 60)]
    moved = [clock.add(at, 1000 + at, 1000.0 + at - trip / 3, trip) for at, trip in pings]
    assert moved == [None] * len(pings), "five minutes of equal clocks"
    drifted = clock.add(400.0, 1400.0, 1400.05, 0.004)
    assert drifted is not None
    assert round(drifted.offset_s, 3) == 0.052


def test_room_for_descriptors_is_raised_and_never_lowered() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(512, hard), hard))
        make_room(100)
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == min(256 + 800, hard)
        make_room(1)
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == min(256 + 800, hard)
        make_room(10**9)
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == hard
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@given(st.text(), st.text(), st.none() | st.text())
def test_reasons_are_one_bounded_harmless_line(noise: str, stderr: str, bye: str | None) -> None:
    for ending in (before_start(noise, stderr, None), after_start(None, stderr)):
        assert plain(ending.reason) == ending.reason
        assert len(ending.reason) < 3 * QUOTED_CHARACTERS
    assert after_start(bye, "").reason


def test_a_jump_of_a_clock_is_followed_with_the_next_ping() -> None:
    clock = ClockComparison()
    assert clock.add(0.0, 1000.0, 1000.1, 0.010) is not None
    jumped = clock.add(5.0, 4605.0, 1005.1, 0.200)
    assert jumped is not None
    assert round(jumped.offset_s, 6) == -3599.8, "ours went an hour ahead: the older, exacter one is void"
