"""Alerts from findings in logs: placed, converted to the operator's clock, merged."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence

from msgspec import structs
from msgspec.structs import replace

from gpuwatch.agent.kernel.xid_table import FOLLOW_UPS
from gpuwatch.agent.patterns.module_pattern import pattern_of
from gpuwatch.diagnose.alerts.deduplication.deduplicator import joined
from gpuwatch.diagnose.alerts.deduplication.unexplained import quoted
from gpuwatch.diagnose.alerts.placement.finding_place import LocatedFinding, place_of
from gpuwatch.diagnose.alerts.placement.named_gpu import named_gpu, pci_address
from gpuwatch.diagnose.alerts.stated_signs import as_stated
from gpuwatch.diagnose.error_outcome.later_attempts import outlived_repeats
from gpuwatch.diagnose.error_outcome.recovery_by_steps import TRACEBACK
from gpuwatch.diagnose.error_outcome.refutation import SIGN
from gpuwatch.diagnose.error_outcome.step_track import StepTrack
from gpuwatch.diagnose.model.alert import Alert, Proof
from gpuwatch.diagnose.model.condition import ORDER
from gpuwatch.diagnose.model.device_kind import device_kind, for_device
from gpuwatch.diagnose.model.failure_classes import (
    KERNEL_LINES,
    PRECURSORS,
    SCHEDULER_LINES,
    UNEXPLAINED,
    RulePacks,
    stated_class,
)
from gpuwatch.diagnose.model.rank_index import RankIndex
from gpuwatch.diagnose.model.text import what
from gpuwatch.diagnose.sources.child_ends import child_code
from gpuwatch.diagnose.sources.kernel_claims import anybody_may_have_written, kernel_claim
from gpuwatch.fleet.jobs.places import Places, RankPlace
from gpuwatch.rules.model.failure_class import FailureClass
from gpuwatch.rules.model.rule import Rule
from gpuwatch.wire import KERNEL_LOG, Finding, Role, Severity

UNKNOWN_FINDING = "unknown_finding"
"""Code of a finding whose rule this program does not have."""
EXCEPTION = pattern_of(
    r"(?:\[rank\d{1,6}\]: ?)?(?:[A-Za-z_]\w{0,60}\.){0,6}[A-Z]\w{0,60}(?:Error|Exception): "
)
"""Matches an exception that ended a process, as Python prints it: without time and level in front."""


def alerts_of(
    found: Iterable[LocatedFinding], packs: RulePacks, places: Places, tracks: Sequence[StepTrack] = ()
) -> list[Alert]:
    """Return one alert for each event, by time; findings that `as_stated` rejects give none.

    The same finding reported twice (a reconnect, a backlog read again) gives one alert, and so do two sources
    of one event: a line in two files, an Xid in the kernel log and from the driver. `tracks` are the steps of
    the ranks: an error that a rank outlived stays apart from the same error that ended it.
    """
    where = RankIndex(places)
    alerts: dict[str, Alert] = {}
    for each in filter(None, (as_stated(each, packs) for each in found)):
        alert = alert_of(each, packs, where)
        known = alerts.get(alert.id)
        alerts[alert.id] = alert if known is None else merge_repeat(known, alert)
    return joined(outlived_repeats(list(alerts.values()), tracks))


def alert_of(found: LocatedFinding, packs: RulePacks, where: RankIndex) -> Alert:
    """Return the alert of one finding; `merge_repeat` updates it with a later report."""
    finding = found.finding
    rule = packs.by_id.get(finding.rule)
    if rule is None and finding.rule not in UNEXPLAINED:
        return _unknown(found)
    key_line = finding.key_line
    title = finding.rule if rule is None else rule.title
    at = finding.at - found.offset_s
    last = at if finding.last_at is None else finding.last_at - found.offset_s
    by_driver = finding.file == KERNEL_LOG or ("tool" in finding.fields and not where.places.live)
    stated = stated_class(rule)
    kernel = by_driver or KERNEL_LINES.has(finding.rule, stated)
    node, place, rank_from = place_of(replace(found, stated=stated), where, at, kernel=kernel)
    claim = None
    if kernel and not by_driver:
        claim = kernel_claim(finding, node or found.node, where.places, at if finding.timed else None)
    gpu = None if place is None else place.gpu
    is_elsewhere = (
        kernel and where.places.live
    ) or rank_from == "field"  # the GPU is not that of the rank that logs the line
    if gpu is None:
        gpu = _gpu_index(finding, node, where, kernel=kernel)
    if gpu is None and not kernel:
        gpu = named_gpu(finding, place, live=where.places.live)
    if not kernel:
        title = for_device(title, device_kind(key_line))
    subject = f"GPU {gpu}" if "tool" in finding.fields else ""  # one line of a tool may name several GPUs
    timed = finding.timed or not finding.backlog
    alert = Alert(
        id=f"{finding.rule}@{found.node or ''}:{finding.file}:{finding.offset}:{_mark(key_line + subject)}",
        code=finding.rule,
        stated=stated,
        severity=_severity(finding, rule) if claim is None else claim.severity,
        title=title,
        text=_text(finding, title, key_line, stated, "" if claim is None else claim.doubt),
        proof=(_proof(found, key_line, at if timed or finding.bound != "undated" else None, timed=timed),),
        role=_role(finding, stated, refuted=claim is not None and claim.refuted),
        node=node,
        gpu=gpu,
        rank=place.rank if place is not None else None if is_elsewhere else finding.rank,
        rank_from=rank_from,
        job=_job(replace(found, stated=stated), place, where, by_driver=by_driver),
        first=at,
        last=max(at, last),
        timed=timed,
        bound=finding.bound,
        not_before=None if finding.not_before is None else finding.not_before - found.offset_s,
        count=finding.count,
        fields=finding.fields,
        state="resolved" if finding.closed else "firing",
        error_s=found.error_s,
        last_offset=finding.last_offset,
        kernel=kernel and (claim is None or not claim.refuted),
        doubt="" if claim is None else claim.doubt,
        refuted=claim is not None and claim.refuted,
        writer_unknown=kernel and claim is None and anybody_may_have_written(finding.file, where.places),
    )
    child = None if kernel else child_code(finding, stated, place, where)
    return alert if child is None else _of_child(alert, child, packs.by_id.get(child), found, where)


def _of_child(alert: Alert, code: str, rule: Rule | None, found: LocatedFinding, where: RankIndex) -> Alert:
    """Return the alert about a message of a rank's child process: a warning at the rank that logs it."""
    finding = found.finding
    fields = {name: value for name, value in alert.fields.items() if name != "rank"}
    if finding.rank_from == "field":  # the line's rank number is that of the child
        own = where.of_file(found.node, finding.file, finding.job)
        node, rank, gpu = (found.node, None, None) if own is None else (own.node, own.rank, own.gpu)
        alert = structs.replace(
            alert, node=node, rank=rank, gpu=gpu, rank_from=None if own is None else "path"
        )
    return structs.replace(
        alert,
        code=code,
        stated=None,
        severity="warning",
        title=code if rule is None else rule.title,
        text=quoted(alert.proof[0].text),
        role="hint",
        fields=fields,
    )


def _severity(finding: Finding, rule: Rule | None) -> Severity:
    """Return the severity that the agent reports, lowered to the highest one that its rule can give.

    At most `error` for a loss that a program states in its own words.
    """
    if rule is None:
        return finding.severity
    able = {rule.severity, *(each for by in rule.severity_by.values() for each in by.values())}
    if SIGN in finding.fields:  # a program's own words prove less than those of a driver or kernel
        able = {each for each in able if each != "critical"} or {"error"}
    return max(finding.severity, min(able, key=ORDER.index), key=ORDER.index)


def _proof(found: LocatedFinding, key_line: str, at: float | None, *, timed: bool) -> Proof:
    """Return the lines of a finding as a proof. `at`: unix seconds of the operator's clock; None: unknown."""
    finding = found.finding
    lines = tuple(finding.lines)
    return Proof("line", key_line, at, timed, found.node, finding.file, finding.offset, lines, finding.key)


def _unknown(found: LocatedFinding) -> Alert:
    """Return a warning for a finding whose rule is in no pack.

    It shows the node's text and is not used as evidence.
    """
    finding, at = found.finding, found.finding.at - found.offset_s
    key_line = finding.key_line
    lines = tuple(finding.lines)
    return Alert(
        id=f"{UNKNOWN_FINDING}@{found.node or ''}:{finding.file}:{finding.offset}:{_mark(finding.rule)}",
        code=UNKNOWN_FINDING,
        severity="warning",
        title="Unknown finding",
        text=f"unknown finding of {found.node or finding.file}: no rule pack has {finding.rule!r}",
        proof=(
            Proof(
                "line",
                key_line,
                at,
                finding.timed,
                found.node,
                finding.file,
                finding.offset,
                lines,
                finding.key,
            ),
        ),
        role="hint",
        node=found.node,
        first=at,
        last=at if finding.last_at is None else max(at, finding.last_at - found.offset_s),
        timed=finding.timed,
        count=finding.count,
        state="resolved" if finding.closed else "firing",
        error_s=found.error_s,
    )


def _text(finding: Finding, title: str, key_line: str, stated: FailureClass | None, doubt: str) -> str:
    by_words = UNEXPLAINED.has(finding.rule, stated)
    known = quoted(key_line) if by_words else what(finding.rule, title, finding.fields, stated)
    if SIGN in finding.fields:
        known = f"{known}, {quoted(key_line)}"
    return f"{known}; {doubt}" if doubt else known


def _role(finding: Finding, stated: FailureClass | None, *, refuted: bool) -> Role:
    if refuted:
        return "hint"
    is_end = _is_raised(finding) or ("stops" in finding.fields and finding.severity == "error")
    if finding.role == "hint" and PRECURSORS.has(finding.rule, stated) and is_end:
        return "first"
    return "echo" if finding.fields.get("xid") in FOLLOW_UPS else finding.role


def _is_raised(finding: Finding) -> bool:
    """Return True if an error's line is a Python exception, or stands below a traceback."""
    above = finding.lines[: finding.key]
    raised = EXCEPTION.match(finding.key_line) or any(TRACEBACK in line for line in above)
    return finding.severity in ("error", "critical") and bool(raised)


def _job(found: LocatedFinding, place: RankPlace | None, where: RankIndex, *, by_driver: bool) -> str | None:
    """Return the job that a finding names, else that of its rank or scheduler; None: unknown.

    `by_driver`: the line is of kernel or driver; on live nodes such a line names no job.
    """
    named = None if by_driver and where.places.live else found.finding.job
    return named or (None if place is None else place.job) or _scheduled_job(found, where)


def _scheduled_job(found: LocatedFinding, where: RankIndex) -> str | None:
    """Return the job that a line of the scheduler names; None: it names none, or one that is not known."""
    finding = found.finding
    job = finding.fields.get("job") if SCHEDULER_LINES.has(finding.rule, found.stated) else None
    return None if job is None or (where.jobs and str(job) not in where.jobs) else str(job)


def _mark(text: str) -> str:
    """Return the CRC-32 of a line in hexadecimal; it tells lines at one offset of a rewritten file apart."""
    return f"{zlib.crc32(text.encode()):08x}"


def merge_repeat(known: Alert, alert: Alert) -> Alert:
    """Return `alert`, a later report of the finding of `known`, with the better time and the higher count.

    The better time and proof are those of the report whose line has a time, else the earlier ones.
    """
    better = known if (known.timed, -known.first) > (alert.timed, -alert.first) else alert
    return structs.replace(
        alert,
        first=better.first,
        last=max(known.last, alert.last),
        timed=better.timed,
        bound=better.bound,
        not_before=better.not_before,
        proof=better.proof,
        count=max(known.count, alert.count),
        last_offset=max((each for each in (known.last_offset, alert.last_offset) if each), default=None),
        rank=alert.rank if alert.rank is not None else known.rank,
    )


def _gpu_index(finding: Finding, node: str | None, where: RankIndex, *, kernel: bool) -> int | None:
    """Return the index of the GPU that a line names; None: unknown.

    A kernel line names it by UUID or PCI address.
    """
    known = where.gpu(node, finding.gpu, pci_address(finding)) if kernel else None
    named = finding.fields.get("gpu")
    return named if known is None and isinstance(named, int) else known
