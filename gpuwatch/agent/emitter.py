"""The emitter: the main thread. It never calls NVML and never blocks except to wait for the next tick.

Once per tick it releases the readers, waits a moment for them, and sends the values that arrived; for a
hung GPU it sends the call and its duration. Between ticks it answers requests.
"""

import os
import select
import time
from collections import deque

from .base.settings import within
from .base.ticker import KEPT_EVENTS, Ticker
from .frame_builder import Composer
from .gpu.driver import Driver
from .logs.supervisor import LogReader
from .long_requests import BackgroundRequests
from .node_reader import NodeReader

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    from .base.requests import Requests
    from .base.settings import Settings
    from .output_stream import OutputStream

HELLO_S = 0.5
"""Seconds that the first hello waits for the GPUs to be identified."""
FOR_LOGS = ("tail", "read", "search", "cancel", "leave", "folders")
_PATIENCE_S = 0.25
_FAREWELL_S = 0.3


class Emitter(object):
    """Sends frames until the cockpit is gone, a signal arrives, or no request has come for too long."""

    def __init__(self, settings: "Settings", requests: "Requests", outlet: "OutputStream") -> None:
        self._requests = requests
        self._outlet = outlet
        self._version = settings.version
        self._deadline = settings.ping_deadline_s
        self._wake_end, self._wake_start = os.pipe()
        for end in (self._wake_end, self._wake_start):
            os.set_blocking(end, False)
        self._leaving: str | None = None
        self._due = 0.0
        self._changed = False
        self._received = time.monotonic()
        self._seq = 0
        self._sent_hello = False
        self._hello: dict[str, Any] = {}
        self._queue: deque[dict[str, Any]] = deque(maxlen=2 * KEPT_EVENTS)
        """Frames that must be kept while the pipe is full."""
        self._dropped = 0
        self._events: deque[dict[str, Any]] = deque(maxlen=KEPT_EVENTS)
        self._ticker = Ticker(self.wake, settings.interval_s)
        self._node = NodeReader(self._ticker, self._events, settings)
        self._driver = Driver(self._ticker, self._events, settings, self.leave)
        self._logs = LogReader(self.wake, settings.logs)
        self._long_requests = BackgroundRequests(settings, self.wake)
        self._composer = Composer(self._driver, self._node, self._logs, self._events, settings)

    def wake(self) -> None:
        """Wake the emitter's thread; any thread may call it."""
        try:
            os.write(self._wake_start, b"!")
        except OSError:
            pass  # full: the emitter is already awake

    def leave(self, reason: str) -> None:
        """Make the loop end soon, for this reason; signal handlers and any thread may call it."""
        self._leaving = self._leaving or reason
        self.wake()

    def serve(self) -> int:
        """Run the agent's main loop until it ends; return the exit status."""
        self._node.start()
        self._driver.start()
        self._logs.start()
        try:
            self._answer()  # requests that arrived with the bundle do not make the descriptor readable
            self._wait(HELLO_S, self._driver.settled)
            self._due = time.monotonic()
            while self._leaving is None:
                self._ticker.tick()
                self._wait(min(_PATIENCE_S, self._ticker.interval_s / 2), self._ticker.done)
                self._emit()
                self._due = max(self._due + self._ticker.interval_s, time.monotonic())
                self._wait(self._due - time.monotonic(), self._new_interval)
            self._farewell()
        except OSError:
            return 1
        return 0

    # ----------------------------------------------------------------- waiting

    def _wait(self, seconds: float, enough: "Callable[[], bool] | None" = None) -> None:
        """Answer requests and write pending data for `seconds`, until `enough` is true, or until the end."""
        until = time.monotonic() + seconds
        while self._leaving is None and not (enough is not None and enough()):
            left = until - time.monotonic()
            if left <= 0:
                return
            self._listen(left)

    def _new_interval(self) -> bool:
        """Return True if the interval has changed since the last call: the next tick then comes at once."""
        changed, self._changed = self._changed, False
        return changed

    def _listen(self, seconds: float) -> None:
        alive_for = self._received + self._deadline - time.monotonic()
        if alive_for <= 0:
            self.leave("no request received for {:g} s".format(self._deadline))
            return
        writing = [self._outlet.fileno()] if self._outlet.full else []
        ready, writable, _ = select.select(
            [self._requests.fileno(), self._wake_end], writing, [], min(seconds, alive_for)
        )
        if self._wake_end in ready:
            os.read(self._wake_end, 4096)
            self._bring()
        if writable:
            self._outlet.flush()
        if self._requests.fileno() in ready:
            self._answer()
        elif self._logs.waiting and self._sent_hello:
            self._send([])

    def _bring(self) -> None:
        replies = self._long_requests.take()
        for reply in replies:
            self._put(reply)
        if replies and self._sent_hello:
            self._send([])

    def _answer(self) -> None:
        for request in self._requests.read():
            self._received = time.monotonic()
            reply = self._reply(request)
            if reply is not None:
                self._put(reply)
        if self._requests.ended:
            self.leave("stdin ended")
        if self._sent_hello and self._queue:
            self._send([])

    def _reply(self, request: "Any") -> "dict[str, Any] | None":
        """Handle a request and return its reply.

        None if the log reader or a background request replies later.
        """
        reply = {"kind": "reply", "id": 0}
        if isinstance(request, ValueError):
            reply["error"] = str(request)
            return reply
        number = request.get("id")
        reply["id"] = number if isinstance(number, int) and not isinstance(number, bool) else 0
        command = request.get("do")
        if command == "interval":
            try:
                self._ticker.interval_s = within(float(request["seconds"]))
                self._changed, self._due = True, time.monotonic()
            except (KeyError, TypeError, ValueError):
                reply["error"] = "interval needs a number of seconds"
        elif command in FOR_LOGS and reply["id"] == number:
            self._logs.ask(request)
            return None
        elif command in self._long_requests.handlers and reply["id"] == number:
            refused = self._long_requests.begin(command, request, number)
            if refused is None:
                return None
            reply["error"] = refused
        elif command != "ping":
            reply["error"] = "this agent does not support the request {}".format(str(command)[:80])
        return reply

    # ----------------------------------------------------------------- sending

    def _put(self, frame: "dict[str, Any]") -> None:
        frame.setdefault("t", time.time())
        frame["t"] = round(frame["t"], 3)
        frame["v"] = 1
        self._queue.append(frame)

    def _send(self, frames: "list[dict[str, Any]]") -> None:
        """Send the queued frames, the log reader's frames and `frames`.

        While the pipe is full, `frames` are dropped and the others wait.
        """
        if self._outlet.full:
            self._outlet.flush()
        if self._outlet.full:
            self._dropped += len(frames)
            return
        batch = list(self._queue) + self._logs.take() + frames
        self._queue.clear()
        if batch:
            self._outlet.write([self._numbered(frame) for frame in batch])

    def _numbered(self, frame: "dict[str, Any] | str") -> "dict[str, Any] | str":
        self._seq += 1
        if isinstance(frame, str):  # a frame of the log reader, which is expensive to parse
            return '{{"v":1,"seq":{},{}'.format(self._seq, frame[1:])
        frame["seq"] = self._seq
        return frame

    def _farewell(self) -> None:
        """Send the last frame, if the pipe accepts it soon."""
        until = time.monotonic() + _FAREWELL_S
        self._put({"kind": "bye", "reason": self._leaving})
        self._send([])
        while self._outlet.full or self._queue:
            left = until - time.monotonic()
            if left <= 0 or not select.select([], [self._outlet], [], left)[1]:
                return
            self._send([])

    # ----------------------------------------------------------------- one tick

    def _emit(self) -> None:
        frames = self._composer.tick(time.time(), self._dropped)
        self._send_hello()
        while self._events:
            self._put(dict(self._events.popleft(), kind="event"))
        self._send(frames)

    def _send_hello(self) -> None:
        """Queue the hello if it is the first, or its content has changed."""
        hello = self._composer.hello()
        hello.update(agent=self._version, pid=os.getpid(), interval_s=self._ticker.interval_s)
        if hello != self._hello:
            self._hello = hello
            self._put(dict(hello, kind="hello"))
            if not self._sent_hello:
                self._queue.rotate(1)  # before replies that waited for the hello
            self._sent_hello = True
