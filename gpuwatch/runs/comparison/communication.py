"""Communication of a session by operation, and whether its GPUs really train together."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Literal, TypeAlias

from msgspec import Struct

from gpuwatch.runs.comparison.compare import mode_of, ratio, steps_per_s
from gpuwatch.runs.sessions.model.session import TrainingSession
from gpuwatch.runs.sessions.model.summary import CommunicationTotals, SessionSummary

GRADIENT_SYNC = re.compile(r"grad|all_?reduce|reduce_?scatter", re.IGNORECASE)
"""Matches the names of operations that synchronise gradients between ranks."""
MARK = re.compile(r"(?:^|_)(?:start|end|init|barrier)$", re.IGNORECASE)
"""Matches the names of operations that are logged once and are no evidence of gradient synchronisation."""
MIN_SPEEDUP = 1.1
"""Smallest speed-up over one GPU at which several GPUs are useful."""
IDLE_PCT = 5.0
"""Average utilisation in percent below which a GPU counts as idle."""
CommunicationVerdict: TypeAlias = Literal["multi", "single", "doubtful", "unknown"]
Sign: TypeAlias = Literal["for", "against", "unknown"]


class Reason(Struct, frozen=True):
    """A reason for a verdict; its code: mode, forced, workers, gradient_sync, throughput, idle_gpu."""

    code: str
    sign: Sign
    text: str


class CommunicationReport(Struct, frozen=True):
    """The communication of one session, and whether its GPUs train together."""

    session: TrainingSession
    operations: tuple[CommunicationTotals, ...]
    shares: tuple[float | None, ...]
    """Share of the step time (0 to 1) for each operation."""
    verdict: CommunicationVerdict
    reasons: tuple[Reason, ...]


def communication_report(
    session: TrainingSession, all_sessions: Sequence[TrainingSession]
) -> CommunicationReport:
    """Return the communication of a session, and whether its GPUs train together.

    The session's throughput is compared with that of the single-GPU sessions.
    """
    operations = tuple(session.summary.communication or ())
    shares = tuple(step_share(each, session.summary) for each in operations)
    reasons = tuple(multi_gpu_reasons(session, all_sessions))
    return CommunicationReport(session, operations, shares, verdict(reasons), reasons)


def step_share(operation: CommunicationTotals, summary: SessionSummary) -> float | None:
    """Return the share of the total step time (0 to 1) that a rank spends in an operation; None: unknown."""
    if operation.share_of_step_time is not None:
        return operation.share_of_step_time
    times = summary.step_time_s
    step_s = times.mean if times and times.mean else ratio(1.0, steps_per_s(summary))
    if operation.time_total_s is None or not step_s or not summary.steps:
        return None
    per_rank = operation.time_total_s / max(1, len(operation.ranks))
    return min(1.0, per_rank / (step_s * summary.steps))


def verdict(reasons: Sequence[Reason]) -> CommunicationVerdict:
    """Return whether several GPUs train together, from reasons for and against.

    `single` if the mode, a forced single-GPU mode or the number of workers is against; else `doubtful` if any
    other reason is. Without a reason against: `multi` if gradient synchronisation is logged, `doubtful` if
    only other reasons are for it, `unknown` if there are no reasons.
    """
    signs = {reason.code: reason.sign for reason in reasons}
    if "against" in (signs.get("mode"), signs.get("forced"), signs.get("workers")):
        return "single"
    if "against" in signs.values():
        return "doubtful"
    if signs.get("gradient_sync") == "for":
        return "multi"
    return "doubtful" if "for" in signs.values() else "unknown"


def multi_gpu_reasons(session: TrainingSession, others: Sequence[TrainingSession]) -> Iterator[Reason]:
    """Yield the reasons for and against several GPUs training together."""
    summary = session.summary
    mode = mode_of(summary)
    yield Reason(
        "mode",
        "unknown" if mode is None else "for" if mode == "multi" else "against",
        "not known whether it ran in single-GPU or multi-GPU mode"
        if mode is None
        else f"mode: {mode.upper()}-GPU",
    )
    if summary.forced_single_gpu:
        yield Reason("forced", "against", "single-GPU mode is forced")
    yield workers_reason(summary)
    yield gradient_reason(summary)
    if mode != "single":
        yield throughput_reason(session, others)
        for gpu in summary.gpus or ():
            used = gpu.utilization_avg_pct
            if used is not None and used < IDLE_PCT:
                where = f"{gpu.node} GPU {gpu.index}" if gpu.node else f"GPU {gpu.index}"
                yield Reason("idle_gpu", "against", f"{where} is idle: {used:.1f}% average utilization")


def workers_reason(summary: SessionSummary) -> Reason:
    """Return the number of GPUs (or CPU ranks) that take part, as a reason."""
    count = summary.gpu_count
    if count:
        ranks = f", {summary.world_size} ranks" if summary.world_size else ""
        return Reason("workers", "for" if count > 1 else "against", f"{count} GPU{'s' * (count > 1)}{ranks}")
    if summary.world_size is None:
        return Reason("workers", "unknown", "the number of GPUs is not known")
    several = summary.world_size > 1
    what = f"{summary.world_size} rank{'s' * several}" + (" on CPUs" if count == 0 else "")
    return Reason("workers", "for" if several else "against", what)


def gradient_reason(summary: SessionSummary) -> Reason:
    """Return whether operations that synchronise gradients are logged, as a reason."""
    if not summary.communication:
        if mode_of(summary) == "single":
            return Reason("gradient_sync", "against", "no gradient synchronization is logged")
        return Reason("gradient_sync", "unknown", "no communication is logged")
    if all(MARK.search(each.operation) for each in summary.communication):
        return Reason(
            "gradient_sync", "unknown", "no communication is logged except marks such as training_start"
        )
    seen = [each for each in summary.communication if GRADIENT_SYNC.search(each.operation) and each.count]
    if not seen:
        return Reason("gradient_sync", "against", "communication is logged, but no gradient synchronization")
    listed = ", ".join(f"{each.operation} x {each.count}" for each in seen)
    return Reason("gradient_sync", "for", f"gradient synchronization: {listed}")


def throughput_reason(session: TrainingSession, others: Sequence[TrainingSession]) -> Reason:
    """Return the throughput relative to single-GPU sessions, as a reason."""
    singles = [each for each in others if mode_of(each.summary) == "single" and each is not session]
    by_samples = [each.summary.samples_per_s for each in singles if each.summary.samples_per_s]
    own = session.summary.samples_per_s
    unit = "samples/s"
    known: list[float] = by_samples
    if not own or not by_samples:
        own, unit = steps_per_s(session.summary), "steps/s"
        known = [rate for each in singles if (rate := steps_per_s(each.summary))]
    if not own or not known:
        return Reason("throughput", "unknown", "no single-GPU session to compare the throughput with")
    base = sum(known) / len(known)
    sign: Sign = "for" if own / base >= MIN_SPEEDUP else "against"
    return Reason("throughput", sign, f"{own:.4g} {unit}, {own / base:.2f}x one GPU ({base:.4g})")


def is_bad_news(report: CommunicationReport) -> bool:
    """Return True if a session that should train on several GPUs does not, as far as its logs show."""
    several = mode_of(report.session.summary) == "multi" or bool(report.session.summary.forced_single_gpu)
    against = any(reason.sign == "against" for reason in report.reasons)
    return several and against
