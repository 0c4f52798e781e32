"""The page with one incident in full: what happened where, what to do, evidence, how to confirm it."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterator

from rich.segment import Segment

from gpuwatch.diagnose.incidents.markdown import RECORDED, proof_place, proofs
from gpuwatch.diagnose.model.incident import UNKNOWN, Incident
from gpuwatch.diagnose.model.text import clock, when
from gpuwatch.diagnose.model.verdict import Confidence
from gpuwatch.number_text import age_text
from gpuwatch.tui.incidents.incident_list import standing_of
from gpuwatch.tui.incidents.incident_timeline import moment_things, rank_rows
from gpuwatch.tui.model.alert_snapshot import severity_shown, sign_shown
from gpuwatch.tui.model.severity import Severity
from gpuwatch.tui.toolkit.lines.item_page import ItemPage, PageItem, command_things, hanging
from gpuwatch.tui.toolkit.lines.rows import Row, heading, wrapped
from gpuwatch.tui.toolkit.styles import clean

PROOF_LINES = 3
"""Lines shown of evidence that is not the cause's; Enter opens all of it."""
CONFIDENCE_TEXT: dict[Confidence, tuple[Severity, str]] = {
    "high": ("ok", "Confidence: high"),
    "medium": ("warning", "Confidence: medium"),
    "low": ("unknown", "Confidence: low"),
}
_COMMAND = re.compile(r"`([^`]+)`")


def command_in(text: str) -> str:
    """Return the first command between backticks in a step of the playbook; without one, the whole step."""
    found = _COMMAND.findall(text)
    return found[0] if found else text


class IncidentHead(ItemPage):
    """The pane with the headline and the confidence of the shown incident, which never scrolls away."""

    DEFAULT_CSS = "IncidentHead { height: 4; background: $surface; overflow-y: hidden; }"

    def __init__(self) -> None:
        super().__init__(id="incident-head")
        self.ident: str | None = None

    def made_for(self) -> Hashable:
        return id(self.view_state.snapshot), self.ident

    def parts(self, width: int) -> Iterator[Row | PageItem]:
        if (ident := self.ident) and (incident := self.view_state.snapshot.incident(ident)):
            yield self._headline(incident, width)
            yield from self._sureness(incident, width)
            if incident.recurrence is not None and incident.recurrence.text:
                head = (Segment(" "), self.look.mark("warning"), Segment(" "))
                yield from hanging(head, incident.recurrence.text, width, self.look.text)

    def action_move(self, dx: int, dy: int) -> None:  # noqa: ARG002 - as every picker has it
        """Move the focus to the pane above or below, because this one has a single item."""
        if dy > 0:
            self.screen.focus_next()
        elif dy < 0:
            self.screen.focus_previous()

    def _headline(self, incident: Incident, width: int) -> PageItem:
        look, severity = self.look, severity_shown(incident)
        style = look.severity[severity] if standing_of(incident) else look.severity[severity] + look.strong
        head = (
            Segment(" "),
            Segment(look.glyph(sign_shown(incident)), look.severity[severity]),
            Segment(" "),
        )
        rows = hanging(head, incident.headline, width, style)
        facts = (
            standing_of(incident, named=True),
            incident.closed or incident.restarted,
            self._began(incident),
            f"job {incident.job}" if incident.job else "",
            "" if incident.code == UNKNOWN else incident.code,
        )
        under = wrapped("  ".join(fact for fact in facts if fact), width, look.dim, indent=3)
        return PageItem("headline", (*rows, *under), incident.cause, clean(incident.headline))

    def _began(self, incident: Incident) -> str:
        """Return when the incident began and how long ago; for an undated cause its bound."""
        wall, cause = self.view_state.wall(), incident.cause
        if cause is None or cause.timed or cause.first != incident.first:
            return f"{clock(incident.first, wall)}, {self.view_state.ago(incident.first)}"
        return when(cause, wall)

    def _sureness(self, incident: Incident, width: int) -> Iterator[Row]:
        severity, words = CONFIDENCE_TEXT[incident.confidence]
        text = f"{words}; {incident.because}" if incident.because else words
        yield from hanging(
            (Segment(" "), self.look.mark(severity), Segment(" ")), text, width, self.look.text
        )


class IncidentDetail(ItemPage):
    """The page with the selected incident in full: what happened where, what to do, evidence."""

    DEFAULT_CSS = "IncidentDetail { width: 1fr; height: 1fr; }"

    def __init__(self) -> None:
        super().__init__(id="incident")
        self.ident: str | None = None
        self.with_moments = False
        """True if it contains the timeline, because there is no room beside it."""

    def incident(self) -> Incident | None:
        """Return the shown incident; None if there is none."""
        return None if self.ident is None else self.view_state.snapshot.incident(self.ident)

    def made_for(self) -> Hashable:
        question = self.view_state.questions.get(self.ident)
        return id(self.view_state.snapshot), self.ident, self.with_moments, question and question.version

    def action_move(self, dx: int, dy: int) -> None:
        """Move the cursor; up from the first item moves the focus to the headline."""
        if dy < 0 and self.at == 0:
            self.screen.focus_previous()
        else:
            super().action_move(dx, dy)

    def parts(self, width: int) -> Iterator[Row | PageItem]:
        incident = self.incident()
        if incident is None:
            return
        yield from self._notes(incident, width)
        yield from self._waited_for(incident, width)
        yield from self._checkpoint(incident, width)
        yield from self._steps(incident, width)
        if self.with_moments:
            yield heading("Timeline", width, self.look)
            yield from moment_things(incident, width, self.look)
        yield from self._evidence(incident, width)
        yield from self._doubt(incident, width)
        yield from self._meaning(incident, width)
        if self.with_moments:
            yield from rank_rows(incident, self.view_state.fleet, width, self.look)

    def _notes(self, incident: Incident, width: int) -> Iterator[Row | PageItem]:
        if not incident.notes:
            return
        yield heading("Notes", width, self.look)
        for number, note in enumerate(incident.notes):
            head = (Segment(f" {self.look.glyphs.slope} ", self.look.dim),)
            at = clock(note.at, self.view_state.wall())
            rows = (
                *hanging(head, note.text, width, self.look.text),
                *wrapped(f"{note.by}  {at}", width, self.look.dim, indent=3),
            )
            yield PageItem(("note", number), rows, text=clean(note.text))

    def _waited_for(self, incident: Incident, width: int) -> Iterator[Row | PageItem]:
        hang_check, question = incident.hang_check, self.view_state.questions.get(incident.id)
        if question is not None and (hang_check is None or hang_check.at < question.at):
            at, sentence, sure = question.at, question.sentence, ""
        elif hang_check is not None:
            at, verdict = hang_check.at, hang_check.verdict
            sentence = verdict.sentence
            sure = f"{CONFIDENCE_TEXT[verdict.confidence][1].lower()}; " if verdict.wrong else ""
        else:
            return
        look = self.look
        yield heading("Hang analysis (stacks)", width, look, f"{self.cockpit.key_of('app.waiting')}: refresh")
        head = (Segment(f" {look.glyphs.slope} ", look.dim),)
        age = age_text(max(0.0, self.view_state.wall() - at))
        rows = hanging(head, f"{sentence} ({sure}sampled {age} ago)", width, look.text)
        yield PageItem("waited-for", rows, text=clean(sentence))
        if hang_check is not None:
            yield from command_things(hang_check.do, width, look, "waited-do")

    def _checkpoint(self, incident: Incident, width: int) -> Iterator[Row | PageItem]:
        last = incident.checkpoint
        if last is None:
            return
        broken = last.complete is False or last.unfinished_step is not None or last.read_pct is not None
        head = (Segment(" "), self.look.mark("warning" if broken else "info"), Segment(" "))
        yield heading("Checkpoint", width, self.look)
        rows = hanging(head, clean(last.text), width, self.look.text)
        yield PageItem("checkpoint", tuple(rows), text=clean(last.path or last.text))

    def _steps(self, incident: Incident, width: int) -> Iterator[Row | PageItem]:
        if not incident.do:
            return
        yield heading("What to do", width, self.look, f"{self.cockpit.key_of('app.copy')} copies")
        if self.view_state.replay is not None:
            yield from wrapped(RECORDED, width, self.look.dim, indent=3)
        for number, step in enumerate(incident.do, 1):
            head = (Segment(f" {number} ", self.look.title),)
            rows = hanging(head, step.replace("`", ""), width, self.look.text)
            yield PageItem(("do", number), rows, text=clean(command_in(step)))

    def _evidence(self, incident: Incident, width: int) -> Iterator[Row | PageItem]:
        shown = proofs(incident)
        if not shown:
            return
        look, opens = self.look, self.cockpit.key_of("move.open")
        yield heading("Evidence", width, look, f"{opens} opens the line" if width >= 50 else "")
        for number, (alert, proof, more) in enumerate(shown):
            bound = "" if proof.timed else "no later than "
            age = "" if proof.at is None else f"{bound}{self.view_state.ago(proof.at)}"
            rest = f"and {more} more of this kind" if more else ""
            place = "  ".join(part for part in (proof_place(alert, proof), age, rest) if part)
            text = wrapped(proof.text or alert.text or alert.title, width, look.text, indent=3)
            if alert is not incident.cause and len(text) > PROOF_LINES:
                text = [*text[: PROOF_LINES - 1], (Segment("   ...", look.dim),)]
            rows = (*text, *wrapped(place, width, look.dim, indent=3))
            yield PageItem(("proof", number, alert.id), rows, alert, clean(proof.text))

    def _doubt(self, incident: Incident, width: int) -> Iterator[Row | PageItem]:
        if not incident.settle:
            return
        yield heading("To confirm", width, self.look)
        for number, text in enumerate(incident.settle):
            head = (Segment(f" {self.look.glyphs.slope} ", self.look.dim),)
            rows = hanging(head, text.replace("`", ""), width, self.look.text)
            yield PageItem(("settle", number), rows, text=clean(command_in(text)))

    def _meaning(self, incident: Incident, width: int) -> Iterator[Row | PageItem]:
        if not (incident.explain or incident.links):
            return
        yield heading("What it means", width, self.look)
        if incident.explain:
            yield from wrapped(incident.explain, width, self.look.text, indent=3)
        for number, link in enumerate(incident.links):
            yield PageItem(
                ("link", number), tuple(wrapped(link, width, self.look.dim, indent=3)), text=clean(link)
            )
