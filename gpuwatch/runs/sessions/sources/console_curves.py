"""Completes the curves of a session of `gpuwatch run` with the steps that only the console log has.

The main log has a step every two seconds, from when the log reader has started; the console has each.
"""

from __future__ import annotations

from gpuwatch.runs.sessions.model.session import SessionCurve, TrainingSession
from gpuwatch.runs.sessions.sources.rank_logs import read_rank_logs

MAX_CONSOLE_BYTES = 16 << 20
"""Size in bytes above which a log is not read: the main log of such a long run has enough steps."""


def take_console_curves(session: TrainingSession) -> None:
    """Take the curves of the logs in `ranks/` that have more points than the session's own, and evaluations.

    Nothing is taken if `gpuwatch run` did not write the session, the telemetry library has written the steps,
    or the logs have more than `MAX_CONSOLE_BYTES`.
    """
    writer, parts = session.summary.writer or "", session.summary.parts or ()
    if not writer.startswith("gpuwatch run") or any(name.startswith("rank_") for name in parts):
        return
    ranks = session.path / "ranks"
    try:
        size = sum(each.lstat().st_size for each in ranks.iterdir())
    except OSError:
        return
    if not 0 < size <= MAX_CONSOLE_BYTES:
        return
    found = read_rank_logs([ranks], session.path)
    if not session.summary.evaluation:
        session.summary.evaluation = found.summary.evaluation
        session.summary.evaluations = found.summary.evaluations
    for name, curves in found.curves.by_name.items():
        if points(curves) > points(session.curves.by_name.get(name, {})):
            session.curves.by_name[name] = curves


def points(curves: dict[str, SessionCurve]) -> int:
    """Return the number of points of all writers."""
    return sum(len(curve.points) for curve in curves.values())
