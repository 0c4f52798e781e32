"""Exceptions of a rank that waited for another one: its own failure is a consequence. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

from gpuwatch.diagnose.incidents.causes.explaining_error import raised_by
from gpuwatch.diagnose.missing_ranks.vanished import CODE as VANISHED
from gpuwatch.diagnose.model.alert import Alert
from gpuwatch.diagnose.model.failure_classes import GENERIC_EXCEPTIONS, REBOOTED

NODE_GONE = frozenset(("node_lost", REBOOTED))
WAIT_ERRORS = frozenset(("TimeoutError", "ConnectionError", "ConnectionResetError", "ConnectionAbortedError"))
"""Exceptions without a module that a lost peer raises; a file server or a data source may raise them too."""
_WAITED = re.compile(r"(?i)\b(?:timed out|timeout|waiting|waited|lost|no (?:answer|reply|response))\b")
_PEER = re.compile(r"(?i)\b(?:rank|peer|worker)[ :=#]{0,2}(\d{1,6})\b")
MAX_READ_CHARACTERS = 1000


def waited_for_another(cause: Alert, alerts: Sequence[Alert]) -> bool:
    """Return True if a cause is an exception, or the end by one, that only reports a wait for another rank.

    Its line names the other rank for which it waited in vain, or it is a time-out or lost connection while
    another node of the group is lost, or another rank vanished.
    """
    raised = cause if cause in GENERIC_EXCEPTIONS else raised_by(cause, alerts)
    if raised is None or not raised.proof:
        return False
    line = f"{raised.fields.get('exception', '')}: {raised.fields.get('what', '')} {raised.proof[0].text}"
    line = line[:MAX_READ_CHARACTERS]
    if _WAITED.search(line) is not None and any(int(n) != raised.rank for n in _PEER.findall(line)):
        return raised.rank is not None
    name = str(raised.fields.get("exception", "")).rpartition(".")[2]
    return name in WAIT_ERRORS and any(_is_gone_elsewhere(each, raised) for each in alerts)


def _is_gone_elsewhere(alert: Alert, raised: Alert) -> bool:
    """Return True if an alert reports a lost node or vanished rank other than those of exception `raised`."""
    if alert.code in NODE_GONE:
        return alert.node != raised.node
    return alert.code == VANISHED and alert.rank != raised.rank
