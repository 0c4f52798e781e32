"""Decides whether a line states a lasting loss, in any words: predicate, subject, counts and polarity. Pure.

Example: `wrote 0 of 64 shards to /ckpt` and `node gpu-17 is unreachable and was excluded` state one; `wrote
64 of 64 shards`, `no node is unreachable` and `gpu-17 was unreachable and is back` do not.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from gpuwatch.agent.logs.lines.levels import GRAVE, MILD, own_level
from gpuwatch.agent.logs.matching.event_form import is_absent, is_event
from gpuwatch.diagnose.last_lines.polarity import is_live
from gpuwatch.diagnose.stated_loss.noun_places import BEFORE, BEHIND
from gpuwatch.diagnose.stated_loss.predicates import AGED, PREDICATES, Kind
from gpuwatch.diagnose.stated_loss.subjects import class_of
from gpuwatch.rules.model import rule_ids

MAX_LINE_CHARS = 500
"""Longest line that counts as a message (characters); a longer one is data or a command."""
MIN_BAD_SHARE = 0.01
"""Share of damaged parts below which a program may leave them out on purpose."""
REPORTED = rule_ids.JOB_LOSS_REPORTED
"""Failure class of a loss of unknown subject, in an error line or stated as permanent."""
_DISMISSED = re.compile(
    r"(?i)\bdeprecat|\bfuture (?:version|release)|\bby design\b|\bas (?:configured|requested|planned)\b"
    r"|\bon (?:request|purpose)\b|\bby (?:the )?(?:user|admin\w*|operator)\b|\bgracefully\b|\bnormally\b"
    r"|\bscal(?:e|ed|ing)[- ]?(?:down|in)\b|\bkeep(?:ing)?[ _](?:the )?last\b|\brotat\w+|\bclean(?:ed"
    r"|ing)?[- ]?up\b"
    r"|\bdeasserted\b|\bcleared\b|\bfrozen (?:by|as|for|on)\b|\bsave_only_model\b|\bdrop_last\b"
    r"|\bnot (?:an )?error\b"
    r"|\bfrozen (?!for\b|in\b|since\b|by\b)\w+ (?:\w+ )?(?:will|is|are|was|were)\b"
    r"|\b(?:finished|completed|done|exited cleanly)\b.{0,20}\bremoved\b"
    r"|\b(?:aborting|terminating|exiting|stopping|cancelling) (?:the )?(?:run|job|training)\b"
    r"|\bwas (?:\w+ )?until\b|\b(?:enabled|disabled|controlled) by\b|\bheld[- ]out\b|\bplease (?:set|use"
    r"|pass)\b"
)
"""Matches words of a line about what was intended, is over, or is advice."""
_REPAIRED = re.compile(
    r"(?i)(?<!not )(?<!not be )(?<!never )(?<!cannot be )(?<!to be )\b(?:restart(?:ed|ing|s)|relaunch\w*"
    r"|respawn\w*"
    r"|reschedul\w*|recreat\w*|reconnect\w*|fail(?:ing|ed) over|failover|retr(?:y|ying|ied|ies)|trying"
    r"|attempt \d+ of"
    r"|standby|spare|t(?:ook|akes|aking) over|rejoin\w*|re-?sync\w*|rerun|re-?reading|resuming"
    r"|rebuil(?:t|ding)"
    r"|falls? back to (?!the CPU|CPU|PCIe|a single)|falling back to (?!the CPU|CPU|PCIe|a single))\b"
)
"""Matches words behind a loss for what a program does to make up for the loss."""
_LASTS = re.compile(r"(?i)\b(?:is|are|was|were) (?:lost|discarded|gone|dead)\b")
"""Matches predicates of a loss that lasts, whatever its subject."""
_PASSING = re.compile(r"(?i)\b(?:connections?|sockets?|requests?|responses?|packets?|messages?|sessions?)\b")
"""Matches subjects that programs replace, such as connections."""
_SETTING = re.compile(r"\s{2,}(?:- )?[\w.-]{1,60}: [\"'].*[\"']\s*$")
"""Matches an entry of a settings file: an indented name with a quoted value."""
_FOR_GOOD = re.compile(r"(?i)\b(?:permanently|for good|irrecoverabl[ey]|irretrievabl[ey]|beyond repair)\b")
_GENERIC = re.compile(
    r"(?i)\b(?:any \w+|whose \w+|that|which|who)\s$|\b(?:that|which|who) (?:is|are|has|have|do|does)\b"
)
"""Matches words before the predicate of a general statement: `nodes that are down are excluded`."""
_NONE_BEHIND = re.compile(r" (?:no|none|nothing|neither|0)\b")
_INDEX = re.compile(r" ?#?\d{1,6}\b")
_CLAUSE = re.compile(r"[;]\s|\.\s(?=[A-Z])|\)\s?[.:]\s")


class Loss(NamedTuple):
    """A lasting loss that a line states: its class, and the words that state it."""

    code: str
    sign: str


@lru_cache(maxsize=4096)
def stated_loss(line: str) -> Loss | None:
    """Return the lasting loss that a line states; None: it states none, or its level is info or debug."""
    level = own_level(line)
    if level in MILD or len(line) > MAX_LINE_CHARS or _SETTING.match(line) or _DISMISSED.search(line):
        return None
    aged = AGED.search(line)
    if aged is not None and is_event(line, aged.start()):
        return Loss(rule_ids.CKPT_WRITE_FAIL, aged.group())
    if any(
        _is_small(found) for kind, pattern in PREDICATES if kind == "all" for found in pattern.finditer(line)
    ):
        return None
    for kind, pattern in PREDICATES:
        for found in pattern.finditer(line):
            if not _counts(found, kind, level) or not _is_stated(line, found, kind):
                continue
            code = class_of(kind, found.group(), _before(line, found.start()), line[found.end() :][:BEHIND])
            if code is None and _FOR_GOOD.search(line):
                code = REPORTED
            if code is None and level in GRAVE and kind in ("state", "ended", "omitted"):
                code = REPORTED if _LASTS.search(found.group()) and not _PASSING.search(line) else None
            if code is not None:
                return Loss(code, found.group())
    return None


def _before(line: str, start: int) -> str:
    cut = 0
    for found in _CLAUSE.finditer(line, 0, start):
        cut = found.end()
    return line[max(cut, start - BEFORE) : start]


def _is_stated(line: str, found: re.Match[str], kind: Kind) -> bool:
    """Return True if the predicate is an event, and not denied, supposed, counted as 0 or repaired."""
    start, end = found.span()
    if kind == "differ" and (index := _INDEX.match(line, end)) is not None:
        end = index.end()  # `differ between rank 0 and rank 5` counts nothing
    if not is_event(line, start) or is_absent(line, end) or _GENERIC.search(line, 0, start):
        return False
    if _REPAIRED.search(line, end) or _NONE_BEHIND.match(line, end):
        return False
    masked = f"{line[:start]}{'~' * (end - start)}{line[end:]}"
    return is_live(masked[:end] if kind == "leak" else masked, start, end, lasting=True)


def _is_small(found: re.Match[str]) -> bool:
    """Return True if the damaged share is below MIN_BAD_SHARE: a program may leave it out on purpose."""
    bad, whole = found.groupdict().get("bad"), found.groupdict().get("whole")
    if bad is None or whole is None:
        return False
    return int(bad.replace(",", "")) < MIN_BAD_SHARE * int(whole.replace(",", ""))


def _counts(found: re.Match[str], kind: Kind, level: str | None) -> bool:
    """Return True if the counts of a predicate show a loss."""
    values = {
        name: int(text.replace(",", "")) for name, text in found.groupdict().items() if text is not None
    }
    if "have" in values:
        have, want = values["have"], values["want"]
        if (
            kind == "few"
            and have
            and (level is None or _WORK.match(found.group()))
            and not _STANDING.search(found.group())
        ):
            return False  # the counter of work in progress
        return have < want
    bad, whole = values.get("bad"), values.get("whole")
    return bad is None or (bad > 0 and (whole is None or bad <= whole))


_WORK = re.compile(r"(?i)(?:load|read|download|join|receiv|fetch|copied|decod|found|got|joined)")
_STANDING = re.compile(
    r"(?i)\b(?:up|active|alive|online|healthy|left|usable|available|visible|reachable|remain\w*|survived"
    r"|only|just"
    r"|merely|running (?:on|with)|runs (?:on|with)|going on|goes on|continu\w+|proceeding|spinning"
    r"|responding)\b"
)
"""Matches words with which a count states a condition, not the progress of work."""
