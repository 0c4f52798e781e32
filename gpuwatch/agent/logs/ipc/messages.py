"""Builds notices about the log reader, and messages to it about processes."""

import json

from ...ranks.rank_environment import MAX_RANKS, number

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

STUCK = "a read does not return; its mount may be dead"
_WRITER = ("pid", "rank", "local_rank", "job", "start")
ENDLESS_RULE = "it timed out on a line"
ENDLESS = "scanning it timed out"


def of_processes(rows: "list[dict[str, Any]]", launchers: "dict[int, dict[str, Any]]") -> "dict[str, Any]":
    """Return the message to the log reader about processes: files, writers, local ranks, jobs.

    `launchers`: pid -> the `paths` that they write and, if known, their `job`.
    """
    return {
        "do": "processes",
        "writers": [
            dict({key: row[key] for key in _WRITER if key in row}, paths=row["logs"])
            for row in rows
            if row.get("logs")
        ],
        "launchers": [
            dict({key: launchers[pid][key] for key in ("paths", "job") if key in launchers[pid]}, pid=pid)
            for pid in sorted(launchers)
        ],
        "local_ranks": _local_ranks(rows),
        "jobs": sorted({row["job"] for row in rows if row.get("job")}),
    }


def _local_ranks(rows: "list[dict[str, Any]]") -> "dict[int, int]":
    """Return local rank -> global rank, from the ranks' own numbers, else by torchrun's arithmetic.

    Empty unless a single job runs here.
    """
    known: dict[int, set[int]] = {}
    bases: set[tuple[int, int]] = set()
    for row in rows:
        local, rank = row.get("local_rank"), row.get("rank")
        if local is not None and rank is not None:
            known.setdefault(local, set()).add(rank)
        found = row.get("variables", {})
        group, size = number(found, "GROUP_RANK"), number(found, "LOCAL_WORLD_SIZE", 1024)
        if group is not None and size is not None:
            bases.add((group, size))
    if any(len(ranks) > 1 for ranks in known.values()) or len(bases) > 1:
        return {}
    found = {}
    for group, size in bases:
        found.update((local, group * size + local) for local in range(size))
    found.update((local, min(ranks)) for local, ranks in known.items())
    return {local: rank for local, rank in found.items() if rank < MAX_RANKS}


def unsearched(frame: str) -> str:
    """Return an ended reader's file list without its search progress, which the next reader will report."""
    listed = json.loads(frame)
    listed["files"] = [{key: row[key] for key in row if key != "searched_to"} for row in listed["files"]]
    return json.dumps(dict(listed, complete=False))


def no_reader(why: str) -> "dict[str, Any]":
    """Return the notice (keys of `wire.Notice`) that the log reader does not start."""
    return {
        "code": "log_reader_failed",
        "severity": "warning",
        "text": "Logs of this node are not read: the reader process does not start ({}).".format(why[:200]),
        "remedy": "Name another interpreter with `python:` in the hosts file.",
    }


def given_up(count: int) -> "dict[str, Any]":
    """Return the notice that too many log readers are blocked in the kernel."""
    return {
        "code": "log_reader_failed",
        "severity": "critical",
        "text": "Logs of this node are no longer read: {} readers hang in the kernel, on dead mounts.".format(
            count
        ),
        "remedy": "Check the mounts of the files named above, then reconnect: gpuwatch reads the logs again.",
    }


def stuck(path: str, why: str) -> "dict[str, Any]":
    """Return the notice that a file is not read any more, with the reason."""
    return {
        "code": "log_file_stuck",
        "severity": "warning",
        "text": "{} is not read: {}.".format(path, why),
        "remedy": "Look at its mount (`stat {}` on the node)".format(path)
        + ("; it is tried again when the read returns." if why == STUCK else "."),
    }


def slow(rule: str, why: str) -> "dict[str, Any]":
    """Return the notice (keys of `wire.Notice`) that a rule that is too slow is suspended for a file."""
    return {
        "code": "rule_suspended",
        "severity": "warning",
        "text": "Rule {} is no longer applied to that file: {}.".format(rule, why),
        "remedy": "Make its pattern simpler (no nested repetition); it is still tried in other files.",
    }


def stretches_skipped(path: str, stretches: "list[list[int]]") -> "dict[str, Any]":
    """Return the notice on parts of a file that are not searched."""
    _, begin, end = stretches[-1]
    return {
        "code": "log_part_skipped",
        "severity": "warning",
        "text": "{} of {} not searched, {} bytes in all, the last from byte {} to {}: {}.".format(
            "1 part" if len(stretches) == 1 else "{} parts".format(len(stretches)),
            path + (" is" if len(stretches) == 1 else " are"),
            sum(end - begin for _, begin, end in stretches),
            begin,
            end,
            ENDLESS,
        ),
        "remedy": "Look at these lines of the file yourself.",
    }


def behind(path: str, count: int) -> "dict[str, Any]":
    """Return the notice that a file grows faster than it can be read; `count`: bytes not read yet."""
    return {
        "code": "logs_behind",
        "severity": "warning",
        "text": "Reading {} is more than {} MB behind its writer.".format(path, count >> 20),
    }


def crowded(path: str, most: int) -> "dict[str, Any]":
    """Return the notice that a file has more different findings than are stored separately."""
    return {
        "code": "findings_crowded",
        "severity": "warning",
        "text": "{} holds more than {} different findings: the rest is only counted.".format(path, most),
        "remedy": "Look at the file itself; a rule that matches ordinary lines would explain it.",
    }


def ended(why: str, status: "int | None") -> "dict[str, Any]":
    """Return the notice that the log reader ended: by itself (`status`), or `why` it was killed.

    `why`: `work` or `wait` (it hung), or `stopped`.
    """
    what = "was stopped by a signal" if why == "stopped" else "did not finish a request"
    return {
        "code": "log_reader_ended",
        "severity": "warning",
        "text": "The log reader {} and was restarted.".format(
            what if why != "ended" else "ended unexpectedly (status {})".format(status)
        ),
        "remedy": "Please report it with what `gpuwatch hosts check` prints.",
    }
