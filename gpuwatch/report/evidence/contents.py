"""Makes the files of a bundle from a session's state when they are written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from gpuwatch import __version__
from gpuwatch.diagnose.alert_book import AlertBook
from gpuwatch.diagnose.hang.combined_verdict import HangReport
from gpuwatch.diagnose.incidents.markdown import as_markdown
from gpuwatch.diagnose.model.incident import outside
from gpuwatch.fleet.fleet import Fleet
from gpuwatch.number_text import moment
from gpuwatch.plain import plain
from gpuwatch.probe.judging.text.grade_symbols import Marks
from gpuwatch.probe.results import Results
from gpuwatch.report.evidence.bundle_file import BundleEntry, log_name, safe_name
from gpuwatch.report.evidence.environment import environment_facts, environment_text, safe
from gpuwatch.report.evidence.gpu_values import GPU_VALUES, gpu_values
from gpuwatch.report.hang.stacks import stacks_facts, stacks_lines
from gpuwatch.report.incidents.json_output import Facts, alert_facts, incident_facts
from gpuwatch.report.once.json_output import condition_facts, node_facts, to_json
from gpuwatch.report.once.problems.health import placed_conditions
from gpuwatch.report.probe.format import marks_for
from gpuwatch.report.probe.json_output import probe_facts
from gpuwatch.report.probe.text import result_lines
from gpuwatch.session.evidence.log_fetch import LogFetched
from gpuwatch.session.evidence.subject import EvidenceSubject
from gpuwatch.wire import NodeSettings


@dataclass
class BundleFacts:
    """The data from which a bundle is made."""

    subject: EvidenceSubject
    fleet: Fleet
    book: AlertBook
    logs: Sequence[LogFetched] = ()
    settings: Mapping[str, NodeSettings] = field(default_factory=dict)
    hang: HangReport | None = None
    probes: Sequence[Results] = ()
    missing: list[tuple[str, str]] = field(default_factory=list)
    """(what, why) of everything that the bundle lacks."""
    recorded: bool = False
    """True if the incidents come from a recording instead of nodes."""

    @property
    def is_demo(self) -> bool:
        """True if any node of the subject is simulated."""
        return any(self.fleet.nodes[name].spec.link == "demo" for name in self.subject.nodes)


def entries(found: BundleFacts, now: float, wall: float) -> Iterator[BundleEntry]:
    """Yield all entries except the index. `now`: monotonic, `wall`: unix seconds of the same moment."""
    subject, fleet = found.subject, found.fleet
    if subject.incidents:
        text = summary(subject, recorded=found.recorded)
        yield text_entry("summary.md", text, "the incident in Markdown, for a chat or a ticket")
    facts = bundle_facts(found, now, wall)
    yield json_entry("incident.json", facts, "the incidents and alerts, as in gpuwatch once --json")
    yield from _logs(found)
    if found.hang is not None:
        yield from _hang(found.hang)
    for number, results in enumerate(found.probes, 1):
        yield from _probe(found, results, number)
    yield BundleEntry(
        GPU_VALUES,
        gpu_values(fleet, subject.nodes, subject.at, now, wall),
        "values of the GPUs around that time",
    )
    for name in subject.nodes:
        about = (
            ""
            if name != subject.nodes[0]
            else "the nodes when the bundle was written, as in gpuwatch once --json"
        )
        yield json_entry(f"nodes/{safe_name(name)}.json", node_facts(fleet.nodes[name], now), about)
    environment = environment_facts(fleet, subject.nodes, found.settings, subject.job)
    yield json_entry("environment.json", environment, "versions, environment, limits and commands of ranks")
    yield text_entry("environment.md", environment_text(environment), "environment.json as tables")


def summary(subject: EvidenceSubject, *, recorded: bool) -> str:
    """Return the incidents as Markdown, in the form in which the key `Y` copies one.

    `recorded`: the incidents come from a recording.
    """
    return "\n".join(as_markdown(incident, recorded=recorded) for incident in subject.incidents)


def bundle_facts(found: BundleFacts, now: float, wall: float) -> Facts:
    """Return the subject's incidents, alerts and conditions as data, and what the bundle lacks.

    `wall`: unix seconds.
    """
    subject, fleet = found.subject, found.fleet
    nodes = set(subject.nodes)
    facts: Facts = {
        "gpuwatch": __version__,
        "time": round(wall, 3),
        "source": plain(fleet.plan.source),
        "demo": found.is_demo,
        "job": None if subject.job is None else plain(subject.job),
        "at": round(subject.at, 3),
        "incidents": [incident_facts(incident) for incident in subject.incidents],
        "alerts": [
            alert_facts(alert)
            for alert in outside(found.book.alerts.values(), subject.incidents)
            if alert.node in nodes and alert.job in (None, subject.job)
        ],
        "conditions": [
            condition_facts(each) for each in placed_conditions(fleet, now) if each.node.name in nodes
        ],
        "logs": [
            {
                "node": plain(log.part.node),
                "file": plain(log.part.file),
                "ranks": list(log.part.ranks),
                "whole": log.part.whole,
                "bytes": log.spooled.written,
                "trouble": None if log.trouble is None else plain(log.trouble),
            }
            for log in found.logs
        ],
        "missing": [{"what": plain(what), "why": plain(why)} for what, why in found.missing],
    }
    return facts


def _logs(found: BundleFacts) -> Iterator[BundleEntry]:
    """Yield the fetched logs that have lines; the index describes those with evidence or of culprit ranks."""
    taken: set[str] = set()
    first = {incident.rank for incident in found.subject.incidents} - {None}
    for log in found.logs:
        if not log.spooled.written:
            continue
        part = log.part
        what = (
            "all of"
            if part.whole
            else "lines around the evidence in"
            if part.places
            else "lines around that time in"
        )
        ranks = f", rank {part.ranks[0]}" if len(part.ranks) == 1 else ""
        named = part.places or first.intersection(part.ranks)
        about = f"{what} {safe(f'{part.node}:{part.file}')}{ranks}" if named else ""
        yield BundleEntry(log_name(part.node, part.file, taken), log.spooled.path, about)


def _hang(hang: HangReport) -> Iterator[BundleEntry]:
    lines = "".join(f"{line.text}\n" for line in stacks_lines(hang, {}))
    yield text_entry("hang/stacks.txt", lines, "what the ranks, NCCL RAS and the flight recorders answered")
    yield json_entry("hang/stacks.json", stacks_facts(hang, {}), "the same as JSON, as gpuwatch stacks")


def _probe(found: BundleFacts, results: Results, number: int) -> Iterator[BundleEntry]:
    marks: Marks = marks_for("utf-8")
    lines = "".join(f"{line.text}\n" for line in result_lines(results, marks, None))
    facts = probe_facts(results, found.fleet.plan.source, demo=found.is_demo)
    yield text_entry(f"probe/probe-{number}.txt", lines, f"the probe of {moment(results.started)}")
    yield json_entry(f"probe/probe-{number}.json", facts, "the same as JSON, as gpuwatch probe")


def text_entry(name: str, text: str, about: str) -> BundleEntry:
    """Return an entry with a text whose lines are sanitized and secrets masked."""
    made = "".join(f"{safe(line)}\n" for line in text.split("\n")).removesuffix("\n")
    return BundleEntry(name, made, about)


def json_entry(name: str, facts: Facts, about: str) -> BundleEntry:
    """Return a JSON entry with all texts sanitized and secrets masked."""
    made = safe(facts)
    return BundleEntry(name, f"{to_json(made)}\n", about)
