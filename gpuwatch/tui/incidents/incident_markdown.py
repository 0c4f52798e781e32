"""An incident as Markdown, for a chat or a ticket."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator

from gpuwatch.diagnose.model.incident import Incident
from gpuwatch.diagnose.model.text import clock, plural
from gpuwatch.tui.incidents.incident_detail import proof_place, proofs
from gpuwatch.tui.incidents.incident_timeline import offset_text, who
from gpuwatch.tui.toolkit.styles import clean

MAX_MOMENTS = 12
"""Lines of the timeline."""
_SPECIAL = re.compile(r"([\\`*_\[\]<>#|~])")
_LINKED = re.compile(r"@|://|(?i:\bwww\.)")
"""In a word: `@everyone`, `http://...`."""


def as_markdown(incident: Incident) -> str:
    """The sentence, the facts, what to do, the evidence with its places, and the timeline."""
    return "\n".join([f"## {_plain(incident.headline)}", "", *_facts(incident), *_sections(incident)]) + "\n"


def _plain(text: str) -> str:
    """Text of a log or a node that is no markup; what a chat makes a mention or a link of is code."""
    return " ".join(
        f"`{word.replace('`', '')}`" if _LINKED.search(word) else _SPECIAL.sub(r"\\\1", word)
        for word in clean(text).split()
    )


def _facts(incident: Incident) -> Iterator[str]:
    first = time.strftime("%Y-%m-%d %H:%M:%S %Z", time.localtime(incident.first))
    yield f"- first seen: {first}"
    yield f"- class: `{clean(incident.code).replace('`', '')}`, {incident.severity}"
    if incident.job is not None:
        yield f"- job: {_plain(incident.job)}"
    because = f" ({_plain(incident.because)})" if incident.because else ""
    yield f"- confidence: {incident.confidence}{because}"
    if incident.followers:
        yield f"- followers: {incident.followers}"
    if incident.checkpoint is not None:
        yield f"- checkpoint: {_plain(incident.checkpoint.text)}"


def _sections(incident: Incident) -> Iterator[str]:
    if incident.do:
        yield from ("", "### What to do", "")
        yield from (
            f"{number}. {' '.join(clean(step).split())}" for number, step in enumerate(incident.do, 1)
        )
    found = proofs(incident)
    if found:
        yield from ("", "### Evidence")
    for alert, proof, more in found:
        offset = "" if proof.offset is None else f" +{proof.offset}"
        others = f", and {more} more of this kind" if more else ""
        yield from ("", f"{_plain(proof_place(alert, proof))}{offset}{others}:", "")
        yield from _block(proof.lines or (proof.text,))
    if incident.timeline:
        yield from ("", "### Timeline", "")
    for moment in incident.timeline[:MAX_MOMENTS]:
        at = f"{clock(moment.at)} {offset_text(moment.at - incident.first)}"
        yield f"- {at} {_plain(moment.what)}: {_plain(who(moment))}"
    if left := len(incident.timeline) - MAX_MOMENTS:
        yield from ([f"- and {plural(left, 'more event')}"] if left > 0 else ())


def _block(lines: tuple[str, ...]) -> Iterator[str]:
    """Lines of a log between fences that none of them can close."""
    texts = [clean(line) for line in lines]
    longest = max((len(run) for text in texts for run in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    yield from (fence, *texts, fence)
