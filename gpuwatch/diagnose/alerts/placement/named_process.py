"""The rank of the process that a line calls by a name: of its pod, container, actor or log file. Pure."""

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
