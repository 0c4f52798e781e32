"""Finds the files that have the output of ranks that do not write files themselves.

A launcher (torchrun, mpirun, srun, a Python parent) writes how its ranks ended, and all their output if it
reads it through pipes. So does the last program of a shell pipeline: `torchrun ... | tee run.log`.
"""

from collections import Counter, OrderedDict

from ..base.user_rights import ROOT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Iterable

    from .process_details import Details

PIPE_READERS = frozenset(
    ("tee", "ts", "cat", "sed", "grep", "awk", "gawk", "mawk", "rotatelogs", "cronolog", "multilog", "svlogd")
)
MAX_STAGES = 3
"""Pipeline programs that are followed: `torchrun | grep | tee` has two."""


def outlets(readers: "Iterable[Details]") -> "dict[str, list[str]]":
    """Return pipe -> files in which its data ends up, through programs that read pipes."""
    reading = [one for one in readers if 0 in one.pipes]
    found: dict[str, list[str]] = {}
    for _ in range(MAX_STAGES):
        for one in reading:
            paths = found.setdefault(one.pipes[0], [])
            onwards = [path for number in (1, 2) for path in found.get(one.pipes.get(number, ""), ())]
            paths.extend(path for path in one.logs + onwards if path not in paths)
    return found


def written(details: "Details", ends: "dict[str, list[str]]") -> "list[str]":
    """Return the files that a process writes, directly or through pipes; `ends`: from `outlets`."""
    through = [path for number in (1, 2) for path in ends.get(details.pipes.get(number, ""), ())]
    return details.logs + [path for path in sorted(set(through)) if path not in details.logs]


MAX_JOBS = 256


class JobOwners(object):
    """The user of each job: the one with most of its ranks on this node, also after these have ended.

    A program's user chooses its name and its environment: by them alone it is a launcher of any job.
    """

    def __init__(self) -> None:
        self._users: OrderedDict[str, int] = OrderedDict()

    def take(self, ranks: "Iterable[tuple[str, int]]") -> None:
        """Store the users of ranks that run now, as (job, uid); on a tie, the user of before stays."""
        counts: dict[str, Counter[int]] = {}
        for job, uid in ranks:
            counts.setdefault(job, Counter())[uid] += 1
        for job, users in counts.items():
            before = self._users.pop(job, None)
            most = max(users.values())
            self._users[job] = (
                before if before is not None and users[before] == most else max(users, key=lambda u: users[u])
            )
        while len(self._users) > MAX_JOBS:
            self._users.popitem(last=False)

    def may_state(self, job: "object", uid: int) -> bool:
        """Return True if a launcher of this user can be of a job: its ranks are theirs, or not known."""
        known = self._users.get(str(job))
        return known is None or uid in (known, ROOT)
