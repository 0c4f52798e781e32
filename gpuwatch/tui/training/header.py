"""The summary of a job above its ranks: which rank logs, its progress, speed and problems."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style

from gpuwatch.diagnose.model.text import allocation_words
from gpuwatch.diagnose.serving.server_facts import server_facts
from gpuwatch.diagnose.serving.server_text import heading, numbers, trouble
from gpuwatch.diagnose.straggler.alerts import TITLE as STRAGGLER
from gpuwatch.diagnose.straggler.alerts import sentence, stopped_at
from gpuwatch.diagnose.training.job_view.facts import Fact, JobFacts
from gpuwatch.number_text import UNKNOWN, age_text, plural, scaled_text, span_text, step_time_text
from gpuwatch.rules.model.dialect import Scope
from gpuwatch.tui.chrome.status_bar import spread
from gpuwatch.tui.model.view_state import ViewState
from gpuwatch.tui.toolkit.charts import bar
from gpuwatch.tui.toolkit.lines.item_page import hanging
from gpuwatch.tui.toolkit.lines.rows import Row
from gpuwatch.tui.toolkit.lines.selectable_lines import RebuiltPage
from gpuwatch.tui.toolkit.styles import StyleSet, clean, fit
from gpuwatch.tui.training.job_view import TrainingView

ALERT_LINES = 3
SOON_S = 900.0
"""A job with less time left (seconds) should have saved a checkpoint."""
SERVERS = 4
"""Maximum number of inference servers shown above the ranks."""
BAR = 24
MIN_STEPS = 5
"""Number of step times from which on percentiles are shown."""
PER: dict[Scope | None, str] = {
    "gpu": "per GPU",
    "job": "per job",
    None: "as logged, per GPU or job?",
}
TITLE = 9
"""Width of the first title, so that the first values of all lines are aligned."""


class JobHeader:
    """Formats the numbers of a job; a stale one looks different and shows its age."""

    def __init__(self, facts: JobFacts, look: StyleSet, view_state: ViewState) -> None:
        self._facts, self._look, self._now = facts, look, view_state.now
        self._view_state = view_state

    def number(self, title: str, fact: Fact | None, text: str, *, first: bool = False) -> list[Segment]:
        """Return the segments of a title and a value, whose text is `text`; a dash if `fact` is None.

        `first`: it is the first of its line; its title is padded to align with those of the other lines.
        """
        look = self._look
        parts = [Segment(f" {title.ljust(TITLE) if first else title} ", look.dim)]
        if fact is None:
            return [*parts, Segment(UNKNOWN, look.dim), Segment(" ")]
        late = self._facts.late(fact.at, self._now)
        parts.append(Segment(text, look.stale if late else look.strong))
        if fact.computed:
            parts.append(Segment(" computed", look.dim))
        step = self._facts.facts.get("step")
        own_age = step is None or fact.at < step.at - max(2.0, self._facts.gap_s or 0.0)
        if own_age and not (fact.computed and not late):
            parts.append(
                Segment(f" {self._view_state.ago(self._view_state.wall() - fact.age_s(self._now))}", look.dim)
            )
        return [*parts, Segment(" ")]

    def reported(self, title: str, name: str, form: str, *, first: bool = False) -> list[Segment]:
        """Return the segments of a reported field, formatted by `form`; a dash if it is not reported.

        `first`: pad the title, as the first one in its line. A form keeps zeros at the end (`0.720`), so that
        what stands behind a value does not move with it.
        """
        fact = self._facts.facts.get(name)
        text = "" if fact is None else form.format(fact.value).rstrip(".")
        return self.number(title, fact, text, first=first)

    def rarely(self, title: str, name: str, form: str) -> list[Segment]:
        """Return the segments of a field that few logs report; empty if it is not reported."""
        return self.reported(title, name, form) if name in self._facts.facts else []


def whose(facts: JobFacts) -> str:
    """Return a text that states which rank logs for the job, or that no log has progress."""
    writer = facts.speaker
    if writer is None:
        return "no progress in its logs"
    who = writer.file.rpartition("/")[2] if facts.speaker_rank is None else f"rank {facts.speaker_rank}"
    more = facts.speaking - 1
    verb = "logs" if more == 1 else "log"
    others = f"; {plural(more, 'other')} {verb} steps as well" if more > 0 else ""
    return f"steps from the log of {who}{others}"


def size_text(facts: JobFacts, unnamed_node: str | None = None) -> str:
    """Return the size of the job as text, as far as it is known: ranks, nodes and GPUs.

    `unnamed_node`: the node under which ranks of unknown nodes are listed.
    """
    alive, seen = facts.ranks_alive, facts.ranks_seen
    if alive < seen:
        ranks = f"{alive or 'none'} of {max(facts.world or 0, seen)} ranks running"
    else:
        ranks = f"{seen} of {facts.world} ranks" if facts.world else plural(seen, "rank")
    name = clean(facts.gpu_name or "GPU").removeprefix("NVIDIA ")
    gpus = f", {facts.gpus}x {name}" if facts.gpus else ""
    known = facts.nodes - any(row.node == unnamed_node for row in facts.rows)
    return f"{ranks} on {plural(known, 'node') if known else 'unknown nodes'}{gpus}"


class TrainingHead(RebuiltPage, can_focus=False):
    """The widget that summarizes a job: progress, speed, problems and inference servers."""

    DEFAULT_CSS: ClassVar[str] = "TrainingHead { height: 5; overflow-y: hidden; }"
    can_focus = False

    def __init__(self, view: TrainingView, *, turns: bool = True) -> None:
        """Create the widget.

        Args:
            view: The job.
            turns: True if the screen has keys that show other jobs.
        """
        super().__init__(id="training-head")
        self.view, self._turns = view, turns

    def build(self, width: int) -> list[Row]:
        facts, look = self.view.facts, self.look
        servers = list(self._servers(width))
        idle = facts is None or (
            not facts.rows and (facts.speaker is None or facts.speaker.stepped_at is None)
        )
        if idle and servers:
            return [*servers, *self._alerts(width)]
        if facts is None or (not facts.rows and facts.speaker is None):
            text = " No training job detected: no process with a rank, no log with steps."
            return [
                (Segment(text, look.dim),),
                (Segment(" For logs elsewhere, use `--log` or `logs:` in the hosts file.", look.dim),),
            ]
        sheet = JobHeader(facts, look, self.view_state)
        lines = [
            self._who(facts, width),
            *self._scheduler(facts),
            self._far(facts, sheet, width),
            self._losses(sheet),
        ]
        lines += [self._fast(facts, sheet), self._times(facts, sheet)]
        return [*lines, *servers, *self._alerts(width)]

    def _servers(self, width: int) -> Iterator[Row]:
        """Yield the lines of at most 4 inference servers."""
        look, now = self.look, self.view_state.now
        for server in list(self.view_state.fleet.servers.servers.values())[:SERVERS]:
            facts = server_facts(server, now)
            why = trouble(facts, now)
            style = look.stale if why else look.text
            text = "  ".join(filter(None, (numbers(facts), why)))
            head = (Segment(f" server {clean(heading(facts))}  ", look.title),)
            yield from hanging(head, clean(text), width, style) if text else (head,)

    def _who(self, facts: JobFacts, width: int) -> Row:
        look, view, folder = self.look, self.view, self.view_state.folder
        unnamed = None if folder is None else folder.unnamed_node
        name = " training without a job id " if facts.job is None else f" job {clean(facts.job)} "
        partial = facts.ranks_alive < max(facts.world or 0, facts.ranks_seen)
        left = [
            Segment(name, look.brand),
            Segment(f" {size_text(facts, unnamed)}", look.severity["warning"] if partial else look.text),
        ]
        words = f"  {clean(whose(facts))}"
        right = (
            [Segment(f"job {view.number} of {len(view.jobs)}: [ ] ", look.title)]
            if len(view.jobs) > 1 and self._turns
            else []
        )
        used = sum(part.cell_length for part in (*left, *right))
        if used + len(words) <= width:
            left.append(Segment(words, look.dim))
        return spread(left, right, width)

    def _scheduler(self, facts: JobFacts) -> list[Row]:
        """Return the line with the job's state and remaining time by its scheduler; empty if unknown."""
        allocation, wall = self.view_state.fleet.scheduler.allocation(facts.job), self.view_state.wall()
        if allocation is None:
            return []
        near = allocation.ends is not None and 0 < allocation.ends - wall < SOON_S
        style = self.look.severity["warning"] if near else self.look.text
        words = clean(allocation_words(allocation, wall))
        return [(Segment(f" {'Slurm'.ljust(TITLE)} ", self.look.dim), Segment(words, style))]

    def _far(self, facts: JobFacts, sheet: JobHeader, width: int) -> Row:
        look, now = self.look, self.view_state.now
        step, total = facts.facts.get("step"), facts.facts.get("total_steps")
        text = (
            "" if step is None else f"{step.value:,.0f}" + ("" if total is None else f" / {total.value:,.0f}")
        )
        row = sheet.number("step", step, text, first=True)
        if step is not None:
            late = facts.late(facts.stepped_at, now)
            age = step.age_s(now) if facts.stepped_at is None else now - facts.stepped_at
            stopped = late and facts.gap_s is not None
            reported = (
                f"no step for {span_text(age)} "
                if stopped
                else f"{self.view_state.ago(self.view_state.wall() - age)} "
            )
            if stopped:
                row.append(Segment(f"{look.glyph('warning')} ", look.severity["warning"]))
            row.append(Segment(reported, look.severity["warning"] if stopped else look.dim))
        if facts.speaker is not None and (done := facts.speaker.done) is not None:
            style: Style = look.dim if facts.late(facts.stepped_at, now) else look.severity["ok"]
            row += [
                Segment(" "),
                *bar(done, min(BAR, max(8, width // 6)), look, style),
                Segment(f" {100 * done:.1f} % "),
            ]
        eta = facts.facts.get("eta_s") if self.view_state.folder is None else None  # it goes on no more
        row += sheet.number("ETA", eta, "" if eta is None else span_text(eta.value))
        last = self.view_state.snapshot.checkpoints.get(facts.job)
        if last is not None and last.step is not None:
            when = "" if last.at is None else f", {self.view_state.ago(last.at)}"
            when = " so far" if last.read_pct is not None else when
            broken = last.complete is False
            row.append(Segment("  checkpoint ", look.title))
            style = look.severity["warning"] if broken else look.text
            row.append(Segment(f"{last.step:,}{when}{', not complete' * broken}", style))
        return tuple(row)

    @staticmethod
    def _losses(sheet: JobHeader) -> Row:
        return (
            *sheet.reported("loss", "loss", "{:#.4g}", first=True),
            *sheet.reported("grad norm", "grad_norm", "{:#.3g}"),
            *sheet.reported("lr", "lr", "{:.2e}"),
            *sheet.rarely("loss scale", "loss_scale", "{:g}"),
            *sheet.rarely("skipped", "skipped", "{:.0f}"),
            *sheet.rarely("epoch", "epoch", "{:g}"),
        )

    def _fast(self, facts: JobFacts, sheet: JobHeader) -> Row:
        row: list[Segment] = []
        tokens, whole = facts.facts.get("tokens_per_s"), facts.job_tokens_per_s
        if whole is not None and facts.gpus:
            each = scaled_text(whole.value / facts.gpus, 1000)
            text = f"{scaled_text(whole.value, 1000)} per job ({each} per GPU)"
            row += sheet.number("tokens/s", Fact(whole.value, whole.at), text, first=True)
        elif tokens is not None or "samples_per_s" not in facts.facts:
            text = "" if tokens is None else f"{scaled_text(tokens.value, 1000)} {PER[facts.scope]}"
            row += sheet.number("tokens/s", tokens, text, first=True)
        if (samples := facts.facts.get("samples_per_s")) is not None:
            row += sheet.number("samples/s", samples, f"{samples.value:#.4g}".rstrip("."), first=not row)
        mfu = facts.facts.get("mfu")
        row += sheet.number("MFU", mfu, "" if mfu is None else f"{100 * mfu.value:.1f} %")
        if (overall := facts.facts.get("mfu_overall")) is not None:
            row += sheet.number("overall", overall, f"{100 * overall.value:.1f} %")
        if mfu is None and facts.why_no_mfu:
            row.append(Segment(f"{facts.why_no_mfu} ", self.look.dim))
        return (*row, *sheet.rarely("TFLOP/s", "tflops", "{:#.4g}"))

    def _times(self, facts: JobFacts, sheet: JobHeader) -> Row:
        look, last = self.look, facts.facts.get("step_time_s")
        if last is None and facts.speaker is not None and facts.speaker.steps:
            step = facts.speaker.steps[-1]
            last = None if step.took_s is None else Fact(step.took_s, step.at)
        row = sheet.number(
            "step time", last, "" if last is None else f"{step_time_text(last.value)}s", first=True
        )
        if facts.times is not None and facts.times.count >= MIN_STEPS:
            times = facts.times
            row.append(Segment(" p50 ", look.dim))
            row.append(Segment(f"{step_time_text(times.p50)}s", look.text))
            row.append(Segment("  p95 ", look.dim))
            row.append(Segment(f"{step_time_text(times.p95)}s", look.text))
            row.append(Segment("  p99 ", look.dim))
            row.append(Segment(f"{step_time_text(times.p99)}s", look.text))
            row.append(Segment(f"  of {plural(times.count, 'step')} ", look.dim))
        for share in facts.shares:
            style = look.severity["warning"] if share.flagged else look.text
            sign = f"{look.glyph('warning')} " if share.flagged else ""
            row += [Segment(f" {share.what} ", look.dim), Segment(f"{sign}{100 * share.share:.0f} %", style)]
        return tuple(row)

    def _alerts(self, width: int) -> list[Row]:
        look, wall = self.look, self.view_state.wall()
        rows: list[Row] = []
        lists = self.cockpit.key_of("app.incidents")
        for alert in self.view.alerts[:ALERT_LINES]:
            more = len(self.view.alerts) - ALERT_LINES
            until = stopped_at(alert, self.view_state.snapshot.incidents)
            lasted = (wall if until is None else until) - alert.first
            tail = f" for {age_text(max(0.0, lasted))}" + (
                f", {more} more: {lists}" if more > 0 and len(rows) == ALERT_LINES - 1 else ""
            )
            rank = "" if alert.rank is None else f"rank {alert.rank}: "
            slow = alert.title == STRAGGLER
            text = sentence(alert) if slow else f"{alert.title}: {rank}{alert.text}"
            style = look.severity[alert.severity]
            head = Segment(" "), look.mark(alert.severity), Segment(" ")
            room = max(8, width - len(tail) - 4)
            if slow and cell_len(clean(text)) > room:  # the sentence whose cause must be read
                rows += hanging(head, f"{text} ({tail.strip()})", width, style)[:2]
            else:
                rows.append((*head, Segment(fit(text, room), style), Segment(tail, look.dim)))
        return rows
