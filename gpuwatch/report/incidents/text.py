"""An incident as text, as in `scan`: its facts, timeline and evidence; and alerts outside of incidents."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

from gpuwatch.blocks.lines import INDENT, text_lines
from gpuwatch.blocks.model import Heading, Item, Line, TextBlock, checks, commands, titled
from gpuwatch.diagnose.alerts.deduplication.unexplained import headless
from gpuwatch.diagnose.error_outcome.refutation import remains
from gpuwatch.diagnose.incidents import content
from gpuwatch.diagnose.model.alert import Alert, Proof
from gpuwatch.diagnose.model.condition import ORDER
from gpuwatch.diagnose.model.failure_classes import UNEXPLAINED
from gpuwatch.diagnose.model.incident import HangCheck, Incident
from gpuwatch.diagnose.model.text import clock, ranks_text
from gpuwatch.number_text import listed
from gpuwatch.plain import plain

Place: TypeAlias = Callable[[Proof], str]

NOT_HERE = ("class", "job")
"""Keys of an incident that are not listed as facts, because the lines above state them."""
SHOWN_EVIDENCE = 6
SHOWN_MOMENTS = 14
SHOWN_LAST_MOMENTS = 3
"""Number of events shown from the end of a long timeline; those in the middle are left out."""
SHOWN_OUTSIDE = 12
MAX_QUOTED_LINE, QUOTE_INDENT = 240, 10
"""Maximum length shown of the log line of an alert outside of incidents, and its indentation."""


def incident_lines(incident: Incident, place: Place) -> list[Line]:
    """Return the report lines of an incident, without its headline.

    `place` formats the location of a proof: `file:line`, `node file +offset`.
    """
    return [numbered_code(incident), *text_lines(_blocks(incident, place))]


def numbered_code(incident: Incident) -> Line:
    """Return the report line with the number and the class of an incident."""
    return Line(f"{incident.number:<{len(INDENT)}}{incident.code}", incident.severity)


def _blocks(incident: Incident, place: Place) -> Iterator[TextBlock]:
    yield from (fact for fact in content.facts(incident) if fact.label not in NOT_HERE)
    yield from titled("Timeline", _shown_events(incident))
    shown = content.quotes(incident, lambda _alert, proof: place(proof))
    yield from titled("Evidence", shown[:SHOWN_EVIDENCE])
    if (more := len(shown) - SHOWN_EVIDENCE) > 0:
        yield Line(f"{INDENT}  and {more} more (--json lists them)")
    if incident.hang_check is not None:
        yield from _hang_check(incident.hang_check)
    yield from titled("What to do", content.steps(incident))
    yield from titled("To confirm", checks(incident.settle))


def _shown_events(incident: Incident) -> list[TextBlock]:
    shown: list[TextBlock] = list(content.events(incident))
    left_out = len(shown) - SHOWN_MOMENTS
    if left_out > 0:
        first = SHOWN_MOMENTS - SHOWN_LAST_MOMENTS
        shown = [*shown[:first], Item(f"... {left_out} more"), *shown[-SHOWN_LAST_MOMENTS:]]
    return shown


def _hang_check(hang_check: HangCheck) -> Iterator[TextBlock]:
    """Yield the blocks of a hang verdict: its sentence, its evidence, and next steps as commands."""
    verdict = hang_check.verdict
    sure = f" ({verdict.confidence} confidence)" if verdict.wrong else ""
    yield Heading(f"Hang analysis at {clock(hang_check.at)}: {verdict.sentence}{sure}")
    yield from map(Item, verdict.evidence)
    yield from titled("Commands", commands(hang_check.do))


def outside_lines(alerts: Sequence[Alert], place: Place) -> list[Line]:
    """Return lines for each class of alert outside of incidents, most severe first; a limited number."""
    kinds: dict[str, list[Alert]] = {}
    for alert in alerts:
        kinds.setdefault(alert.code, []).append(alert)
    sorted_kinds = sorted(kinds.values(), key=lambda kind: ORDER.index(kind[0].severity))
    lines = [line for kind in sorted_kinds[:SHOWN_OUTSIDE] for line in kind_lines(kind, place)]
    more = len(sorted_kinds) - SHOWN_OUTSIDE
    return [*lines, Line(f"and {more} more kinds (--json lists them)")] if more > 0 else lines


def went_on(alert: Alert) -> str:
    """Return as text how the rank or job continued after a recovered alert, or that it finished."""
    if alert.recovered_at is not None:
        return f"continued at {clock(alert.recovered_at)}"
    finished = "the job finished" if alert.rank is None else "the rank finished"
    return finished if alert.recovered_step is None else f"continued at step {alert.recovered_step}"


def kind_lines(alerts: Sequence[Alert], place: Place) -> list[Line]:
    """Return the line of alerts of one class; above `info` also the log line of the first of them.

    Not the line of an error that no rule explains, which the first line quotes.
    """
    first = alerts[0]
    head = kind_line(alerts, place)
    proof = first.proof[0] if first.proof else None
    if first.severity == "info" or first in UNEXPLAINED or proof is None or proof.kind != "line":
        return [head]
    text = " ".join(headless(proof.text).split())
    text = text if len(text) <= MAX_QUOTED_LINE else f"{text[: MAX_QUOTED_LINE - 3].rstrip()}..."
    return [head, Line(plain(f"{' ' * QUOTE_INDENT}{text}"), hang=QUOTE_INDENT)]


def kind_line(alerts: Sequence[Alert], place: Place) -> Line:
    """Return the line of alerts of one class.

    `warning   rdma.device_unavailable  NET/IB device cannot be opened  12 times on gpu-001  file:4711`.
    """
    first = alerts[0]
    count = sum(alert.count for alert in alerts)
    nodes = sorted({alert.node for alert in alerts if alert.node})
    ranks = sorted({alert.rank for alert in alerts if alert.rank is not None})
    times = f"  {count} times" if count > 1 else ""
    where = f" on {listed(nodes)}" if nodes else ""
    whose = f", {ranks_text(ranks, every=True)}" if ranks else ""
    at = f"  {place(first.proof[0])}" if first.proof else ""
    over = all(alert.recovered and not remains(alert) for alert in alerts)
    after = f"  {went_on(first)}" if over else ""
    words = f": {first.text}" if first in UNEXPLAINED and first.text else ""
    return Line(
        plain(f"{first.severity:8}  {first.code}  {first.title}{words}{times}{where}{whose}{after}{at}"),
        first.severity,
    )
