"""Lowers stated losses that a later line of the same log reports as repaired. Pure.

Example: below `node gpu-17 is unreachable`, the line `gpu-17 is reachable again` is a repair; `gpu-18 is up`
is not. A count is repaired by the same line with a larger count.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from gpuwatch.diagnose.error_outcome.by_lines.recovery_by_lines import Reader
from gpuwatch.diagnose.model.alert import Alert
from gpuwatch.diagnose.past_jobs.recovered_alerts import with_recovered
from gpuwatch.diagnose.stated_loss.statement import stated_loss
from gpuwatch.runs.files.excerpts.around import Around

MAX_NAMES = 2
"""Number of names nearest to the loss of which a repair must repeat one."""
SHARED_WORDS = 2
"""Number of words that a repair must share with a loss that has no name."""
_GOOD = re.compile(
    r"(?i)\b(?:recovered|restored|repaired|replaced|is back|came back|back (?:up|online|in)|up again"
    r"|is up|are up"
    r"|active(?: again)?|online|reachable|healthy|in sync|(?:re)?synced|rejoined|joined|reconnected|restarted"
    r"|respawned|succeeded|saved|written|wrote|uploaded|committed|finali[sz]ed|completed?|available"
    r"|responding|responds"
    r"|answers|ready|running|rebuilt|finite|resolved|cleared|deasserted|ok|all \d+)\b"
)
_BAD = re.compile(
    r"(?i)\b(?:not|never|no longer|fail\w*|lost|un\w+able|cannot|still|down|inactive|dead|n't)\b"
)
_NAME = re.compile(
    r"(?i)\b(?!\d)(?:[a-z][\w./-]{0,80}?[a-z_-]\d[\w.-]{0,80}|(?:gpu|nvlink|link|port|rail|fan|pump|psu|supply"
    r"|rank|worker|node"
    r"|host|expert|replica|shard|disk|drive|pod|task|process|step|iteration|checkpoint|layer) ?#?\d{1,9})\b"
)
"""Matches a name with a number: `gpu-17`, `mlx5_3`, `NVLink 7`."""
_COUNT = re.compile(r"(?<![\d.,])(\d{1,9}) ?(?:of|out of|/) ?(?:the )?(\d{1,9})(?![\d.])")
_WORD = re.compile(r"[A-Za-z]{4,}")
_NUMBER = re.compile(r"\d+")
_COMMON = frozenset(
    ("warning", "error", "info", "this", "that", "with", "from", "have", "will", "been", "were", "later")
)
_STAMP = re.compile(r"\d{4}[-/.]\d\d[-/.]\d\d[T ]?\d\d:\d\d:\d\d\S*|\b\d\d:\d\d:\d\d\S*")


def with_repairs(alerts: Sequence[Alert], read: Reader) -> list[Alert]:
    """Return the alerts; a stated loss that a later line repairs becomes `info`.

    `read`: returns the lines around an alert, None if they are unknown.
    """
    return with_recovered(alerts, read, _states_loss, _is_repaired_below)


def _states_loss(alert: Alert) -> bool:
    return alert.severity == "warning" and stated_loss(_text(alert)) is not None


def _is_repaired_below(alert: Alert, around: Around) -> bool:
    return is_repaired(_text(alert), (*around.below, *around.last))


def _text(alert: Alert) -> str:
    return alert.proof[0].text if alert.proof else ""


def is_repaired(line: str, below: Iterable[str]) -> bool:
    """Return True if a line below `line`, which reports a loss, states that the lost part is back."""
    text = _STAMP.sub(" ", line)
    loss = stated_loss(line)
    at = text.find(loss.sign) if loss is not None else -1
    names = [found.group().lower() for found in _NAME.finditer(text)]
    before = [found.group().lower() for found in _NAME.finditer(text, 0, max(0, at))] if at > 0 else []
    count = _COUNT.search(text)
    words = {word.lower() for word in _WORD.findall(text)} - _COMMON
    for each in below:
        later = _STAMP.sub(" ", each)
        if count is not None and _counts_more(text, count, later):
            return True
        if not _GOOD.search(later) or _BAD.search(later):
            continue
        lowered = later.lower()
        wanted = (before or names)[-MAX_NAMES:]
        if wanted:
            if all(re.search(re.escape(name) + r"(?!\d)", lowered) for name in wanted):
                return True
        elif count is None and len(words & {word.lower() for word in _WORD.findall(later)}) >= SHARED_WORDS:
            return True
    return False


def _counts_more(text: str, count: re.Match[str], later: str) -> bool:
    """Return True if a later line has the form of the loss, but a larger count of the same total."""
    other = _COUNT.search(later)
    if other is None or int(other[1]) <= int(count[1]) or other[2] != count[2]:
        return False
    form, then = (_NUMBER.sub("#", _message(each)) for each in (text, later))
    return form == then


def _message(text: str) -> str:
    return " ".join(re.sub(r"\b(?:DEBUG|INFO|WARNING|WARN|ERROR)\b", " ", text).split())
