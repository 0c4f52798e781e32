"""The demo as links: one thread delivers all nodes' frames in real time."""

from __future__ import annotations

import itertools
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from msgspec.structs import replace

from gpuwatch import wire
from gpuwatch.hosts.plan import Plan
from gpuwatch.link.demo import hang, profile, rank_settings
from gpuwatch.link.demo.clock import DemoClock
from gpuwatch.link.demo.dumps import DemoDumps
from gpuwatch.link.demo.frames import FRAMES_PER_TICK, LOGS_S, NodeScript, due
from gpuwatch.link.demo.logs import NodeLogs
from gpuwatch.link.stream.inbox import Arrival, ClockReading, Content, Inbox, LinkStatus
from gpuwatch.link.stream.link import Link

SEED = 79
EPOCH = 1_800_000_000.0
"""Unix time of second 0 when not run in real time, so that pictures and tests are reproducible."""
STAGGER_S = 0.9
"""Seconds over which the nodes' first ticks are spread, as for real nodes."""
MAX_BEHIND_TICKS = 5
MAX_LATE_S = 0.5
"""Seconds by which a tick may be late before the demo's clock waits for it."""
RECONNECT_S = 3.0
"""Seconds for which a demo node stays lost after its connection was closed."""
LET_IN_S = 0.005
"""Seconds that the pump waits between two ticks while another thread wants access."""
CLOCK = ClockReading(offset_s=0.0, error_s=0.0005)


class DemoLink:
    """The link of one demo node; a pump, shared by all, delivers its ticks."""

    def __init__(self, script: NodeScript, first: float, interval_s: float, pump: Pump) -> None:
        self.node = script.name
        self.script = script
        self.next = first
        """Scenario second of the next tick."""
        self.before: float | None = None
        self._logs: NodeLogs | None = None
        self.dumps = DemoDumps()
        self._interval_s = interval_s
        self._hello_is_due = True
        self._count = itertools.count()
        self._pump = pump

    def start(self) -> None:
        """Add this link to the pump."""
        self._pump.add(self)

    def send(self, request: wire.AnyRequest) -> bool:
        """Queue a request, which the pump answers as an agent would; return False if the node is not live."""
        return self._pump.answer(self, request)

    def retry(self) -> None:
        """Make a lost node live again at once."""
        self._pump.retry(self)

    def hang_up(self, reason: str) -> None:
        """Make the node lost for this reason; it is live again after `RECONNECT_S`, with a new agent."""
        self._pump.hang_up(self, reason)

    def close(self) -> None:
        """Remove this link from the pump; the last one ends its thread."""
        self._pump.remove(self)

    def advance(self) -> list[wire.AnyFrame]:
        """Return the frames of the tick that is due, and advance to the next tick."""
        t, count = self.next, next(self._count)
        frames = self.script.tick(count, t, self.before, self._interval_s if self._hello_is_due else None)
        seq = count * FRAMES_PER_TICK + len(frames)
        logs = self.logs(t)
        if due(LOGS_S, t, self.before, self.script.number):
            frames.append(logs.inventory(t, seq))
        frames += logs.follow(t, seq + 1)
        self.before, self.next, self._hello_is_due = t, t + self._interval_s, False
        return [through_the_wire(frame) for frame in frames]

    def logs(self, t: float) -> NodeLogs:
        """Return the node's log files, which are created at the first call, for second `t`."""
        if self._logs is None:
            script = self.script
            self._logs = NodeLogs(script.seed, script.number, script.name, script.nodes, script.epoch, t)
        return self._logs

    def catch_up(self, t: float) -> None:
        """Skip missed ticks if there are more than `MAX_BEHIND_TICKS`, as an agent would; else catch up."""
        if t - self.next > MAX_BEHIND_TICKS * self._interval_s:
            self.next = t

    def restart(self, first: float) -> None:
        """Start as a new agent: with a hello at second `first`, and log files that it does not follow yet."""
        self.before, self.next, self._hello_is_due = None, first, True
        self._logs = None

    def change_interval(self, seconds: float) -> None:
        """Change the tick interval, and report it in a new hello."""
        self._interval_s, self._hello_is_due = min(60.0, max(0.1, seconds)), True


class Pump:
    """The thread that delivers the ticks of all demo links when they are due.

    `speed` and `start_s` change the scenario's clock for tests. `waiting`: a clock that waits for late ticks;
    it then replaces `clock` and `wall_clock`.
    """

    def __init__(
        self,
        inbox: Inbox,
        start_s: float = 0.0,
        speed: float = 1.0,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
        waiting: DemoClock | None = None,
    ) -> None:
        self._inbox = inbox
        self._waiting = waiting
        self._start_s = start_s
        self._speed = speed
        self._clock = clock
        self._wall_clock = wall_clock
        self._began: float | None = None
        self._epoch = 0.0
        self._links: list[DemoLink] = []
        self._turn = 0
        """Index of the next node with a running search."""
        self._changed = threading.Condition()
        self._asked: deque[tuple[DemoLink, wire.AnyRequest]] = deque()
        self._counting = threading.Lock()
        self._callers = 0
        """Threads that wait to get in; a pump that is behind lets them in between two ticks."""
        self._thread: threading.Thread | None = None

    def add(self, link: DemoLink) -> None:
        """Add a link; the first starts the thread. Seconds before `start_s` are delivered at once."""
        with self._entered():
            self.play_backlog(link)
            self._links.append(link)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="demo", daemon=True)
                self._thread.start()
            self._changed.notify()

    def play_backlog(self, link: DemoLink) -> None:
        """Deliver a link's frames up to `start_s`, with arrival times in the past."""
        if self._began is None:
            self._began = self._clock() - self._start_s / self._speed
            self._epoch = self._wall_clock() - self._start_s
        link.script = replace(link.script, epoch=self._epoch)
        self._put(link, self._began, LinkStatus("connecting"))
        while link.next <= self._start_s:
            self._play(link, self._began + link.next / self._speed)

    def remove(self, link: DemoLink) -> None:
        """Remove a link; with the last one the thread ends before this returns."""
        with self._entered():
            if link not in self._links:
                return
            self._links.remove(link)
            thread = None
            if not self._links:
                thread, self._thread = self._thread, None
            self._changed.notify()
        if thread is not None:
            thread.join(2.0)

    def hang_up(self, link: DemoLink, reason: str) -> None:
        """Report a live node as lost, and deliver nothing of it for `RECONNECT_S`."""
        with self._entered():
            if link not in self._links or link.before is None:
                return
            now = self._clock()
            self._put(link, now, LinkStatus("lost", reason, retry_at=now + RECONNECT_S, attempt=1))
            link.restart(self._now() + RECONNECT_S * self._speed)

    def retry(self, link: DemoLink) -> None:
        """Deliver the next tick of a lost node now, which makes it live."""
        with self._entered():
            if link in self._links and link.before is None:
                link.next = min(link.next, self._now())
                self._changed.notify()

    def answer(self, link: DemoLink, request: wire.AnyRequest) -> bool:
        """Queue a request for the thread to answer; return False if the node is not live."""
        with self._entered():
            if link not in self._links or link.before is None:
                return False
            self._asked.append((link, request))
            self._changed.notify()
            return True

    def _answer_next(self) -> None:
        """Answer the request that has waited longest, if any."""
        if not self._asked:
            return
        link, request = self._asked.popleft()
        if link not in self._links:
            return
        now = self._now()
        if isinstance(request, wire.SetInterval):
            link.change_interval(request.seconds)
        if isinstance(request, wire.Ping | wire.SetInterval | wire.LeaveFiles | wire.SearchFolders):
            self._put(link, self._clock(), wire.Reply(t=self._epoch + now, seq=0, id=request.id))
        if isinstance(request, wire.AskRankSettings):
            script = link.script
            reported = rank_settings.reply(
                request, script.number, list(script.processes(now)), self._epoch + now
            )
            self._put(link, self._clock(), through_the_wire(reported))
        if isinstance(request, wire.AskSystemSettings):
            reported = rank_settings.system_reply(request, link.script.number, self._epoch + now)
            self._put(link, self._clock(), through_the_wire(reported))
        if isinstance(request, wire.AskStacks | wire.AskRas):
            ranks = list(link.script.processes(now))
            reported = hang.reply(request, ranks, now, self._epoch + now)
            self._put(link, self._clock(), through_the_wire(reported))
        if isinstance(request, wire.AskProfile | wire.AskKernels):
            ranks = list(link.script.processes(now))
            self._put(link, self._clock(), through_the_wire(profile.reply(request, ranks, self._epoch + now)))
        if isinstance(request, wire.AskDumpFiles | wire.AskDumpPiece | wire.AskDumps):
            ranks = list(link.script.processes(now))
            reported = link.dumps.answer(request, ranks, now, self._epoch + now)
            self._put(link, self._clock(), through_the_wire(reported))
        if isinstance(request, wire.AskJobFiles | wire.AskJobPiece):
            why = "simulated: the job has no files beside its logs"
            self._put(link, self._clock(), wire.Reply(t=self._epoch + now, seq=0, id=request.id, error=why))
        for frame in link.logs(now).answer(request, now):
            self._put(link, self._clock(), through_the_wire(frame))

    @contextmanager
    def _entered(self) -> Iterator[None]:
        with self._counting:
            self._callers += 1
        with self._changed:
            with self._counting:
                self._callers -= 1
            yield

    def _now(self) -> float:
        """Return the current second of the scenario."""
        return (self._clock() - (self._began or 0.0)) * self._speed

    def _run(self) -> None:
        with self._changed:
            while self._links and self._thread is threading.current_thread():
                self._answer_next()
                link = min(self._links, key=lambda each: each.next)
                self._wait_for(link.next)
                now = self._now()
                if now < link.next:
                    left = (link.next - now) / self._speed
                    pause = LET_IN_S if self._callers else 0.0
                    self._changed.wait(pause if self._asked or self._search() else left)
                    continue
                link.catch_up(now)
                self._play(link, self._clock())
                if self._callers:
                    self._changed.wait(LET_IN_S)

    def _wait_for(self, second: float) -> None:
        """Make the clock stop if the tick at this second of the scenario is late."""
        if self._waiting is not None:
            self._waiting.stop_at((self._began or 0.0) + second / self._speed + MAX_LATE_S)

    def _search(self) -> bool:
        """Search some more lines on one of the nodes with a running search; return False if there is none."""
        busy = [link for link in self._links if link.logs(link.next).searching]
        if not busy:
            return False
        self._turn += 1
        link = busy[self._turn % len(busy)]
        if (frame := link.logs(link.next).work()) is not None:
            self._put(link, self._clock(), through_the_wire(frame))
        return True

    def _play(self, link: DemoLink, at: float) -> None:
        if link.before is None:
            self._put(link, at, LinkStatus("live", start_s=0.2))
            self._put(link, at, CLOCK)
        for frame in link.advance():
            self._put(link, at, frame)

    def _put(self, link: DemoLink, at: float, what: Content) -> None:
        self._inbox.put(Arrival(link.node, at, what))


def through_the_wire(frame: wire.AnyFrame) -> wire.AnyFrame:
    """Return a frame as received from a real node: encoded to JSON and decoded."""
    return wire.decode(wire.encode(frame))


def demo_links(
    plan: Plan, inbox: Inbox, *, start_s: float = 0.0, speed: float = 1.0, clock: DemoClock | None = None
) -> list[Link]:
    """Return the links of the plan's demo nodes, which share one thread.

    Args:
        plan: The nodes.
        inbox: Takes what the links deliver.
        start_s: The second of the scenario to start with; earlier seconds are delivered at once.
        speed: Relative to the clock.
        clock: The session's clock, which waits for ticks that are late; None: the machine's own.
    """
    if clock is None:
        return [*_links(plan, Pump(inbox, start_s, speed))]
    return [*_links(plan, Pump(inbox, start_s, speed, clock.monotonic, clock.wall, clock))]


def arrivals(plan: Plan, seconds: float, ends_at: float) -> list[Arrival]:
    """Return all arrivals that the demo delivers in its first `seconds`, oldest first, without waiting.

    `ends_at`: monotonic time of second `seconds`. Pictures and tests use it.
    """
    inbox = Inbox(limit=1 << 30)
    pump = Pump(inbox, seconds, clock=lambda: ends_at, wall_clock=lambda: EPOCH + seconds)
    for link in _links(plan, pump):
        pump.play_backlog(link)
    return sorted(inbox.drain(), key=lambda arrival: arrival.at)


def _links(plan: Plan, pump: Pump) -> list[DemoLink]:
    names = [spec.name for spec in plan.nodes if spec.link == "demo"]
    scripts = [NodeScript(number, name, len(names), SEED, EPOCH) for number, name in enumerate(names)]
    gap = STAGGER_S / max(1, len(names))
    return [DemoLink(script, gap * script.number, plan.interval_s, pump) for script in scripts]
