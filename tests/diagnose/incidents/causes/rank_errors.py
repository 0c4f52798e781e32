"""Errors of ranks, each in a file of a node, for the examples of rows."""

from __future__ import annotations

from gpuwatch.diagnose.model.alert import Alert, Proof
from tests.diagnose.finding import T0


def alert(code: str, at: float, rank: int | None, file: str = "", **more: object) -> Alert:
    """An error of a rank in a file of a node, at a place that grows with its time."""
    proof = Proof("line", code, T0 + at, node="n1", file=file or f"/rank{rank}.log", offset=int(at * 100))
    facts = {
        "id": f"{code} {rank} {at}",
        "code": code,
        "severity": "error",
        "title": code,
        "text": code,
        "proof": (proof,),
        "role": "first",
        "node": "n1",
        "rank": rank,
        "first": T0 + at,
        "last": T0 + at,
        **more,
    }
    return Alert(**facts)  # type: ignore[arg-type]
