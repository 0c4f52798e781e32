"""A link to an agent: one thread that connects, communicates, and reconnects."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping

from msgspec import Struct, field
from msgspec.structs import replace

from gpuwatch.hosts.plan import NodeSpec
from gpuwatch.link.agent.backoff import Backoff, RetryPace
from gpuwatch.link.agent.call import Call, CallTiming
from gpuwatch.link.agent.heartbeat import Heartbeat
from gpuwatch.link.agent.login_slots import ConnectSlots
from gpuwatch.link.agent.start_method import StartMethod, agent_start, smi_start
from gpuwatch.link.agent.thread_pool import DaemonThreadPool
from gpuwatch.link.start.failure_reasons import AFTER_CLOSING, Ending
from gpuwatch.link.start.log_settings import LogConfig
from gpuwatch.link.stream.carrier import CarrierError, Dialer
from gpuwatch.link.stream.frame_stream import ItemStream, Started, kept_allowance
from gpuwatch.link.stream.inbox import Arrival, ArrivalSink, Content, LinkStatus
from gpuwatch.link.stream.remote_text import shown_lines, shown_text
from gpuwatch.wire import AnyRequest, Sample

NOISE_LINES = 50
CLOSE_S = 2.0


class LinkContext(Struct, frozen=True):
    """The objects that all links of a session share."""

    inbox: ArrivalSink
    interval_s: float = 1.0
    slots: ConnectSlots = field(default_factory=lambda: ConnectSlots(16))
    heartbeat: Heartbeat = field(default_factory=Heartbeat)
    thread_pool: DaemonThreadPool = field(default_factory=lambda: DaemonThreadPool("link threads"))
    timing: CallTiming = field(default_factory=CallTiming)
    retry: RetryPace = field(default_factory=RetryPace)
    logs: LogConfig | None = None
    """How agents read logs; None: they read none."""
    modules: Mapping[str, str] | None = None
    """Sources that tests send instead of the installed agent: module -> text; None: the installed one."""

    def close(self) -> None:
        """End the shared threads, after every link was closed."""
        self.heartbeat.close()
        self.thread_pool.close(CLOSE_S)


class _Outcome(Struct, frozen=True):
    """How one connection attempt ended: reason, seconds of live link, and other output."""

    ending: Ending
    live_s: float = 0.0
    noise: str = ""


class AgentLink:
    """The link to one node's agent, over any dialer: a thread connects, communicates, and reconnects."""

    def __init__(self, spec: NodeSpec, dialer: Dialer, board: LinkContext) -> None:
        self.node = spec.name
        self._spec = spec
        self._dialer = dialer
        self._board = board
        self._backoff = Backoff(board.retry)
        self._kept = kept_allowance()
        self._closing = threading.Event()
        self._wake = threading.Event()
        """Interrupts the wait for the next attempt."""
        self._lock = threading.Lock()
        self._call: Call | None = None
        self._requests = False
        self._thread = threading.Thread(target=self._run, name=f"link {spec.name}", daemon=True)

    def start(self) -> None:
        """Start; does not block."""
        self._thread.start()

    def send(self, request: AnyRequest) -> bool:
        """Send a request to the agent.

        Return False if the link is not live or nvidia-smi stands in for an agent.
        """
        call = self._call
        return call is not None and self._requests and call.send(request)

    def retry(self) -> None:
        """Connect now if this link waits for its next attempt; no effect otherwise."""
        self._wake.set()

    def hang_up(self, reason: str) -> None:
        """Close the connection for a reason, and reconnect after the usual wait."""
        call = self._call
        if call is not None:
            call.hang_up(Ending(reason))

    def close(self) -> None:
        """End the agent and this link's thread; returns within 2 s, even if a dialer does not."""
        with self._lock:
            self._closing.set()
            call = self._call
        self._wake.set()
        self._board.slots.wake()
        if call is not None:
            call.close()
        if self._thread.ident is not None:
            self._thread.join(CLOSE_S)

    def _run(self) -> None:
        attempt, reason = 0, ""
        while not self._closing.is_set():
            attempt += 1
            self._report(LinkStatus("connecting", reason=reason, attempt=attempt))
            outcome = self._attempt(attempt)
            if outcome.live_s:
                attempt = 0
            wait_s = self._backoff.wait_s(final=outcome.ending.final, live_s=outcome.live_s)
            reason = shown_text(outcome.ending.reason)
            retry_at = time.monotonic() + wait_s
            self._wake.clear()  # a request to retry during the attempt is fulfilled
            self._report(LinkStatus("lost", reason, retry_at=retry_at, attempt=attempt, noise=outcome.noise))
            if not self._closing.is_set():  # close sets it first, then wakes us
                self._wake.wait(wait_s)

    def _attempt(self, attempt: int) -> _Outcome:
        slot = self._board.slots.take(self._closing.is_set)
        if slot is None:
            return _Outcome(Ending("closed"))
        try:
            outcome = self._connect(attempt, slot, self._agent())
            if outcome.ending.no_python and not self._closing.is_set():
                outcome = self._connect(attempt, slot, smi_start(self._spec.python, self._board.interval_s))
            return outcome
        except CarrierError as error:
            return _Outcome(Ending(str(error), error.final))
        except EOFError:  # paramiko's, wherever a connection ends
            return _Outcome(Ending(f"the connection was closed from the other side; {AFTER_CLOSING}"))
        except (
            Exception
        ) as error:  # a thread that dies unseen would leave "connecting" on the screen for ever
            return _Outcome(Ending(f"an error in gpuwatch, please report it: {error!r}", final=True))
        finally:
            self._board.slots.give(slot)

    def _connect(self, attempt: int, slot: object, way: StartMethod) -> _Outcome:
        carrier = self._dialer(way.command)
        dialled_at = time.monotonic()
        stream = way.stream

        def deliver(content: Content | Started) -> None:
            line = stream.line if isinstance(content, Sample) else None
            if isinstance(content, Started):
                self._board.slots.give(slot)  # the login is over
                took_s = time.monotonic() - dialled_at
                login = getattr(carrier, "facts", None)  # of ssh only
                content = LinkStatus(
                    "live", attempt=attempt, noise=_noise(stream), start_s=took_s, login=login
                )
            self._report(content, line)

        timing = self._board.timing
        if way.ping_every_s is not None:
            timing = replace(timing, ping_every_s=way.ping_every_s)
        call = Call(carrier, stream, deliver, self._board.thread_pool, timing)
        with self._lock:
            self._call = call
            self._requests = way.requests
            if self._closing.is_set():
                carrier.close()
        self._board.heartbeat.add(call)
        try:
            ending = call.converse(way.first, self._spec.python)
        finally:
            self._call = None
            self._board.heartbeat.discard(call)
        return _Outcome(ending, call.live_s(), _noise(stream))

    def _agent(self) -> StartMethod:
        board = self._board
        settings = {
            "interval_s": board.interval_s,
            "ping_deadline_s": board.timing.ping_deadline_s,
            "host": self.node,
            **(board.logs.config(self.node) if board.logs is not None else {}),
        }
        return agent_start(self._spec.python, settings, board.modules, self._kept)

    def _report(self, content: Content, line: bytes | None = None) -> None:
        if not self._closing.is_set():
            self._board.inbox.put(Arrival(self.node, time.monotonic(), content, line))


def _noise(stream: ItemStream) -> str:
    return "\n".join(shown_lines(stream.noise, NOISE_LINES))
