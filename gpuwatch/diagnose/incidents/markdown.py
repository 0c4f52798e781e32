"""An incident as Markdown, for a chat or a ticket."""

from __future__ import annotations

from collections.abc import Iterator

from gpuwatch.blocks.markdown import markdown
from gpuwatch.blocks.model import Block, Heading, Item, Property, titled
from gpuwatch.diagnose.incidents import content
from gpuwatch.diagnose.model.incident import Incident
from gpuwatch.number_text import plural

NOT_HERE = ("why",)
"""Facts that are left out, because they explain the class in general."""
MAX_EVENTS = 12
MAX_QUOTES = 6


def as_markdown(incident: Incident, *, recorded: bool = False) -> str:
    """Return headline, facts, next steps, evidence with places, and timeline as Markdown.

    `recorded`: the incident comes from a recording, whose content is untrusted.
    """
    return markdown(_blocks(incident, recorded=recorded), "nothing" if recorded else "steps")


def _blocks(incident: Incident, *, recorded: bool) -> Iterator[Block]:
    yield Heading(incident.headline, 2)
    yield from (fact for fact in content.facts(incident) if fact.label not in NOT_HERE)
    if recorded:
        yield Property("source", content.RECORDED)
    yield from titled("What to do", content.steps(incident))
    yield from titled("Evidence", content.quotes(incident)[:MAX_QUOTES])
    events = content.events(incident)
    yield from titled("Timeline", events[:MAX_EVENTS])
    if (left := len(events) - MAX_EVENTS) > 0:
        yield Item(f"and {plural(left, 'more event')}")
