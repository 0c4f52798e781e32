"""An incident as text, as in `scan` and `once`: its facts, evidence and timeline."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import TypeAlias

from gpuwatch.blocks.model import Line, Style
from gpuwatch.diagnose.alerts.deduplication.unexplained import headless
from gpuwatch.diagnose.error_outcome.refutation import remains
from gpuwatch.diagnose.model.alert import Alert, Proof
from gpuwatch.diagnose.model.failure_classes import UNEXPLAINED
from gpuwatch.diagnose.model.incident import HangCheck, Incident, Moment
from gpuwatch.number_text import folded, listed
from gpuwatch.plain import plain
from gpuwatch.report.incidents.json_output import evidence, undated_incident

Place: TypeAlias = Callable[[Proof], str]

INDENT = "   "
LABEL = 12
SHOWN_EVIDENCE = 6
SHOWN_BLOCK = 6
"""Lines shown of a block around its key line."""
SHOWN_MOMENTS = 14
SHOWN_OUTSIDE = 12
MAX_QUOTED_LINE, QUOTE_INDENT = 240, 10
"""Characters shown of the log line of an alert outside of incidents, and its indentation."""


def incident_lines(incident: Incident, place: Place) -> list[Line]:
    """Return everything about an incident except its headline.

    `place` formats the location of a proof: `file:line`, `node file +offset`.
    """
    lines = [
        Line(f"{incident.number:<{len(INDENT)}}{incident.code}", incident.severity),
        fact("first seen", first_seen(incident)),
    ]
    because = f": {incident.because}" if incident.because else ""
    lines.append(fact("confidence", f"{incident.confidence}{because}"))
    lines.append(fact("followers", followers(incident)))
    if incident.restarted:
        lines.append(fact("restarts", incident.restarted))
    if incident.checkpoint is not None:
        lines.append(fact("checkpoint", incident.checkpoint.text))
    lines += remembered_lines(incident)
    silent = [rank for rank in incident.silent if rank != incident.rank]
    if silent:
        lines.append(fact("silent", f"{ranks_text(silent)}: no output while the others reported"))
    if incident.explain:
        lines.append(fact("why", incident.explain))
    lines += timeline_lines(incident.timeline)
    lines += evidence_lines(evidence(incident), place)
    if incident.hang_check is not None:
        lines += hang_check_lines(incident.hang_check)
    lines += steps("what to do", incident.do)
    lines += steps("to confirm", incident.settle)
    return lines


def remembered_lines(incident: Incident) -> list[Line]:
    """Return lines about how often it was seen before, and the operators' notes."""
    seen = incident.recurrence
    lines = [fact("history", seen.text)] if seen is not None and seen.text else []
    return lines + [fact("note", f"{moment(note.at)}, {note.by}: {note.text}") for note in incident.notes]


def hang_check_lines(hang_check: HangCheck) -> list[Line]:
    """Return the hang verdict, its evidence, and next steps as commands."""
    verdict = hang_check.verdict
    sure = f" ({verdict.confidence} confidence)" if verdict.wrong else ""
    lines = [heading(plain(f"hang analysis at {clock(hang_check.at)}: {verdict.sentence}{sure}"))]
    lines += [Line(f"{INDENT}  {plain(each)}") for each in verdict.evidence]
    return lines + steps("commands", [f"{what}: {command}" for what, command in hang_check.do])


def fact(label: str, text: str) -> Line:
    """Return a labelled line: `   confidence  high: ...`."""
    return Line(f"{INDENT}{label:{LABEL}}{plain(text)}", hang=len(INDENT) + LABEL)


def heading(text: str) -> Line:
    """Return the heading of a list."""
    return Line(f"{INDENT}{text}")


def first_seen(incident: Incident) -> str:
    """Return the start with date and zone, marked if it is only a bound."""
    cause = incident.cause
    if not incident.first or undated_incident(incident):
        return "undated: no timestamp near this line"
    if cause is None or cause.timed:
        return moment(incident.first)
    if cause.bound == "after" and cause.not_before is not None:
        return f"at or after {moment(cause.not_before)}: the line has no timestamp"
    return f"before {moment(incident.first)}: the line has no timestamp"


def moment(at: float) -> str:
    """Return unix time as local text: `2026-03-11 09:13:32 UTC`."""
    return datetime.fromtimestamp(at).astimezone().strftime("%Y-%m-%d %H:%M:%S %Z")


def followers(incident: Incident) -> str:
    """Return how many ranks only followed the first failure, with their numbers if these are known."""
    if not incident.followers:
        return "none"
    ranks = sorted({alert.rank for alert in incident.alerts if alert.rank is not None} - {incident.rank})
    named = f" ({ranks_text(ranks)})" if len(ranks) == incident.followers else ""
    return f"{incident.followers}{named}"


def ranks_text(ranks: Sequence[int]) -> str:
    """Return `rank 3`, `ranks 0-2,4-7`."""
    word = "rank" if len(ranks) == 1 else "ranks"
    return f"{word} {folded(ranks)}"


def timeline_lines(moments: Sequence[Moment]) -> list[Line]:
    """Return timeline entries; of a long timeline the beginning and the end."""
    if not moments:
        return []
    shown = [moment_text(moment) for moment in moments]
    if len(shown) > SHOWN_MOMENTS:
        left_out = len(shown) - SHOWN_MOMENTS
        shown = [*shown[: SHOWN_MOMENTS - 3], f"... {left_out} more", *shown[-3:]]
    return [heading("timeline"), *(Line(f"{INDENT}  {text}") for text in shown)]


def moment_text(moment: Moment) -> str:
    """Return an entry as `12:03:11  root   gpu-003 rank 17  Xid 79: fell off the bus`."""
    who = [moment.node] if moment.node else []
    who += [ranks_text(moment.ranks)] if moment.ranks else []
    count = f"  ({moment.count} times)" if moment.count > max(1, len(moment.ranks)) else ""
    bound = f" ({moment.bound})" if moment.bound in ("before", "after") else ""
    return plain(f"{clock(moment.at)}{bound}  {moment.role:5}  {' '.join(who)}  {moment.what}{count}")


def clock(at: float | None) -> str:
    """Return unix time as local time of the day, `12:03:11`; dashes if unknown."""
    return datetime.fromtimestamp(at).astimezone().strftime("%H:%M:%S") if at else "--:--:--"


def evidence_lines(proofs: Sequence[tuple[Alert, Proof]], place: Place) -> list[Line]:
    """Return the location of each proof, and its lines with the key line marked."""
    if not proofs:
        return []
    lines = [heading("evidence")]
    for alert, proof in proofs[:SHOWN_EVIDENCE]:
        lines.append(Line(f"{INDENT}  {plain(place(proof))}  {alert.code}"))
        lines += [Line(f"{INDENT}  {mark} {plain(text)}", look) for mark, text, look in block(proof)]
    more = len(proofs) - SHOWN_EVIDENCE
    return [*lines, heading(f"  and {more} more (--json lists them)")] if more > 0 else lines


def block(proof: Proof) -> Iterable[tuple[str, str, Style]]:
    """Return the lines around the key line as (mark, text, style)."""
    if not proof.lines:
        return [(">", proof.text, "plain")]
    first = max(0, min(proof.key - 1, len(proof.lines) - SHOWN_BLOCK))
    return [
        (">" if number == proof.key else "|", text, "plain" if number == proof.key else "muted")
        for number, text in enumerate(proof.lines)
        if first <= number < first + SHOWN_BLOCK
    ]


def steps(title: str, what: Sequence[str]) -> list[Line]:
    """Return a heading and a numbered list; empty if there is nothing to list."""
    if not what:
        return []
    hang = len(INDENT) + 5
    return [
        heading(title),
        *(Line(f"{INDENT}  {n}. {plain(step)}", hang=hang) for n, step in enumerate(what, 1)),
    ]


def outside_lines(alerts: Sequence[Alert], place: Place) -> list[Line]:
    """Return one line per class of alert that belongs to no incident, most severe first."""
    kinds: dict[str, list[Alert]] = {}
    for alert in alerts:
        kinds.setdefault(alert.code, []).append(alert)
    order = ("critical", "error", "warning", "info")
    sorted_kinds = sorted(kinds.values(), key=lambda kind: order.index(kind[0].severity))
    lines = [line for kind in sorted_kinds[:SHOWN_OUTSIDE] for line in kind_lines(kind, place)]
    more = len(sorted_kinds) - SHOWN_OUTSIDE
    return [*lines, Line(f"and {more} more kinds (--json lists them)")] if more > 0 else lines


def went_on(alert: Alert) -> str:
    """Return how the rank, file or job continued after a recovered alert."""
    if alert.recovered_at is not None:
        return f"continued at {clock(alert.recovered_at)}"
    finished = "the job finished" if alert.rank is None else "the rank finished"
    return finished if alert.recovered_step is None else f"continued at step {alert.recovered_step}"


def kind_lines(alerts: Sequence[Alert], place: Place) -> list[Line]:
    """Return the line of alerts of one class; above `info` also the log line of the first of them."""
    first = alerts[0]
    head = kind_line(alerts, place)
    proof = first.proof[0] if first.proof else None
    if first.severity == "info" or first.code == UNEXPLAINED or proof is None or proof.kind != "line":
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
    whose = f", {ranks_text(ranks)}" if ranks else ""
    at = f"  {place(first.proof[0])}" if first.proof else ""
    over = all(alert.recovered and not remains(alert) for alert in alerts)
    after = f"  {went_on(first)}" if over else ""
    words = f": {first.text}" if first.code == UNEXPLAINED and first.text else ""
    return Line(
        plain(f"{first.severity:8}  {first.code}  {first.title}{words}{times}{where}{whose}{after}{at}"),
        first.severity,
    )
