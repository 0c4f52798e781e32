"""The agent's side of the log reader: starts and supervises it, forwards requests and results.

The reader is a separate process: a pattern may block the interpreter forever, and a dead mount any thread
that touches it. If it sends nothing although it works, or does not return from a file, it is killed, and the
next one runs without that rule or file. The thread here is for starting processes, which may take a while,
and lives as long as the agent: the kernel ends the reader together with the thread that started it.
"""

import collections
import json
import os
import select
import threading
import time

from .ipc import messages
from .ipc.child_process import Child
from .ipc.process_stats import cpu_s, own_bytes
from .watchdog.hangs import Hangs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from subprocess import Popen
    from typing import Any, Callable

_POLL_S = 1.0
FULL_BYTES = 2 << 20
"""Received bytes that were not taken yet, at which reading from the reader stops."""
MAX_HANGING = 3
RESTART_S, MAX_RESTART_S = 0.5, 60.0
MAX_AFTER_SCAN_S = 4.0
"""Seconds between readers that hang on lines; each one's culprit is left out by the next."""
KEPT_RECORDS = 4000
"""Kernel-log records kept for a new reader after a hang."""
_KERNEL = b'{"do": "kernel"'
_ANSWERED_BY_LINES = ("tail", "read", "search")


class LogReader(object):
    """The log reader as the agent uses it: takes requests, processes and kernel records, returns frames.

    No method blocks.
    """

    def __init__(self, wake: "Callable[[], None]", config: "dict[str, Any]") -> None:
        self._wake = wake
        self._hangs = Hangs()
        left_out = vars(self._hangs)
        self._config = dict(config, next_id=1, places={}, records=0, began=time.time(), **left_out)
        """The reader's start config, kept up to date for the next reader."""
        self._lock = threading.Lock()
        self._frames: collections.deque[str] = collections.deque()
        self._frames_bytes = 0
        self._requests: collections.deque[bytes] = collections.deque()
        self._wake_pipe = os.pipe()
        for end in self._wake_pipe:
            os.set_blocking(end, False)
        self._child: Child | None = None
        self._hanging: list[tuple[Popen[bytes], str]] = []
        """Killed readers that the kernel still holds, with the file responsible."""
        self._standing: collections.OrderedDict[str, bytes] = collections.OrderedDict()
        """Messages that every reader needs, in their newest version."""
        self._asked: set[int] = set()
        """Requests without their last lines."""
        self._own: dict[str, dict[str, Any]] = {}
        self._its: list[dict[str, Any]] = []
        self._source: str | None = None
        self._kernel_began = False
        """True if this reader received the first kernel-log records (perhaps none)."""
        self._records: list[tuple[float, str]] = []
        """Kernel-log records not yet reported as searched."""
        self._listed = ""
        """The reader's newest file list, as a frame."""

    def start(self) -> None:
        """Start the thread, which starts the reader."""
        thread = threading.Thread(target=self._run, name="logs")
        thread.daemon = True
        thread.start()

    # ----------------------------------------------------------------- for the emitter

    @property
    def notices(self) -> "list[dict[str, Any]]":
        """Return the reader's notices: dicts with the keys of `wire.Notice`."""
        return [self._own[key] for key in sorted(self._own)] + self._its

    @property
    def waiting(self) -> bool:
        """Return True if `take` would return frames of the log reader."""
        return bool(self._frames)

    def take(self) -> "list[str]":
        """Remove the received frames and return them: JSON objects without `v` and `seq`."""
        with self._lock:
            frames, self._frames = list(self._frames), collections.deque()
            was_full, self._frames_bytes = self._frames_bytes >= FULL_BYTES, 0
        if was_full:
            self._nudge()
        return frames

    def ask(self, request: "dict[str, Any]") -> None:
        """Send a request of the cockpit to the reader; its answers are among the frames."""
        if request["do"] in ("leave", "folders"):
            self._stand(request["do"], dict(request, id=None))
        with self._lock:
            if request["do"] in _ANSWERED_BY_LINES:
                self._asked.add(request["id"])
            self._requests.append(_line(request))
        self._nudge()

    def processes(self, rows: "list[dict[str, Any]]", launchers: "dict[int, dict[str, Any]]") -> None:
        """Send the ranks' processes (keys as in `wire.Process`) and their launchers' files to the reader."""
        self._stand("processes", messages.of_processes(rows, launchers))

    def kernel(self, records: "list[tuple[float, str]]", source: "str | None") -> None:
        """Send records of the kernel log to the reader; `source`: where they are from (None: unreadable)."""
        if source != self._source:
            self._source = source
            self._stand("source", {"do": "source", "source": source})
        if records or not self._kernel_began:
            with self._lock:
                if not self._kernel_began:
                    records = self._records + records
                    self._records = []
                self._kernel_began = True
                self._records += records
                self._searched_records(max(0, len(self._records) - KEPT_RECORDS))
                self._requests.append(_line({"do": "kernel", "records": records}))
            self._nudge()

    def cost(self) -> "tuple[float, int]":
        """Return (CPU seconds, private resident bytes) of the running reader; zeros without one."""
        child = self._child
        return (0.0, 0) if child is None else (cpu_s(child.process.pid)[0], own_bytes(child.process.pid))

    # ----------------------------------------------------------------- the thread

    def _run(self) -> None:
        wait_s = RESTART_S
        while len(self._hanging) < MAX_HANGING:
            began = time.monotonic()
            try:
                child = self._child = Child(self._config)
            except (OSError, RuntimeError) as error:
                self._note({"failed": messages.no_reader(str(error))})
                return
            why = self._converse(child)
            self._child = None
            longest = MAX_RESTART_S if self._reap(child, why) else MAX_AFTER_SCAN_S
            wait_s = RESTART_S if time.monotonic() - began > MAX_RESTART_S else min(wait_s, longest)
            time.sleep(wait_s)
            wait_s = min(longest, 2 * wait_s)
        self._note({"failed": messages.given_up(MAX_HANGING)})

    def _converse(self, child: "Child") -> str:
        """Exchange messages with the reader until it ends or hangs; return `ended`, or why as `hangs`."""
        while True:
            self._hand_over(child)
            full = self._frames_bytes >= FULL_BYTES
            reading = [self._wake_pipe[0]] if full else [self._wake_pipe[0], child.output]
            ready, writable, _ = select.select(reading, [child.input] if child.unsent else [], [], _POLL_S)
            if self._wake_pipe[0] in ready:
                os.read(self._wake_pipe[0], 4096)
            if writable and not child.write():
                return "ended"
            if child.output in ready:
                lines = child.read()
                if lines is None:
                    return "ended"
                self._take_in(lines)
            elif full:
                child.receive()
            why = child.hangs()
            if why is not None:
                return why
            self._release()

    def _hand_over(self, child: "Child") -> None:
        with self._lock:
            for name, message in self._standing.items():
                if child.sent.get(name) is not message:
                    child.sent[name] = message
                    child.unsent += message
            child.unsent += b"".join(self._requests)
            self._requests.clear()

    def _take_in(self, lines: "list[str]") -> None:
        frames = []
        for line in lines:
            letter, text = line[:1], line[1:]
            if letter == "B":
                self._take_beat(json.loads(text))
            elif letter == "P":
                self._config["places"].update(json.loads(text))
            elif letter == "N":
                self._its = json.loads(text)
            elif letter == "G":
                self._listed = text
                frames.append(text)
            else:
                if letter == "A" or (letter == "L" and '"done":true' in text[-2000:]):
                    self._asked.discard(json.loads(text)["id"])
                frames.append(text)
        if frames:
            with self._lock:
                self._frames.extend(frames)
                self._frames_bytes += sum(map(len, frames))
            self._wake()

    def _take_beat(self, beat: "dict[str, int]") -> None:
        self._config["next_id"] = beat["next_id"]
        with self._lock:
            self._searched_records(beat["records"] - self._config["records"])

    def _searched_records(self, count: int) -> None:
        """Drop records that the reader has searched; call with the lock held."""
        del self._records[:count]
        self._config["records"] += count

    # ----------------------------------------------------------------- its end

    def _reap(self, child: "Child", why: str) -> bool:
        """Kill and reap the reader, record what it hung on, and answer its open requests.

        Return False if it hung on lines that the next reader leaves out.
        """
        gone = child.kill()
        activity = child.last_activity()
        child.close()
        self._its = []
        if why == "work" and activity.what == "scan":
            self._note(self._hangs.scanning(activity))
        elif why in ("ended", "stopped") or not activity.what:
            status = child.process.returncode if why == "ended" else None
            self._note({"ended": messages.ended(why, status)})
        else:
            self._note(
                self._hangs.touching(activity.path, messages.STUCK if why == "wait" else messages.ENDLESS)
            )
        if not gone:
            self._hanging.append((child.process, activity.path))
        name = activity.rule or activity.path
        self._config["next_id"] += 1000  # findings may be found again: use new ids
        error = "the log reader of this node {} and was restarted".format(
            why if why in ("ended", "stopped") else "hung ({})".format(name or why)
        )
        with self._lock:
            self._kernel_began = False
            self._requests = collections.deque(one for one in self._requests if not one.startswith(_KERNEL))
            if self._listed:
                self._frames.append(messages.unsearched(self._listed))
            for number in sorted(self._asked):
                frame = {
                    "kind": "lines",
                    "t": round(time.time(), 3),
                    "id": number,
                    "done": True,
                    "again": True,
                    "error": error,
                }
                self._frames.append(json.dumps(frame))
            self._asked.clear()
        self._wake()
        return why != "work" or activity.what != "scan"

    def _release(self) -> None:
        """Allow access to a file again once the kernel has ended the reader that hung on it."""
        for process, path in list(self._hanging):
            if process.poll() is not None:
                self._hanging.remove((process, path))
                self._hangs.blocked.pop(path, None)
                self._own.pop("file " + path, None)
                self._stand("blocked", {"do": "blocked", "files": self._hangs.blocked})

    def _stand(self, name: str, message: "dict[str, Any]") -> None:
        line = _line(message)
        with self._lock:
            if self._standing.get(name) == line:
                return
            self._standing[name] = line
        self._nudge()

    def _note(self, notices: "dict[str, Any]") -> None:
        self._own = dict(self._own, **notices)
        self._wake()

    def _nudge(self) -> None:
        try:
            os.write(self._wake_pipe[1], b"!")
        except OSError:
            pass  # full: the thread is already awake


def _line(message: "dict[str, Any]") -> bytes:
    return (json.dumps(message) + "\n").encode("ascii")
