"""Checks from a quick probe: `gpuwatch check --deep`."""

from __future__ import annotations

from collections.abc import Iterator

from gpuwatch.diagnose.preflight.check import Check, Status, listed, passed, skipped
from gpuwatch.number_text import mebibytes
from gpuwatch.probe.probe_request import MIB, ProbeRequest
from gpuwatch.probe.results import Results

QUICK = ProbeRequest(collectives=("all_reduce",), sizes=(1 * MIB, 16 * MIB), pairs="quick", budget_s=60.0)
"""The probe of the check: one collective at two sizes and two rounds of pairs.

It finds a bad node, not a single bad link.
"""


def links(results: Results) -> Iterator[Check]:
    """Yield two checks: whether collectives compute correct results, and whether a link or node is slow."""
    if results.phase == "refused":
        for id_ in ("probe.collectives", "probe.links"):
            # `gpuwatch probe` has an option for the cases that are refused here
            yield skipped(
                id_, results.reason.replace("with --allow-busy", "with gpuwatch probe SOURCE --allow-busy")
            )
        return
    yield collectives(results)
    yield pairs(results)


def collectives(results: Results) -> Check:
    """Return the `Check` that the probe's collectives gave every rank the correct result."""
    id_ = "probe.collectives"
    reported = []
    for row in results.collectives:
        where = f"{row.op} at {mebibytes(row.bytes)}"
        if row.correct is False:
            reported.append(f"{where} returned wrong results")
        elif row.error:
            reported.append(f"{where}: {row.error}")
    if reported:
        return Check(id_, "FAIL", listed(reported), (), "gpuwatch probe SOURCE names the link or node.")
    checked = [row for row in results.collectives if row.correct]
    if not checked:
        why = results.reason or "; ".join(note for note in results.notes if note.startswith("not measured"))
        return skipped(id_, why or "no collective was measured")
    ranks = len(results.slots)
    return passed(id_, f"all_reduce over {results.backend} is correct on all {ranks} ranks")


def pairs(results: Results) -> Check:
    """Return the probe's verdict on pairs of ranks as a check."""
    id_ = "probe.links"
    verdict = results.verdict
    if verdict is None:
        return skipped(id_, results.reason or "nothing was measured")
    statuses: dict[str, Status] = {"ok": "PASS", "noisy": "WARN", "bad": "FAIL", "failed": "FAIL"}
    nodes = {slot.node for slot in results.slots}
    named = tuple(name for name in dict.fromkeys(c.node for c in verdict.culprits) if name in nodes)
    status = statuses[verdict.status]
    absent = {each.node: each.problem for each in results.nodes if each.problem}
    if absent and status == "PASS":
        detail = f"{results.backend}: {verdict.sentence}; not measured: " + listed(
            f"{node} ({why})" for node, why in absent.items()
        )
        return Check(
            id_,
            "WARN",
            detail,
            tuple(absent),
            "gpuwatch hosts check SOURCE, or gpuwatch probe SOURCE, has details.",
        )
    remedy = "" if status == "PASS" else "gpuwatch probe SOURCE measures every link and retests the suspects."
    return Check(id_, status, f"{results.backend}: {verdict.sentence}", named, remedy)
