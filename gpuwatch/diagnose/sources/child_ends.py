"""The end of another process (a subprocess, a worker, a checkpoint writer) that a rank logs. Pure.

Example: rank 0 logs `lm_eval subprocess (pid 77) exited with code 1, evaluation skipped`. The words are those
of a launcher about a rank, but a process does not log its own end, and pid 77 is no rank: `child_code`
returns `proc.child_end`. The end of the rank itself is known from its launcher, its process, or its number.
"""

from __future__ import annotations

from gpuwatch.agent.patterns.module_pattern import pattern_of
from gpuwatch.diagnose.model.alert import OWN_LOG
from gpuwatch.diagnose.model.failure_classes import EXITS
from gpuwatch.diagnose.model.rank_index import RankIndex
from gpuwatch.fleet.jobs.places import RankPlace
from gpuwatch.rules.model import rule_ids
from gpuwatch.rules.model.failure_class import FailureClass
from gpuwatch.wire import Finding

CHILD_END = rule_ids.PROC_CHILD_END
NOT_SAVED = rule_ids.CKPT_WRITE_FAIL
MAX_READ_CHARACTERS = 2000
"""Most characters of a line that are searched."""

_CHILD = pattern_of(
    r"(?i)\b(?:sub-?process|child(?: process)?|helper(?: process)?|(?:tokeni[sz]\w{1,6}|(?:data[ _-]?)?loader"
    r"|data|prefetch\w{0,3}|preprocess\w{0,3}|feeder|decod\w{1,3}|augment\w{0,5}|eval\w{0,7}|rollout|reward"
    r"|(?:async\w{0,7}[ _-])?(?:checkpoint|ckpt)\w{0,3}|async\w{0,7}|background|upload\w{0,3}|download\w{0,3}"
    r"|logg(?:er|ing)|monitor\w{0,3}|profil\w{1,3}|compile)[ _-]"
    r"(?:workers?|writers?|process|saver|job|task|server|daemon|thread|subprocess))\b"
)
"""Matches words for a process that a rank started."""
_PID = pattern_of(r"(?i)\bpid[ =:#]{1,3}(\d{1,10})\b")
_LAUNCHER = pattern_of(
    r"(?i)\b(?:local_?)?ranks?\b(?![\]\d])|torch(?:\.distributed|elastic)|\blaunch(?:er)?\b|\b(?:mpi(?:run|exec)|prterun"
    r"|srun|slurm\w{0,10}|pdsh|horovod\w{0,4}|hydra\w{0,6})\b|\btrainer\b|\bof binary\b|exit_?code {2,}:"
)
"""Matches words of the launchers, which report the ends of ranks; `[rank0]` before a line is its writer."""
_RAISED = pattern_of(r"(?:Error|Exception|Interrupt): ")
"""Matches an exception. One about a child may end the rank too, so it is judged as an exception."""
_CHECKPOINT = pattern_of(r"(?i)\b(?:checkpoint|ckpt|shard)\w{0,3}\b")


def child_code(
    finding: Finding, stated: FailureClass | None, place: RankPlace | None, where: RankIndex
) -> str | None:
    """Return the failure class for the end of a child process; None: the line may be about a rank.

    Also None if the line reports no such end.

    Args:
        finding: A finding in a log that a rank writes.
        stated: What a site's own rule states about its failure class, as `Alert.stated`.
        place: The rank that the line would be about.
        where: Where the ranks run, with their pids as far as they are known.
    """
    if not EXITS.has(finding.rule, stated):
        return None
    line = finding.key_line[:MAX_READ_CHARACTERS]
    if _LAUNCHER.search(line) or _RAISED.search(line):
        return None
    child = _CHILD.search(line) is not None
    by_rank = finding.rank is not None and finding.rank_from in OWN_LOG
    if not child and not (by_rank and _is_another(line, place, where)):
        return None
    return NOT_SAVED if _CHECKPOINT.search(line) else CHILD_END


def _is_another(line: str, place: RankPlace | None, where: RankIndex) -> bool:
    """Return True if the line names a process that is neither the rank nor another rank of its job."""
    pids = {int(pid) for pid in _PID.findall(line)}
    if not pids or place is None or place.pid is None:
        return False
    known = {number for each in where.ranks(place.job) for number in (each.pid, each.inner_pid)}
    return pids.isdisjoint(known | {place.pid, place.inner_pid})
