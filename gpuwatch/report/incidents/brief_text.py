"""An incident in a few lines: key line, confidence and next steps; and its headline."""

from __future__ import annotations

from collections.abc import Callable

from gpuwatch.blocks.model import Line
from gpuwatch.diagnose.model.alert import Proof
from gpuwatch.diagnose.model.incident import Incident
from gpuwatch.plain import plain
from gpuwatch.report.incidents.json_output import evidence
from gpuwatch.report.incidents.text import INDENT, LABEL, fact, first_seen, steps

MAX_KEY_LINE = 400
"""Characters shown of the key line."""
HANG = len(INDENT) + LABEL


def brief_lines(incident: Incident, place: Callable[[Proof], str]) -> list[Line]:
    """Return class, key line, time, confidence and next steps. `place`: formats the location of a proof."""
    because = f": {incident.because}" if incident.because else ""
    return [
        Line(f"{incident.number:<{len(INDENT)}}{incident.code}", incident.severity),
        *key_lines(incident, place),
        fact("first seen", first_seen(incident)),
        fact("confidence", f"{incident.confidence}{because}"),
        *steps("what to do", incident.do),
    ]


def key_lines(incident: Incident, place: Callable[[Proof], str]) -> list[Line]:
    """Return the location of the line that names the cause, and the line; empty if there is no evidence."""
    proofs = evidence(incident)
    if not proofs:
        return []
    proof = proofs[0][1]
    text = proof.text if len(proof.text) <= MAX_KEY_LINE else f"{proof.text[: MAX_KEY_LINE - 3]}..."
    return [fact("key line", place(proof)), Line(f"{' ' * HANG}{plain(text.strip())}", hang=HANG)]


def sentence_line(incident: Incident) -> Line:
    """Return the headline: `1  CRITICAL  rank 11 (gpu-002 GPU 3): ...`."""
    text = f"{incident.number}  {incident.severity.upper()}  {incident.headline}"
    return Line(plain(text), incident.severity, hang=len(INDENT))
