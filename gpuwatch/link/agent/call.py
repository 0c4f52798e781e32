"""A call: one connection to an agent, from the loader's first byte to the end of the stream."""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable

from msgspec import Struct

from gpuwatch.link.agent.thread_pool import DaemonThreadPool
from gpuwatch.link.start import failure_reasons
from gpuwatch.link.start.failure_reasons import Ending
from gpuwatch.link.stream.carrier import Carrier, DirectCarrier
from gpuwatch.link.stream.clock import ClockComparison
from gpuwatch.link.stream.frame_stream import Item, ItemStream, Started
from gpuwatch.link.stream.inbox import Content
from gpuwatch.link.stream.limits import StreamError
from gpuwatch.wire import AnyRequest, Bye, Ping, Reply, encode_request

READ_BYTES = 64 * 1024
OUTBOX_LIMIT = 64
PINGS_KEPT = 16
UNREAD_PATIENCE = 3
"""Bytes that wait to be read excuse a silence of this many limits: they may hold no message."""


class CallTiming(Struct, frozen=True):
    """Time limits (seconds) after which a connection counts as dead.

    The agent exits after `ping_deadline_s` without a ping.
    """

    start_s: float = 30.0
    silence_s: float = 12.0
    ping_every_s: float = 5.0
    ping_deadline_s: float = 30.0


class Call:
    """One connection to an agent. `converse` reads in its caller's thread; `send`, `watch` do not block."""

    def __init__(
        self,
        carrier: Carrier,
        stream: ItemStream,
        deliver: Callable[[Content | Started], None],
        thread_pool: DaemonThreadPool,
        timing: CallTiming,
    ) -> None:
        self._carrier = carrier
        self._stream = stream
        self._deliver = deliver
        self._thread_pool = thread_pool
        self._timing = timing
        self._clock = ClockComparison()
        self._lock = threading.Lock()
        self._outbox: deque[AnyRequest] = deque()
        self._sending = False
        self._mute = False
        self._verdict: Ending | None = None
        self._bye: str | None = None
        self._pings: dict[int, float] = {}
        self._ping_id = 0
        self._ping_due = 0.0
        self._received_at = time.monotonic()
        self._started_at: float | None = None

    def converse(self, first: Callable[[], bytes], python: str | None) -> Ending:
        """Send the initial bytes, deliver frames until the stream ends, and return the reason of the end."""
        # Sent while reading: otherwise a login shell with much output and gpuwatch would wait for each other.
        self._thread_pool.run(lambda: self._send_first(first))
        try:
            if isinstance(self._carrier, DirectCarrier):
                self._carrier.receive(self._receive)
            else:
                while data := self._carrier.recv(READ_BYTES):
                    self._receive(data)
        except StreamError as error:
            return Ending(str(error))
        except OSError as error:
            return self._verdict or Ending(f"the connection broke: {error.strerror or error}")
        finally:
            self._mute = True
            self._carrier.close()
        if self._verdict is not None:
            return self._verdict
        stderr = self._carrier.stderr()
        if self._stream.started:
            alone = isinstance(self._carrier, DirectCarrier) and self._carrier.ended_alone()
            return failure_reasons.after_start(self._bye, stderr, alone=alone)
        return failure_reasons.before_start(self._stream.noise, stderr, python)

    def live_s(self) -> float:
        """Return the seconds since the agent's first message; 0 if there was none."""
        return 0.0 if self._started_at is None else time.monotonic() - self._started_at

    def send(self, request: AnyRequest) -> bool:
        """Queue a request; return False before the agent's start, after the end, or if the queue is full."""
        with self._lock:
            if not self._stream.started or self._mute or len(self._outbox) >= OUTBOX_LIMIT:
                return False
            self._outbox.append(request)
            if self._sending:
                return True
            self._sending = True
        self._thread_pool.run(self._send_all)
        return True

    def watch(self, now: float, overslept_s: float) -> None:
        """Send a ping if it is due; close the call if the peer was silent for too long.

        Args:
            now: Monotonic seconds.
            overslept_s: How late this call of `watch` is. If this process was stopped, the silence is our
                own, as it is for a while with received bytes that wait to be read.
        """
        self._received_at = min(now, self._received_at + overslept_s)
        silent_s = now - self._received_at
        if self._verdict is not None:
            return
        started = self._stream.started
        limit_s = self._timing.silence_s if started else self._timing.start_s
        if silent_s > UNREAD_PATIENCE * limit_s or (silent_s > limit_s and not self._unread()):
            self.hang_up(
                failure_reasons.silent_for(silent_s)
                if started
                else failure_reasons.not_started_in(limit_s, self._stream.noise)
            )
        elif started and now >= self._ping_due:
            self._ping_due = now + self._timing.ping_every_s
            self._ping_id -= 1  # below zero: never the number of another request
            self.send(Ping(id=self._ping_id))

    def _unread(self) -> bool:
        return isinstance(self._carrier, DirectCarrier) and self._carrier.waiting()

    def close(self) -> None:
        """Close the connection; returns when the carrier is closed."""
        self._verdict = Ending("closed")
        self._carrier.close()

    def hang_up(self, verdict: Ending) -> None:
        """Close the connection with the verdict `verdict` as its reason; does not block."""
        self._verdict = verdict
        self._thread_pool.run(self._carrier.close)

    def _send_first(self, first: Callable[[], bytes]) -> None:
        with contextlib.suppress(
            OSError
        ):  # a shell that refused has ended already; the reader receives its output
            self._carrier.send(first())

    def _send_all(self) -> None:
        while True:
            with self._lock:
                if not self._outbox or self._mute:
                    self._sending = False
                    return
                request = self._outbox.popleft()
                if isinstance(request, Ping) and request.id < 0:
                    self._pings[request.id] = time.monotonic()
                    self._pings.pop(request.id + PINGS_KEPT, None)
            try:
                self._carrier.send(encode_request(request))
            except OSError:  # the reader will see the end of the stream, or the silence that follows
                self._mute = True

    def _receive(self, data: bytes) -> None:
        now = time.monotonic()
        for item in self._stream.feed(data, now):
            self._take(item, now)

    def _take(self, item: Item, now: float) -> None:
        self._received_at = now
        if isinstance(item, Started):
            self._started_at = now
        elif isinstance(item, Bye):
            self._bye = item.reason
        elif isinstance(item, Reply) and item.id < 0:
            self._take_pong(item)
            return
        self._deliver(item)

    def _take_pong(self, reply: Reply) -> None:
        with self._lock:
            sent_at = self._pings.pop(reply.id, None)
        if sent_at is not None:
            # The wall clock first: whatever delays us before or between both readings widens the error.
            our_time, now = time.time(), time.monotonic()
            reading = self._clock.add(now, our_time, reply.t, now - sent_at)
            if reading is not None:
                self._deliver(reading)
