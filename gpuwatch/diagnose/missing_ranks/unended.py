"""Ranks that still run, and do nothing, after the training of their job finished.

Example: rank 0 logs `training finished` and ends; rank 1 waits for ever for its data loader to exit, and
keeps its GPU and the launcher.
"""

from __future__ import annotations

from msgspec import Struct

from gpuwatch.diagnose.missing_ranks.done_ranks import FinishedTraining
from gpuwatch.diagnose.missing_ranks.missing import members_by_job, seen_whole
from gpuwatch.diagnose.missing_ranks.unstarted import are_idle, silent_s
from gpuwatch.diagnose.model.text import clock, ranks_text
from gpuwatch.fleet.fleet import Fleet
from gpuwatch.fleet.nodes.node import Node
from gpuwatch.number_text import duration

CODE = "rank.unended"
UNENDED_S = 180.0
"""Seconds of idle silence after the end; a last upload or evaluation uses the CPU, or is shorter."""


class UnendedRanks(Struct, frozen=True):
    """The ranks of a finished job that still run while others have ended."""

    job: str
    ranks: tuple[int, ...]
    world_size: int
    node: Node
    """The node of the lowest rank that still runs."""
    silent_s: float
    code: str = CODE
    title: str = "Ranks not ended"

    @property
    def present(self) -> int:
        """Return the number of running ranks."""
        return len(self.ranks)

    @property
    def text(self) -> str:
        """Return `rank 1 still runs, idle and silent for 3m 20s, although the training finished`."""
        return self._text(f"for {duration(self.silent_s)}")

    def text_at(self, wall: float) -> str:
        """Return `text` with the moment since which the ranks are silent; `wall`: unix seconds now."""
        return self._text(f"since {clock(wall - self.silent_s, wall)}")

    def _text(self, silent: str) -> str:
        verb = "runs" if len(self.ranks) == 1 else "run"
        return (
            f"{ranks_text(self.ranks)} still {verb}, idle and silent {silent}, although the training finished"
        )


def unended_ranks(fleet: Fleet, now: float) -> list[UnendedRanks]:
    """Return the jobs of which some ranks ended with the training and the others stay. `now`: monotonic s."""
    found, training = [], FinishedTraining(fleet)
    for job, members in members_by_job(fleet).items():
        world = members[0][1].world_size or 0
        present = {each.rank for _, each in members if each.rank is not None and each.state != "Z"}
        if not 0 < len(present) < world or not seen_whole(members, now) or not are_idle(members):
            continue
        quiet_s = min(silent_s(node, process, now) for node, process in members)
        nodes = {node.name for node, _ in members}
        if quiet_s < UNENDED_S or not training.done(job, nodes).has_one_beyond(present, world):
            continue
        first = min(members, key=lambda member: member[1].rank or 0)[0]
        found.append(UnendedRanks(job, tuple(sorted(present)), world, first, quiet_s))
    return found
