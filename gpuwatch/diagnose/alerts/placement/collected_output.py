"""Decides whether a log has the output of ranks on other nodes too, which tells nothing of a line's node."""

from __future__ import annotations

from gpuwatch.diagnose.model.rank_index import RankIndex
from gpuwatch.fleet.jobs.places import Places, RankPlace


def node_of_output(node: str | None, file: str, job: str | None, where: RankIndex) -> str | None:
    """Return the node of a line without a rank or host: that of its log, or None if it may be another one.

    Args:
        node: Where the log lies.
        file: The log.
        job: Its job.
        where: Where ranks run.
    """
    return None if _collects_others(node, file, job, where) else node


def _collects_others(node: str | None, file: str, job: str | None, where: RankIndex) -> bool:
    """Return True if a live log has what ranks on other nodes print.

    mpirun or srun collects it: the job's ranks on this node write no other file, those on other nodes and
    their launchers none.
    """
    if not where.places.live or job is None:
        return False
    if any(place.job == job and set(place.logs) - {file} for place in where.on(node)):
        return False
    others = [place for place in where.places.ranks if place.job == job and place.node != node]
    return bool(others) and not any(place.logs or _writes(where.places, place) for place in others)


def _writes(places: Places, rank: RankPlace) -> bool:
    """Return True if a rank, or its launcher, has a log open."""
    pids = (rank.pid, rank.launcher)
    return any(places.outputs.get((rank.node, pid)) for pid in pids if pid is not None)
