"""Texts of alerts and incidents: what happened, without the place, from class and fields."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import datetime

from gpuwatch.agent.kernel.xid_table import CATALOGUE, UNKNOWN
from gpuwatch.diagnose.model.alert import Alert
from gpuwatch.diagnose.model.failure_classes import GENERIC_EXCEPTIONS, TIMEOUTS
from gpuwatch.hosts.plan import Allocation
from gpuwatch.number_text import duration, folded, plural, ranges
from gpuwatch.plain import plain
from gpuwatch.rules.model.failure_class import FailureClass

Fields = Mapping[str, str | int | float]

_DETAIL = (
    ("tried", "tried to allocate {}"),
    ("port", "port {}"),
    ("hca", "{}"),
    ("mount", "{}"),
    ("path", "{}"),
    ("exitcode", "exit code {}"),
    ("raised", "{}"),
    ("operation", "{}"),
    ("server", "{}"),
    ("iteration", "iteration {}"),
    ("errors", "{} errors"),
    ("slowdown", "{}"),
    ("test", "{}"),
    ("action", "{}"),
)
"""Pairs: a field that is appended to a headline, and its wording."""
MAX_QUOTED_CHARS = 80
"""Most characters of an exception in a headline."""
NAMES = frozenset(
    ("Slurm", "Ray", "Python", "Gloo", "Horovod", "Kubernetes", "Lustre", "Lightning", "Xid", "Intel")
)
"""Names that keep their capital letter inside a sentence."""


def what(code: str, title: str, fields: Fields, stated: FailureClass | None = None) -> str:
    """Return what happened as text for a headline: `Xid 79, GPU fell off the bus`."""
    xid = fields.get("xid")
    if isinstance(xid, int):
        name, _, known, _ = CATALOGUE.get(xid, UNKNOWN)
        return f"Xid {xid}, {lowered(known if name == code else title)}"
    if TIMEOUTS.has(code, stated):
        where = collective(fields)
        waited = waited_s(fields)
        text = f"timed out in {where}" if where else lowered(title)
        return text if waited is None else f"{text} after {waited:.0f} s"
    if GENERIC_EXCEPTIONS.has(code, stated) and fields.get("exception"):
        return exception(fields)
    details = [
        form.format(fields[name]).removesuffix("s" if (form, fields[name]) == ("{} errors", 1) else "")
        for name, form in _DETAIL
        if fields.get(name) not in (None, "")
    ]
    fresh = [each for each in details if each.lower() not in title.lower() and "(" not in title]
    return f"{lowered(title)} ({fresh[0]})" if fresh else lowered(title)


def exception(fields: Fields) -> str:
    """Return `ValueError: sample 4711 has no label`, shortened for a headline."""
    words = [str(fields[name]) for name in ("exception", "what") if fields.get(name) not in (None, "")]
    words[1:] = [message(each) for each in words[1:]]
    if len(": ".join(words)) > MAX_QUOTED_CHARS:  # the message is more useful than the module of its class
        words[0] = words[0].rpartition(".")[2] or words[0]
    stated = ": ".join(words)
    return shortened(stated, MAX_QUOTED_CHARS)


def shortened(text: str, most: int) -> str:
    """Return a text, cut to `most` characters with `...` at its end if it is longer."""
    return text if len(text) <= most else text[: most - 3].rstrip() + "..."


_SOURCE = re.compile(
    r"^(?:\w{1,40}:)?[\w./+-]{1,200}\.(?:cc|cpp|cu|cxx|hpp|h):\d{1,7}(?:\(\w{1,40}\))? ?:? {0,2}"
)
"""Matches the place in a C++ source at the beginning of a message: `csrc/aio.cpp:281 `."""
_STATUS = re.compile(r"^Check failed: .{1,400}? == \S{1,60}OK\(\) \((.{1,300}?) vs\. OK\)")
"""Matches a failed check of a status, and captures what the status states."""


def message(raised: str) -> str:
    """Return the message of an exception without the C++ source position at its beginning.

    For `Check failed: CALL == Status::OK() (Not found: No session vs. OK)` return `Not found: No session`.
    """
    text = _SOURCE.sub("", raised) or raised
    status = _STATUS.match(text)
    return status[1] if status is not None else text


HALVES = ("send", "recv")
"""Half operations of a collective by which Gloo names a wait; both belong to one operation."""


def collective(fields: Fields) -> str:
    """Return the operation, sequence number included: `ALLREDUCE seq 2381`, as far as known; else ""."""
    parts = []
    if fields.get("op") and fields["op"] not in HALVES:
        parts.append(str(fields["op"]).upper())
    if fields.get("seq") is not None:
        parts.append(f"seq {fields['seq']}")
    return " ".join(parts)


def waited_s(fields: Fields) -> float | None:
    """Return the seconds that an operation had run at its timeout, else the timeout setting.

    None: neither is known.
    """
    for name in ("ran_ms", "timeout_ms"):
        value = fields.get(name)
        if isinstance(value, (int, float)):
            return value / 1000.0
    return None


def lowered(title: str) -> str:
    """Return a title for use inside a sentence: `No space left` becomes `no space left`, `CUDA ...` stays.

    A final period is removed.
    """
    if title.split(" ", 1)[0].rstrip(":'s") in NAMES:
        return title.rstrip(".")
    if title[1:2].islower() or (title[:1] == "A" and title[1:2] == " "):
        title = title[0].lower() + title[1:]
    return title.rstrip(".")


def clock(at: float, now: float | None = None) -> str:
    """Return `12:03:11` in this machine's time zone, with the date if `now` (unix seconds) is another day.

    Times within 12 hours of `now` have no date.
    """
    moment = datetime.fromtimestamp(at).astimezone()
    if now is None or abs(now - at) < 12 * 3600 or datetime.fromtimestamp(now).date() == moment.date():
        return moment.strftime("%H:%M:%S")
    return moment.strftime("%Y-%m-%d %H:%M:%S")


def when(alert: Alert, now: float | None = None) -> str:
    """Return when an alert began: `12:03:11`, `before 12:03:11`, `at or after 12:03:11` or `(undated)`.

    `now`: unix seconds, as for `clock`.
    """
    if alert.timed:
        return clock(alert.first, now)
    if alert.bound == "undated":
        return "(undated)"
    if alert.bound == "after" and alert.not_before is not None:
        return f"at or after {clock(alert.not_before, now)}"
    return f"before {clock(alert.first, now)}"


def unreadable_text(parts: int) -> str:
    """Return the number of unreadable parts as text: `2 parts of the recording cannot be read`."""
    return f"{plural(parts, 'part')} of the recording cannot be read"


_RANKS = re.compile(r"\b(ranks? )(\d)")
NO_RANK_SEEN = (
    "no rank is seen on these nodes: none was started with RANK, SLURM_PROCID or MPI's variables in its "
    "environment, or it is another user's, seen only by its user and by root"
)
"""Text that is shown if no rank is seen.

Ranks may still run, since an unreadable environment hides them.
"""


def allocation_text(allocation: Allocation, wall: float) -> str:
    """Return `job 41 (my run), user ann: RUNNING when gpuwatch started, 29 min left (until 14:26:50)`.

    `wall`: unix seconds.
    """
    named = f" ({plain(allocation.name)})" if allocation.name else ""
    user = f", user {plain(allocation.user)}" if allocation.user else ""
    parts = [f"job {allocation.job}{named}{user}: {allocation.state} when gpuwatch started"]
    if allocation.ends is not None:
        left, moment = allocation.ends - wall, clock(allocation.ends, wall)
        parts.append(f"{duration(left)} left (until {moment})" if left > 0 else f"end {moment}")
    if allocation.restarts:
        parts.append(plural(allocation.restarts, "restart"))
    return ", ".join(parts)


def allocation_words(allocation: Allocation, wall: float) -> str:
    """Return `RUNNING, 29 min left, requeued once`, from the newest scheduler report.

    `wall`: unix seconds.
    """
    parts = [plain(allocation.state)]
    if allocation.ends is not None:
        left = allocation.ends - wall
        parts.append(f"{duration(left)} left" if left > 0 else f"end {clock(allocation.ends, wall)}")
    if allocation.restarts:
        parts.append("requeued once" if allocation.restarts == 1 else f"requeued {allocation.restarts} times")
    return ", ".join(parts)


def job_text(job: str | None) -> str:
    """Return `job 4711`, or `the job` if it has no name."""
    return f"job {job}" if job else "the job"


def ranks_text(ranks: Iterable[int], *, every: bool = False) -> str:
    """Return `rank 3` or `ranks 0-2, 4-7`.

    `every`: name all ranks, in the form of command-line options: `ranks 0-2,4-7`.
    """
    listed = list(ranks)
    numbers = folded(listed) if every else ranges(listed)
    return f"rank {numbers}" if len(listed) == 1 else f"ranks {numbers}"


def guessed(text: str) -> str:
    """Return the text with its rank numbers marked as inferred: `rank ~3`, `ranks ~0-2`."""
    return _RANKS.sub(r"\1~\2", text)


def place(rank: int | None, node: str | None, gpu: int | None) -> str:
    """Return `rank 17 (gpu-003 GPU 1)`, as far as known; "" if nothing is."""
    where = " ".join(([node] if node else []) + ([f"GPU {gpu}"] if gpu is not None else []))
    if rank is None:
        return where
    return f"rank {rank} ({where})" if where else f"rank {rank}"
