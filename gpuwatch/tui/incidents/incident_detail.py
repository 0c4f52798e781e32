"""The page with one incident in full: what happened where, what to do, evidence, how to confirm it."""

from __future__ import annotations

from collections.abc import Hashable, Iterator

from rich.segment import Segment

from gpuwatch.blocks.model import Heading, Item, Line, TextBlock, checks, commands, titled
from gpuwatch.diagnose.incidents import content
from gpuwatch.diagnose.model.incident import UNKNOWN, Incident
from gpuwatch.diagnose.model.text import clock, when
from gpuwatch.diagnose.model.verdict import Confidence
from gpuwatch.number_text import age_text
from gpuwatch.tui.incidents.incident_list import standing_of
from gpuwatch.tui.incidents.incident_timeline import IncidentPage, rank_rows
from gpuwatch.tui.model.alert_snapshot import severity_shown, sign_shown
from gpuwatch.tui.model.severity import Severity
from gpuwatch.tui.toolkit.lines.block_rows import painted
from gpuwatch.tui.toolkit.lines.item_page import PageItem, hanging
from gpuwatch.tui.toolkit.lines.rows import Row, wrapped
from gpuwatch.tui.toolkit.styles import clean

MAX_QUOTES = 6
HANG = "Hang analysis (stacks)"
CONFIDENCE_TEXT: dict[Confidence, tuple[Severity, str]] = {
    "high": ("ok", "Confidence: high"),
    "medium": ("warning", "Confidence: medium"),
    "low": ("unknown", "Confidence: low"),
}


class IncidentHead(IncidentPage):
    """The pane with the headline and the confidence of the shown incident, which never scrolls away."""

    DEFAULT_CSS = "IncidentHead { height: 4; background: $surface; overflow-y: hidden; }"

    def __init__(self) -> None:
        super().__init__("incident-head")

    def parts(self, width: int) -> Iterator[Row | PageItem]:
        if incident := self.incident():
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
        stands = standing_of(incident, self.view_state.wall(), named=True)
        style = look.severity[severity] if stands else look.severity[severity] + look.strong
        head = (
            Segment(" "),
            Segment(look.glyph(sign_shown(incident)), look.severity[severity]),
            Segment(" "),
        )
        rows = hanging(head, incident.headline, width, style)
        facts = (
            stands,
            incident.closed or incident.restarted,
            self._began(incident),
            f"job {incident.job}" if incident.job else "",
            "" if incident.code == UNKNOWN else incident.code,
        )
        under = wrapped("  ".join(fact for fact in facts if fact), width, look.dim, indent=3)
        return PageItem("headline", (*rows, *under), incident.cause, clean(incident.headline))

    def _began(self, incident: Incident) -> str:
        """Return as text when the incident began and how long ago; for an undated cause its bound."""
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


class IncidentDetail(IncidentPage):
    """The page with the selected incident in full: what happened where, what to do, evidence."""

    DEFAULT_CSS = "IncidentDetail { width: 1fr; height: 1fr; }"

    def __init__(self) -> None:
        super().__init__("incident")
        self.with_moments = False
        """True if it contains the timeline, because there is no room beside it."""

    def made_for(self) -> Hashable:
        question = self.view_state.questions.get(self.ident)
        return super().made_for(), self.with_moments, question and question.version

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
        notes = {
            "What to do": f"{self.cockpit.key_of('app.copy')} copies",
            "Evidence": f"{self.cockpit.key_of('move.open')} opens the line" if width >= 50 else "",
            HANG: f"{self.cockpit.key_of('app.waiting')}: refresh",
        }
        yield from painted(self._blocks(incident), width, self.look, notes, self.view_state.ago)
        if self.with_moments:
            yield from rank_rows(incident, self.view_state.fleet, width, self.look)

    def _blocks(self, incident: Incident) -> Iterator[TextBlock]:
        yield from titled("Notes", content.notes(incident, self.view_state.wall()))
        yield from self._waited_for(incident)
        yield from titled("Checkpoint", content.last_checkpoint(incident))
        warned = [Line(content.RECORDED, "muted")] if self.view_state.replay is not None else []
        steps = content.steps(incident)
        yield from titled("What to do", [*warned, *steps] if steps else [])
        if self.with_moments:
            yield Heading("Timeline")
            yield from content.events(incident)
        yield from titled("Evidence", content.quotes(incident)[:MAX_QUOTES])
        yield from titled("To confirm", checks(incident.settle))
        yield from titled("What it means", content.meaning(incident))

    def _waited_for(self, incident: Incident) -> Iterator[TextBlock]:
        hang_check, question = incident.hang_check, self.view_state.questions.get(incident.id)
        if question is not None and (hang_check is None or hang_check.at < question.at):
            at, sentence, sure = question.at, question.sentence, ""
        elif hang_check is not None:
            at, verdict = hang_check.at, hang_check.verdict
            sentence = verdict.sentence
            sure = f"{CONFIDENCE_TEXT[verdict.confidence][1].lower()}; " if verdict.wrong else ""
        else:
            return
        age = age_text(max(0.0, self.view_state.wall() - at))
        yield Heading(HANG)
        yield Item(f"{sentence} ({sure}sampled {age} ago)", sign="pointer", copy=sentence)
        if hang_check is not None:
            yield from commands(hang_check.do)
