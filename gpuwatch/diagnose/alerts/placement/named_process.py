"""The rank of the process that a line names: by pid, or by a name of its pod, container or file. Pure."""

from __future__ import annotations

import re

from gpuwatch.diagnose.model.failure_classes import PEER_CONNECTION_ERRORS, RENDEZVOUS_TIMEOUTS, TIMEOUTS
from gpuwatch.diagnose.model.rank_index import RankIndex
from gpuwatch.fleet.jobs.places import RankPlace
from gpuwatch.rules.model.failure_class import FailureClass
from gpuwatch.wire import Finding

WAITED_FOR_OTHERS = TIMEOUTS | RENDEZVOUS_TIMEOUTS
OF_OTHERS = WAITED_FOR_OTHERS | PEER_CONNECTION_ERRORS
"""Classes whose lines name another process than the failed one, or than their writer."""
MAX_READ_CHARACTERS = 2000
_PIDS = re.compile(
    r"\b(?:pid|process)(?:\(s\))?['\"]?[ =:#]{1,3}(\d{2,10})\b"
    r"|\b(?:child|subprocess|worker|proc)(?: process)?['\"]?[ =:#]{1,3}(\d{3,10})\b"
    r"|(?<![\w.-])[A-Za-z][\w.:/-]{0,60}\[(\d{2,10})\]:"
    r"|[\[(<](\d{3,10})[\])>]",
    re.IGNORECASE,
)
"""Matches a pid in a line: `reaped pid 5123`, `worker (pid(s) 5123)`, `python[5123]: segfault`."""
_NAME = re.compile(r"(?<![\w.-])(?=[\w.-]{0,80}[0-9-])[A-Za-z0-9][\w.-]{0,80}\w")
"""Matches a word with a digit or hyphen, which may name a process."""


def named_process(
    finding: Finding, node: str | None, stated: FailureClass | None, where: RankIndex
) -> RankPlace | None:
    """Return the rank of the only process that a finding's line names; None: none or several.

    None in a rank's own file, whose writer is known, and for lost peers and timeouts.
    """
    names = where.places.names
    if not names or OF_OTHERS.has(finding.rule, stated) or where.of_file(node, finding.file) is not None:
        return None
    fields = [str(finding.fields[key]) for key in ("pod", "container", "actor") if key in finding.fields]
    words = _NAME.findall(finding.key_line[:MAX_READ_CHARACTERS])
    words = [word for word in words if not word.isdecimal() and word not in (finding.host, node)]
    return where.of_name([*fields, *words], finding.job)


def by_pid(
    finding: Finding, node: str | None, where: RankIndex, job: str | None, *, below: int | None, kernel: bool
) -> RankPlace | None:
    """Return the rank whose pid a rule captured, else the only one whose pid the key line has, or None.

    `below`: the pid that the lines below the key line state.
    """

    def owner(pid: object) -> RankPlace | None:
        """Return the rank of a pid; None: unknown.

        A kernel line gives the pid on the node, a line of a container the pid in it.
        """
        inner = None if kernel else where.by(node, "inner pid", pid, job)
        own = inner or where.by(node, "pid", pid, job) or where.by(node, "child", pid, job)
        return own or where.only("pid", pid, job) or where.of_pid(node, pid, job, kernel=kernel)

    for pid in (below, finding.pid if kernel else None, finding.fields.get("pid"), finding.pid):
        place = None if pid is None else owner(pid)
        if place is not None:
            return place
    line = finding.key_line[:MAX_READ_CHARACTERS]
    named = {int("".join(each)) for each in _PIDS.findall(line)}
    places = [owner(pid) for pid in sorted(named)]
    known = {place.rank: place for place in places if place is not None}
    return next(iter(known.values())) if len(known) == 1 else None
