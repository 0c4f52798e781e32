"""The hang report: the verdict, what to do, and the ranks by location, the smallest group first."""

from __future__ import annotations

from collections.abc import Hashable, Iterator

from rich.segment import Segment

from gpuwatch.blocks.model import commands, titled
from gpuwatch.diagnose.hang.combined_verdict import HangReport
from gpuwatch.diagnose.hang.flight_recorder.job_dumps import (
    NO_PIPES,
    FlightEvidence,
    dumps_text,
    reasons_text,
)
from gpuwatch.diagnose.hang.stacks.groups import JobStacks, StackGroup
from gpuwatch.diagnose.model.text import ranks_text
from gpuwatch.diagnose.model.verdict import Verdict, grounds
from gpuwatch.number_text import age_text, listed, plural, ranges
from gpuwatch.tui.incidents.incident_detail import CONFIDENCE_TEXT
from gpuwatch.tui.model.hang_query import Question
from gpuwatch.tui.model.severity import Severity
from gpuwatch.tui.toolkit.lines.block_rows import painted
from gpuwatch.tui.toolkit.lines.item_page import ItemPage, PageItem, hanging
from gpuwatch.tui.toolkit.lines.rows import Row, heading, wrapped
from gpuwatch.tui.toolkit.styles import clean

MAX_FRAMES = 4
"""Frames shown of a location with many ranks; of small groups all are shown."""
FEW_RANKS = 4
MAX_SPOTS = 12
WRITE = "write"
"""The item that requests fresh dumps."""


class HangReportPage(ItemPage):
    """The page with one hang query and its result so far."""

    DEFAULT_CSS = "HangReportPage { height: 1fr; }"

    def __init__(self, question: Question) -> None:
        super().__init__(id="hang-report")
        self.question = question

    def made_for(self) -> Hashable:
        return self.question.version, self.question.asking.over

    def parts(self, width: int) -> Iterator[Row | PageItem]:
        look, question = self.look, self.question
        yield heading("Hang analysis (stacks)", width, look, f"{self.cockpit.key_of('app.copy')} copies")
        yield from self._progress(width)
        hang_check = question.hang_report
        if hang_check is None:
            return
        if hang_check.verdict is not None:
            yield from self._verdict(hang_check.verdict, width, answered=hang_check.answered)
            notes = {"What to do": f"{self.cockpit.key_of('app.copy')} copies the command"}
            do = titled("What to do", commands(hang_check.do))
            yield from painted([*do, *grounds(hang_check.verdict)], width, look, notes)
        if hang_check.dumps is not None:
            yield from self._dumps(hang_check.dumps, width)
        for job in hang_check.jobs:
            yield from self._job(job, width, alone=len(hang_check.jobs) == 1)
        yield from self._silent(hang_check, width)

    def _progress(self, width: int) -> Iterator[Row]:
        asking, look = self.question.asking, self.look
        age = age_text(max(0.0, self.view_state.wall() - self.question.at))
        waiting = asking.waiting
        found = self.question.hang_report
        unanswered = asking.over and found is not None and not found.answered
        verb = "queried" if unanswered else "sampled"
        reported = f"{plural(asking.asked, 'rank')} {verb} {age} ago"
        if not asking.asked and not waiting:
            reported = f"no process to query: no rank of a job runs on these nodes ({age} ago)"
        if waiting:
            reported += f", waiting for {listed(waiting, 3)}"
        if asking.progress:
            reported += f"; {asking.progress}"
        if asking.over:
            reported += f"; {self.cockpit.key_of('app.waiting')}: refresh"
        yield from wrapped(reported, width, look.dim, indent=3)

    def _verdict(self, stated: Verdict, width: int, *, answered: bool) -> Iterator[Row | PageItem]:
        look = self.look
        severity: Severity = "critical" if stated.wrong else "ok" if answered else "unknown"
        head = (Segment(" "), look.mark(severity), Segment(" "))
        rows = hanging(head, stated.sentence, width, look.severity[severity] if stated.wrong else look.text)
        yield PageItem("sentence", rows, text=clean(stated.sentence))
        if stated.wrong:
            mark, words = CONFIDENCE_TEXT[stated.confidence]
            yield from hanging((Segment(" "), look.mark(mark), Segment(" ")), words, width, look.text)

    def _dumps(self, dumps: FlightEvidence, width: int) -> Iterator[Row | PageItem]:
        """Yield lines about read dumps and ranks without one, and the item that requests fresh dumps."""
        look = self.look
        yield heading("Flight recorders", width, look)
        for number, job in enumerate(dumps.jobs):
            named = f"job {job.job}: " if job.job and len(dumps.jobs) > 1 else ""
            text = f"{named}{dumps_text(job, self.view_state.wall())}"
            yield PageItem(
                ("dumps", number), tuple(wrapped(text, width, look.text, indent=3)), text=clean(text)
            )
            for line in reasons_text(job.without):
                rows = tuple(wrapped(line, width, look.dim, indent=5))
                yield PageItem(("without", number, line), rows, text=clean(line))
        if dumps.places and not any(job.read for job in dumps.jobs):
            places = ", ".join(f"{place}N" for place in dumps.places)
            where = f"no dumps found; expected at {places} (N: rank)"
            yield from wrapped(where, width, look.dim, indent=5)
        if self.view_state.replay is not None:
            return
        if self.may_write():
            yield self._choice(dumps, width)
        elif not dumps.may_write and self.question.asking.asked:
            yield from wrapped(NO_PIPES, width, look.dim, indent=3)

    def may_write(self) -> bool:
        """Return True if ranks can be made to write dumps now: the query is over, and it is not a replay."""
        found = self.question.hang_report
        dumps = None if found is None else found.dumps
        live = self.view_state.replay is None and self.question.asking.over
        return live and dumps is not None and bool(dumps.may_write)

    def _choice(self, dumps: FlightEvidence, width: int) -> PageItem:
        look = self.look
        where = f" at {', '.join(dumps.places)}" if dumps.places else ""
        head = (Segment(f" {look.glyphs.slope} ", look.title),)
        write, choose = self.cockpit.key_of("waiting.dumps"), self.cockpit.key_of("move.open")
        text = f"{write} or {choose}: trigger dumps on {ranks_text(dumps.may_write)}"
        rows = hanging(head, text, width, look.strong)
        note = f"The ranks write files{where} and overwrite older dumps; the job keeps running."
        return PageItem(WRITE, (*rows, *wrapped(note, width, look.dim, indent=3)), text=clean(note))

    def _job(self, job: JobStacks, width: int, *, alone: bool) -> Iterator[Row | PageItem]:
        look, stated = self.look, job.verdict
        count = sum(len(spot.ranks) for spot in job.spots)
        named = f"job {job.job}: " if job.job else ""
        by = "Python stacks" if job.by == "python" else "kernel state"
        title = f"{named}{plural(count, 'rank')} in {plural(len(job.spots), 'distinct stack')} ({by})"
        yield heading(title, width, look)
        if not alone:  # the sentence on top is of one job
            severity: Severity = "critical" if stated.wrong else "ok" if job.spots else "unknown"
            head = (Segment(" "), look.mark(severity), Segment(" "))
            style = look.severity[severity] if stated.wrong else look.text
            yield PageItem(
                (job.job, "verdict"),
                hanging(head, stated.sentence, width, style),
                text=clean(stated.sentence),
            )
        for number, spot in enumerate(job.spots[:MAX_SPOTS]):
            yield self._spot(job, number, spot, width)
        if len(job.spots) > MAX_SPOTS:
            yield from wrapped(f"{len(job.spots) - MAX_SPOTS} more stacks", width, look.dim, indent=3)

    def _spot(self, job: JobStacks, number: int, spot: StackGroup, width: int) -> PageItem:
        look = self.look
        few = len(spot.ranks) <= FEW_RANKS
        who = (
            ", ".join(f"{each.rank} ({each.node})" for each in spot.ranks)
            if few
            else ranges(each.rank for each in spot.ranks)
        )
        style = look.dim if spot.waits else look.strong
        head = (Segment(f" {len(spot.ranks):>4} ", look.title),)
        rows = [*hanging(head, f"{spot.what}  {'(waiting)' if spot.waits else ''}", width, style)]
        rows += wrapped(f"rank{'s' * (len(spot.ranks) > 1)} {who}", width, look.text, indent=6)
        for frame in spot.frames if few else spot.frames[:MAX_FRAMES]:
            rows += wrapped(frame, width, look.dim, indent=8)
        return PageItem((job.job, number), tuple(rows), text=clean(f"{spot.what}: rank {who}"))

    def _silent(self, hang_check: HangReport, width: int) -> Iterator[Row | PageItem]:
        """Yield the ranks that did not answer, by node and reason, and why NCCL RAS did not answer.

        At most `MAX_SPOTS` reasons; no ranks while answers are still awaited.
        """
        look = self.look
        unseen = [each for job in hang_check.jobs for each in job.unseen]
        if unseen and not self.question.asking.waiting:
            yield heading(f"{plural(len(unseen), 'rank')} without an answer", width, look)
            reasons: dict[str, list[int]] = {}
            for each in unseen:
                reasons.setdefault(f"{each.node}: {each.missing}", []).append(each.rank)
            for why, ranks in list(reasons.items())[:MAX_SPOTS]:
                rows = tuple(wrapped(f"{why} (rank {ranges(ranks)})", width, look.text, indent=3))
                yield PageItem(("unseen", why), rows, text=clean(why))
        if hang_check.ras_trouble and not hang_check.ras:
            node, why = next(iter(hang_check.ras_trouble.items()))
            yield from wrapped(f"no answer from NCCL RAS ({node}: {why})", width, look.dim, indent=3)
