"""An incident in a few lines: key line, confidence and next steps; and its headline."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from gpuwatch.blocks.lines import HANG, INDENT, text_lines
from gpuwatch.blocks.model import Line, Property, TextBlock, titled
from gpuwatch.diagnose.incidents import content
from gpuwatch.diagnose.model.alert import Proof
from gpuwatch.diagnose.model.incident import Incident
from gpuwatch.plain import plain
from gpuwatch.report.incidents.text import numbered_code

MAX_KEY_LINE = 400
"""Maximum number of characters shown of the key line."""
SHOWN_FACTS = ("first seen", "confidence")


def brief_lines(incident: Incident, place: Callable[[Proof], str]) -> list[Line]:
    """Return class, key line, time, confidence and next steps. `place`: formats the location of a proof."""
    return [numbered_code(incident), *text_lines(_blocks(incident, place))]


def _blocks(incident: Incident, place: Callable[[Proof], str]) -> Iterator[TextBlock]:
    for quote in content.quotes(incident, lambda _alert, proof: place(proof))[:1]:
        yield Property("key line", quote.place)
        text = quote.text if len(quote.text) <= MAX_KEY_LINE else f"{quote.text[: MAX_KEY_LINE - 3]}..."
        yield Line(f"{' ' * HANG}{plain(text.strip())}", hang=HANG)
    yield from (fact for fact in content.facts(incident) if fact.label in SHOWN_FACTS)
    yield from titled("What to do", content.steps(incident))


def sentence_line(incident: Incident) -> Line:
    """Return the headline: `1  CRITICAL  rank 11 (gpu-002 GPU 3): ...`."""
    text = f"{incident.number}  {incident.severity.upper()}  {incident.headline}"
    return Line(plain(text), incident.severity, hang=len(INDENT))
