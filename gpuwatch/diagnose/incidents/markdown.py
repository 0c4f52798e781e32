"""An incident as Markdown, for a chat or a ticket."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator

from gpuwatch.diagnose.model.alert import Alert, Proof
from gpuwatch.diagnose.model.incident import Incident, Moment
from gpuwatch.diagnose.model.text import clock
from gpuwatch.number_text import plural, ranges
from gpuwatch.plain import plain

MAX_MOMENTS = 12
"""Lines of the timeline."""
MAX_PROOFS = 6
"""Items of evidence: all of the cause, then the first of every other kind of alert."""
_SPECIAL = re.compile(r"([\\`*_\[\]<>#|~])")
_LINKED = re.compile(r"@|://|(?i:\bwww\.)")
"""Words that a chat would turn into a mention or a link: `@everyone`, `http://...`."""


def proofs(incident: Incident) -> list[tuple[Alert, Proof, int]]:
    """Return the evidence of an incident: alert, proof, and how many more alerts of its class exist.

    All of the cause, then the first of each other class; at most MAX_PROOFS.
    """
    cause, found, seen = incident.cause, [], set()
    if cause is not None:
        by_text = {
            proof.text: proof for proof in reversed(cause.proof)
        }  # a line and its event state the same
        found = [(cause, proof, 0) for proof in cause.proof if by_text[proof.text] is proof]
        seen.add(cause.code)
    for alert in incident.alerts:
        if alert.code not in seen and alert.proof:
            seen.add(alert.code)
            more = sum(each.count for each in incident.alerts if each.code == alert.code) - 1
            found.append((alert, alert.proof[0], more))
    return found[:MAX_PROOFS]


def proof_place(alert: Alert, proof: Proof) -> str:
    """Return the source of a proof as text: node, rank, file, as far as known."""
    node = proof.node or alert.node
    rank = None if alert.rank is None else f"rank {alert.rank}"
    parts = (node, rank, proof.file)
    return "  ".join(part for part in parts if part)


def offset_text(seconds: float) -> str:
    """Return the time since the cause, `+30.1s` or `+12m`; `seconds` may be negative."""
    sign = "-" if seconds < -0.05 else "+"
    size = abs(seconds)
    if size < 100:
        return f"{sign}{size:.1f}s"
    return f"{sign}{size / 60:.0f}m" if size < 6000 else f"{sign}{size / 3600:.0f}h"


def since_cause(moment: Moment, incident: Incident) -> str:
    """Return the time since the cause, `+30.1s`, or `after` if the line has no timestamp, only a bound."""
    if moment.bound is not None:
        return moment.bound
    return offset_text(moment.at - _zero(incident))


def _zero(incident: Incident) -> float:
    """Return the time from which the offsets in the timeline count (unix seconds).

    A cause without a timestamp has no time of its own: the first timed event counts instead.
    """
    if incident.cause is None or incident.cause.timed:
        return incident.first
    return next((each.at for each in incident.timeline if each.bound is None and each.at), incident.first)


def who(moment: Moment) -> str:
    """Return `rank 85 on gpu-003`, `127 ranks: 0-84, 86-127`, the node, or ""."""
    if len(moment.ranks) == 1:
        text = f"rank {moment.ranks[0]}"
        return f"{text} on {moment.node}" if moment.node else text
    if moment.ranks:
        return f"{plural(len(moment.ranks), 'rank')}: {ranges(moment.ranks)}"
    return moment.node or ""


RECORDED = "a recording, whose text is untrusted; check a command before you run it"
"""Warning beside the steps of an incident that comes from a recording."""


def as_markdown(incident: Incident, *, recorded: bool = False) -> str:
    """Return headline, facts, next steps, evidence with places, and timeline as Markdown.

    `recorded`: the incident comes from a recording, whose content is untrusted.
    """
    facts = [*_facts(incident), *([f"- source: {RECORDED}"] if recorded else [])]
    lines = [f"## {_escaped(incident.headline)}", "", *facts, *_sections(incident, recorded=recorded)]
    return "\n".join(lines) + "\n"


def _escaped(text: str) -> str:
    """Return text of a log or node with markup escaped; possible mentions and links become code."""
    return " ".join(
        f"`{word.replace('`', '')}`" if _LINKED.search(word) else _SPECIAL.sub(r"\\\1", word)
        for word in plain(text).split()
    )


def _facts(incident: Incident) -> Iterator[str]:
    first = time.strftime("%Y-%m-%d %H:%M:%S %Z", time.localtime(incident.first))
    yield f"- first seen: {first}"
    yield f"- class: `{plain(incident.code).replace('`', '')}`, {incident.severity}"
    if incident.job is not None:
        yield f"- job: {_escaped(incident.job)}"
    because = f" ({_escaped(incident.because)})" if incident.because else ""
    yield f"- confidence: {incident.confidence}{because}"
    if incident.followers:
        yield f"- followers: {incident.followers}"
    if incident.recurrence is not None and incident.recurrence.text:
        yield f"- history: {_escaped(incident.recurrence.text)}"
    for note in incident.notes:
        at = time.strftime("%Y-%m-%d %H:%M %Z", time.localtime(note.at))
        yield f"- note of {_escaped(note.by)}, {at}: {_escaped(note.text)}"
    if incident.checkpoint is not None:
        yield f"- checkpoint: {_escaped(incident.checkpoint.text)}"


def _sections(incident: Incident, *, recorded: bool) -> Iterator[str]:
    if incident.do:
        yield from ("", "### What to do", "")
        steps = (_escaped(step) if recorded else " ".join(plain(step).split()) for step in incident.do)
        yield from (f"{number}. {step}" for number, step in enumerate(steps, 1))
    found = proofs(incident)
    if found:
        yield from ("", "### Evidence")
    for alert, proof, more in found:
        offset = "" if proof.offset is None else f" +{proof.offset}"
        others = f", and {more} more of this kind" if more else ""
        yield from ("", f"{_escaped(proof_place(alert, proof))}{offset}{others}:", "")
        yield from _block(proof.lines or (proof.text,))
    if incident.timeline:
        yield from ("", "### Timeline", "")
    for moment in incident.timeline[:MAX_MOMENTS]:
        at = f"{clock(moment.at)} {since_cause(moment, incident)}"
        yield f"- {at} {_escaped(moment.what)}: {_escaped(who(moment))}"
    if left := len(incident.timeline) - MAX_MOMENTS:
        yield from ([f"- and {plural(left, 'more event')}"] if left > 0 else ())


def _block(lines: tuple[str, ...]) -> Iterator[str]:
    """Yield log lines in a fence that none of them can close."""
    texts = [plain(line) for line in lines]
    longest = max((len(run) for text in texts for run in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    yield from (fence, *texts, fence)
