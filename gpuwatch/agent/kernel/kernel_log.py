"""Reads the NVIDIA driver's errors (Xid, SXid) from the kernel log."""

import time

from .kernel_sources import Journal, Kmsg, journal_command, open_kmsg
from .xid_lines import event

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable, Iterable

HISTORY_S = 24 * 3600.0
"""Seconds before the start for which events are reported."""
SAME_EVENT_S = 60.0
"""Seconds within which equal errors of one GPU are one event with a count."""
MAX_EVENTS = 256
RETRY_S = 60.0
"""Seconds after which a source that ended (a restarted journal) is reopened."""

UNREADABLE = {
    "code": "kernel_log_unreadable",
    "text": "The kernel log cannot be read: only Xid errors that NVML reports while gpuwatch runs are shown.",
    "severity": "info",
    "remedy": "Put the user into the group adm or systemd-journal, or set kernel.dmesg_restrict=0 (sysctl).",
}


class KernelLog(object):
    """Follows the kernel log without blocking.

    `source`: where it is read (None: nowhere); `notice`: the user's notice then; both may change when a
    source ends. Create it in a thread that lives as long as the agent: a child started here ends with that
    thread.
    """

    def __init__(
        self,
        clock: "Callable[[], float]" = time.time,
        kmsg: str = "/dev/kmsg",
        journal: "list[str] | None" = None,
        monotonic: "Callable[[], float]" = time.monotonic,
    ) -> None:
        self._clock = clock
        self._monotonic = monotonic
        self._kmsg = kmsg
        self._journal = journal
        self._reader = self._open()
        self._not_before = clock() - HISTORY_S
        self._retry_at: float | None = None
        self.records: list[tuple[float, str]] = []
        """(unix seconds, text) of the last poll: those behind the events, and all others."""

    @property
    def source(self) -> "str | None":
        """Return the source of the log, `/dev/kmsg` or `journalctl`; None: it cannot be read."""
        return None if self._reader is None else self._reader.name

    @property
    def notice(self) -> "dict[str, object] | None":
        """Return a notice (keys of `wire.Notice`) while the log cannot be read, else None."""
        return dict(UNREADABLE) if self._reader is None else None

    def poll(self) -> "list[dict[str, object]]":
        """Return the events since the last poll, oldest first; the first time those of the last 24 hours.

        Empty while the log cannot be read. `records` then has all lines since.
        """
        self.records = []
        if self._reader is None and self._retry_at is not None and self._clock() >= self._retry_at:
            self._reader = self._open()
        if self._reader is None:
            return []
        try:
            records = self._reader.read()
        except OSError:
            self.close()
            self._not_before, self._retry_at = self._clock(), self._clock() + RETRY_S
            return []
        self.records = [(t, text) for t, text in records if t >= self._not_before]
        return gather(self.records)

    def close(self) -> None:
        """Close the log; a child process is ended and reaped."""
        self._retry_at = None
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    def _open(self) -> "Kmsg | Journal | None":
        descriptor = open_kmsg(self._kmsg)
        if descriptor is not None:
            return Kmsg(descriptor, self._clock, self._monotonic)
        command = self._journal or journal_command()
        if command is None:
            return None
        try:
            return Journal(command)
        except OSError:
            return None


def gather(records: "Iterable[tuple[float, str]]") -> "list[dict[str, object]]":
    """Return the events in (unix seconds, text) records; equal ones close together become one with a `count`.

    A line about a lost GPU next to its own Xid 79 is dropped. Of very many events the newest `MAX_EVENTS` are
    returned, after an event that counts the others.
    """
    events: list[dict[str, object]] = []
    latest: dict[tuple[object, ...], tuple[float, dict[str, object]]] = {}
    for t, text in records:
        found = event(text)
        if found is None:
            continue
        key = (found["event"], found["code"], found.get("bus_id"))
        before = latest.get(key)
        if before is not None and t - before[0] <= SAME_EVENT_S:
            same = before[1]
            count = same["count"]
            same["count"] = (count if isinstance(count, int) else 0) + 1
        else:
            same = dict(found, t=t, count=1)
            events.append(same)
        latest[key] = (t, same)
    fallen = {one.get("bus_id") for one in events if one["code"] == 79}
    news = [one for one in events if one["code"] is not None or one.get("bus_id") not in fallen]
    return news if len(news) <= MAX_EVENTS else [_left_out(news[:-MAX_EVENTS])] + news[-MAX_EVENTS:]


def _left_out(events: "list[dict[str, object]]") -> "dict[str, object]":
    title = "{} older errors in the kernel log are not listed".format(len(events))
    return {
        "event": "agent",
        "code": None,
        "title": title,
        "severity": "info",
        "source": "kernel",
        "t": events[-1]["t"],
    }
