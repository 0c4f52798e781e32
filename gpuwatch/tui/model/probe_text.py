"""Formats a probe's numbers and states for the screen; an unknown value is a dash, never 0."""

from __future__ import annotations

from gpuwatch.number_text import listed
from gpuwatch.probe.results import ENDED, Phase, Results
from gpuwatch.probe.verdict import ProbeVerdict, Status
from gpuwatch.tui.model.severity import Severity

DOING: dict[Phase, str] = {
    "connecting": "querying the nodes",
    "asking": "waiting for confirmation",
    "reaching": "checking connectivity",
    "starting": "starting the ranks",
    "collectives": "collectives",
    "pairs": "measuring links",
    "retesting": "retesting suspect links",
    "gpus": "testing each GPU",
    "done": "done",
    "refused": "refused",
    "failed": "failed",
    "cancelled": "cancelled",
}
NOT_THE_FABRIC = "CPU ranks over TCP, not the training fabric"
SEVERITY: dict[Status, Severity] = {"ok": "ok", "noisy": "warning", "bad": "critical", "failed": "error"}
WORD: dict[Status, str] = {"ok": "OK", "noisy": "NOISY", "bad": "BAD", "failed": "FAILED"}


def op_text(op: str) -> str:
    """Return the name of a collective with spaces: `all reduce`."""
    return op.replace("_", " ")


def transports_text(results: Results) -> str:
    """Return the transports of a probe: `NET/IB, P2P`; "" if unknown."""
    return ", ".join(sorted(results.transports))


def backend_text(results: Results) -> str:
    """Return the backend of a probe as text, such as `NCCL 2.21`, or a note about gloo; "" if unknown.

    CPU ranks over TCP must not be mistaken for the training fabric.
    """
    backend = results.backend or (results.estimate.backend if results.estimate else None)
    if backend is None:
        return ""
    if backend == "gloo":
        return f"gloo ({NOT_THE_FABRIC})"
    return f"NCCL {results.nccl}" if results.nccl else "NCCL"


def standing_of(results: Results) -> tuple[Severity, str]:
    """Return the state of a probe, as a severity and one or two words."""
    if results.phase == "refused":
        return "warning", "REFUSED"
    if results.phase == "cancelled":
        return "unknown", "CANCELLED"
    if results.phase == "failed" and (results.verdict is None or results.verdict.status == "ok"):
        return "error", "FAILED"
    if results.phase not in ENDED:
        return "info", "RUNNING" if results.phase != "asking" else "READY"
    if results.verdict is None:
        return "unknown", "NO VERDICT"
    return SEVERITY[results.verdict.status], WORD[results.verdict.status]


def sentence_of(results: Results) -> str:
    """Return the current result in one sentence: the reason of a failure, or the verdict; "" if none."""
    if results.phase in ("refused", "failed") and results.reason:
        return results.reason
    if results.verdict is not None:
        return results.verdict.sentence
    if results.phase == "cancelled":
        return results.reason or "cancelled before a verdict was possible"
    return results.reason


def culprit_text(verdict: ProbeVerdict) -> str:
    """Return at most two culprits, as `node gpu-005 slow`; without any, the verdict's sentence."""
    if not verdict.culprits:
        return verdict.sentence
    first = verdict.culprits[0]
    kind = "" if first.name.startswith(first.kind) or first.kind == "direction" else f"{first.kind} "
    named = listed([each.name for each in verdict.culprits], 2)
    return f"{kind}{named} {first.state if first.ratio is None else 'slow'}"


def hint(results: Results, key: str) -> tuple[Severity, str] | None:
    """Return severity and text for the status bar of every screen: a running or a bad probe; else None.

    `key` opens the links screen.
    """
    verdict = results.verdict
    if results.phase == "asking":
        return "info", f"links: probe waiting for confirmation ({key})"
    if not results.over:
        share = f" {100 * results.done_steps // results.all_steps}%" if results.all_steps else ""
        return "info", f"links: probing{share} ({key})"
    if verdict is None or verdict.status not in ("bad", "failed"):
        return None
    return SEVERITY[verdict.status], f"links: {culprit_text(verdict)} ({key})"
