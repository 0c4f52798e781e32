"""Exceptions of a rank that waited for another one: its own failure is a consequence. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

from gpuwatch.diagnose.incidents.causes.explaining_error import raised_by
from gpuwatch.diagnose.model.alert import Alert
from gpuwatch.diagnose.model.failure_classes import GENERIC_EXCEPTIONS, REBOOTED, VANISHED
from gpuwatch.diagnose.model.rank_index import RankIndex

NODE_GONE = frozenset(("node_lost", REBOOTED))
WAIT_ERRORS = frozenset(("TimeoutError", "ConnectionError", "ConnectionResetError", "ConnectionAbortedError"))
"""Exceptions without a module that a lost peer raises; a file server or a data source may raise them too."""
_WAITED = re.compile(r"(?i)\b(?:timed out|timeout|waiting|waited|lost|no (?:answer|reply|response))\b")
_PEER = re.compile(r"(?i)\b(?:rank|peer|worker)[ :=#]{0,2}(\d{1,6})\b(?!\.\d)")
_HOST = re.compile(
    r"(?i)\b(?:node|host|peer|worker|for|from|to|with)[ :=]{1,2}(?!(?:node|host|peer|worker)\b)"
    r"([a-z0-9][a-z0-9._-]{0,252})"
)
_ERRNO = re.compile(r"\[Errno \d{1,4}\]")
_PLACE = re.compile(r"[/@=\d'\"]|\w\.\w")
"""What a line has that names the peer that it waited for: a path, an address, a number, a quoted name."""
MAX_READ_CHARACTERS = 1000


def waited_for_another(cause: Alert, alerts: Sequence[Alert], where: RankIndex) -> bool:
    """Return True if a cause is an exception, or the end by one, that only reports a wait for another rank.

    Its line names the other rank, or a node that is not its own, for which it waited in vain; or it is a
    time-out or lost connection while another node of the group is lost, or another rank vanished.
    """
    raised = _raised(cause, alerts)
    if raised is None:
        return False
    line = f"{raised.fields.get('exception', '')}: {raised.fields.get('what', '')} {raised.proof[0].text}"
    line = line[:MAX_READ_CHARACTERS]
    if _WAITED.search(line) is not None and any(int(n) != raised.rank for n in _PEER.findall(line)):
        return raised.rank is not None
    if _WAITED.search(line) is not None and raised.node is not None:
        named = {where.named(host.rstrip(".-_")) for host in _HOST.findall(line)}
        if named - {None, raised.node}:
            return True
    return _is_wait(raised) and any(_is_gone_elsewhere(each, raised) for each in alerts)


def waited_for_something(cause: Alert, alerts: Sequence[Alert], where: RankIndex, job: str | None) -> bool:
    """Return True if a cause is a bare time-out or lost connection of a job of several ranks.

    Its line does not name the peer that the rank waited for: another rank may be the cause, which gpuwatch
    learns up to half a minute later where that rank's node is lost.
    """
    raised = _raised(cause, alerts)
    if raised is None or not _is_wait(raised):
        return False
    what = _ERRNO.sub("", str(raised.fields.get("what", ""))[:MAX_READ_CHARACTERS])
    return _PLACE.search(what) is None and len(where.world(job)) > 1


def _raised(cause: Alert, alerts: Sequence[Alert]) -> Alert | None:
    raised = cause if cause in GENERIC_EXCEPTIONS else raised_by(cause, alerts)
    return raised if raised is not None and raised.proof else None


def _is_wait(raised: Alert) -> bool:
    return str(raised.fields.get("exception", "")).rpartition(".")[2] in WAIT_ERRORS


def _is_gone_elsewhere(alert: Alert, raised: Alert) -> bool:
    """Return True if an alert reports a lost node or vanished rank other than those of exception `raised`."""
    if alert.code in NODE_GONE:
        return alert.node != raised.node
    return alert.code == VANISHED and alert.rank != raised.rank
