"""The fallback's state of one node: lines in, frames out. No I/O, no clock of its own."""

from __future__ import annotations

import itertools
import re
from collections import deque

import msgspec
from msgspec import structs

from gpuwatch import __version__
from gpuwatch.decode_errors import DECODE_ERRORS
from gpuwatch.link.smi import notices
from gpuwatch.link.smi.host_sample import MEMINFO, OTHER_MEMINFO, host_sample, processor_times
from gpuwatch.link.smi.row import MAX_SMI_GPUS, Row, RowError, parse_row
from gpuwatch.wire import (
    NO_PYTHON,
    AnyFrame,
    Event,
    GpuInfo,
    GpuSample,
    Hello,
    HostSample,
    Ping,
    Reply,
    Sample,
)

SILENT_S = 10.0
SILENT_TICKS = 5.0
"""nvidia-smi counts as hung if it wrote nothing for this many ticks and `SILENT_S`."""
QUARTER_S = 900.0
KEPT_WORDS = 4
_STAMP = re.compile(r"\d{4}/\d\d/\d\d ")
_NO_HANDLE = re.compile(r"Unable to determine the device handle for GPU ?(?:\d+: )?([0-9A-Fa-f:.]+): (.+)")
_FACTS = frozenset({"pid", "host", "kernel", "cpus", "boot", "bus", "cpu", "load"})


class SmiNode:
    """Turns the output of nvidia-smi and /proc on one node into frames.

    Call `take` with lines as they arrive, then `frames`.
    """

    def __init__(self, interval_s: float, python: str | None, now: float) -> None:
        """Start without any data.

        Args:
            interval_s: Seconds between two rounds of nvidia-smi.
            python: The interpreter that the hosts file names, if any.
            now: Monotonic seconds.
        """
        self._interval_s = interval_s
        self._facts: dict[str, str] = {}
        self._meminfo: list[str] = []
        self._times: list[int] | None = None
        self._clock: tuple[float, float] | None = None
        """The node's clock at one of our times."""
        self._precise = False
        self._gpus: dict[str, GpuInfo] = {}
        self._lost: dict[str, str] = {}
        self._missing: dict[str, dict[str, str]] = {}
        self._driver: str | None = None
        self._words: deque[str] = deque(maxlen=KEPT_WORDS)
        self._row_at = now
        self._notices = {"python": notices.no_python(python), "starting": notices.starting()}
        self._readings: dict[str, GpuSample] = {}
        self._host: HostSample | None = None
        self._others: list[Event | Reply] = []
        self._sent_hello: Hello | None = None
        self._ready = False
        self._seq = itertools.count()

    def take(self, line: str, now: float) -> str | None:
        """Update the node's state by one sanitized line; return why the line was invalid, or None."""
        key, _, rest = line.partition(" ")
        if not line or OTHER_MEMINFO.fullmatch(line):
            if MEMINFO.fullmatch(line):
                self._meminfo.append(line)
            return None
        if key.startswith("@"):
            return self._take_fact(key[1:], rest, now)
        if _STAMP.match(line):
            try:
                return self._take_row(parse_row(line), now)
            except RowError as error:
                return str(error)
        self._words.append(line)
        self._notices.pop("starting", None)
        gone = _NO_HANDLE.match(line)
        if gone is not None:
            self._take_gone(gone[1], gone[2].rstrip(". "), now)
            return None
        return f'nvidia-smi printed "{line}"'

    def frames(self, now: float) -> list[AnyFrame]:
        """Return a sample with the newest values, then the events and replies since the last call, in order.

        A hello precedes them if its content changed. Empty before the first values.
        """
        if not self._ready:
            return []
        t = self._now(now)
        found: list[AnyFrame] = []
        hello = self._hello()
        if hello != self._sent_hello:
            self._sent_hello = hello
            found.append(structs.replace(hello, t=t, seq=next(self._seq)))
        if self._readings or self._host is not None:
            gpus = list(self._readings.values())
            found.append(Sample(t=t, seq=next(self._seq), gpus=gpus, host=self._host))
        found += [structs.replace(frame, seq=next(self._seq)) for frame in self._others]
        self._readings, self._host, self._others = {}, None, []
        return found

    def _take_fact(self, key: str, rest: str, now: float) -> str | None:
        if key == "at":
            found = re.match(r"(\d{1,12})(\.\d{9})?", rest)
            if found is not None:  # a busybox without %N states whole seconds
                self._clock = float(found[0]), now
                self._precise = found[2] is not None
            self._meminfo = []
        elif key == "ended":
            self._notices.pop("silent", None)
            self._notices.pop("starting", None)
            self._notices["ended"] = notices.ended(list(self._words))
            self._words.clear()
        elif key == "done":
            return self._finish_block(rest, now)
        elif key in _FACTS:
            self._facts[key] = rest
        else:
            return f'a line "@{key}" that is unknown'
        return None

    def _finish_block(self, request: str, now: float) -> str | None:
        self._ready = True
        at = self._clock[0] if self._clock else 0.0
        self._host = host_sample(at, self._facts, self._meminfo, self._times)
        self._times = processor_times(self._facts.get("cpu", ""))
        self._watch(now)
        try:
            ping = msgspec.json.decode(request, type=Ping)
        except DECODE_ERRORS:
            return "an answer without a ping"
        if self._precise:
            self._others.append(Reply(id=ping.id, t=at, seq=0))
        return None

    def _watch(self, now: float) -> None:
        silent_s = now - self._row_at
        if "ended" in self._notices or silent_s < max(SILENT_S, SILENT_TICKS * self._interval_s):
            return
        self._notices["silent"] = notices.silent()
        self._notices.pop("starting", None)
        for uuid in self._gpus:
            if uuid not in self._lost:
                reading = GpuSample(uuid=uuid, state="stuck", stuck_in="nvidia-smi", stuck_s=silent_s)
                self._readings[uuid] = reading

    def _take_row(self, row: Row, now: float) -> str | None:
        self._row_at = now
        self._ready = True
        self._words.clear()
        for code in ("ended", "silent", "starting"):
            self._notices.pop(code, None)
        uuid = row.uuid or self._known(row)
        reason = row.lost()
        if uuid is None or (uuid not in self._gpus and (reason is not None or row.index is None)):
            name = f"GPU {row.index if row.index is not None else row.bus_id or '?'}"
            if len(self._notices) < MAX_SMI_GPUS:
                self._notices[name] = notices.unknown(name, reason or "it does not report its UUID")
            return None
        if uuid not in self._gpus:
            if len(self._gpus) >= MAX_SMI_GPUS:
                return f"more than {MAX_SMI_GPUS} GPUs from nvidia-smi"
            self._gpus[uuid] = row.info(uuid, row.index or 0)
        self._driver = row.driver or self._driver
        self._notices.pop(f"GPU {row.index}", None)
        self._judge(uuid, reason, now)
        reading = row.sample(uuid, self._time_of(row, now))
        missing = row.missing() if reason is None else self._missing.get(uuid, {})
        if missing != self._missing.get(uuid, {}):
            self._missing[uuid] = missing
            reading = structs.replace(reading, missing=missing)
        self._readings[uuid] = reading
        return None

    def _take_gone(self, bus_id: str, words: str, now: float) -> None:
        """Add an event or notice that a GPU is lost; nvidia-smi cannot open it and names only its bus id."""
        for uuid, info in self._gpus.items():
            if info.bus_id is not None and _same_bus(info.bus_id, bus_id):
                self._judge(uuid, words, now)
                self._readings[uuid] = GpuSample(uuid=uuid, state="lost", reason=words)
                return
        if len(self._notices) < MAX_SMI_GPUS:
            self._notices[bus_id] = notices.unknown(f"the GPU at {bus_id}", words)

    def _judge(self, uuid: str, reason: str | None, now: float) -> None:
        """Add an event when a GPU is lost, and when it is back; `reason` None: it answers."""
        before = self._lost.get(uuid)
        if (before is None) == (reason is None):
            return
        index = self._gpus[uuid].index
        if reason is None:
            del self._lost[uuid]
            event = notices.back(self._now(now), index, uuid)
        else:
            self._lost[uuid] = reason
            event = notices.lost(self._now(now), index, uuid, reason)
        self._others.append(event)

    def _known(self, row: Row) -> str | None:
        for uuid, info in self._gpus.items():
            if row.bus_id == info.bus_id if row.bus_id is not None else row.index == info.index:
                return uuid
        return None

    def _now(self, now: float) -> float:
        """Return the node's clock at `now` (monotonic seconds), as unix seconds."""
        at, seen = self._clock or (0.0, now)
        return at + now - seen

    def _time_of(self, row: Row, now: float) -> float:
        """Return the time (unix seconds) at which nvidia-smi made a row.

        Its stamp is the node's local time, whose zone is a multiple of 15 minutes off UTC.
        """
        here = self._now(now)
        return row.at - QUARTER_S * round((row.at - here) / QUARTER_S)

    def _hello(self) -> Hello:
        facts = self._facts
        return Hello(
            t=0.0,
            seq=0,
            host=facts.get("host", ""),
            agent=__version__,
            python=NO_PYTHON,
            pid=_whole(facts.get("pid")) or 0,
            interval_s=self._interval_s,
            gpus=list(self._gpus.values()),
            gpus_expected=_whole(facts.get("bus")),
            notices=list(self._notices.values()),
            driver=self._driver,
            kernel=facts.get("kernel"),
            cpu_count=_whole(facts.get("cpus")),
            boot_id=facts.get("boot"),
        )


def _whole(text: str | None) -> int | None:
    return int(text) if text is not None and re.fullmatch(r"[0-9]{1,9}", text) else None


def _same_bus(one: str, other: str) -> bool:
    """Return True if two PCI addresses are equal, with a domain of four or eight digits."""
    return one.lower().lstrip("0") == other.lower().lstrip("0")
