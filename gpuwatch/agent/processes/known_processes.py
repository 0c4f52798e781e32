"""Remembers environment, details and parent of every process; reads them again when due."""

import os
import time

from ..base.background import TimedCalls
from ..base.procfs import read_bytes
from ..ranks.rank_environment import identity, variables
from .launchers import PIPE_READERS
from .process_details import Details
from .process_table import MAX_DEPTH, boot_time, pids, read_stat
from .rank_owners import place_of
from .spawned_ranks import has_library, is_distributed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable, Iterable, Iterator

    from .process_table import Stat

YOUNG_S = 10.0
"""Seconds for which a new process may be between fork and exec: its environment is read again."""
RECHECK_S = 60.0
"""Seconds after which every process is read again: pids are reused, and a shell may exec python."""
DETAILS_EVERY_S = 30.0
"""Seconds between readings of details; log files come and go during a process's life."""
DOUBTED_S = 2.0
"""Seconds after which the details of a process on a GPU that had none open are read again."""
MAX_ENVIRON = 1 << 20


class KnownProcess(object):
    """The remembered facts about one process."""

    __slots__ = (
        "checked",
        "cpu",
        "details",
        "details_at",
        "details_due",
        "distributed",
        "name",
        "parent",
        "start",
        "start_ticks",
        "trains",
        "variables",
    )

    def __init__(self, found: "Stat", checked: float, start: "float | None") -> None:
        self.name = found.name
        self.parent = found.parent
        self.start_ticks = found.start_ticks
        self.start = start
        self.checked = checked
        self.variables: dict[str, str] | None = None
        self.details: Details | None = None
        self.details_at = self.details_due = 0.0
        self.distributed = False
        self.trains: bool | None = None
        self.cpu: tuple[float, int] | None = None


class KnownProcesses(object):
    """The known processes of this node by pid: environment, details and parent, read again when due."""

    def __init__(self, proc: str, clock: "Callable[[], float]" = time.time) -> None:
        self.by_pid: dict[int, KnownProcess] = {}
        self.ticks_per_s = float(os.sysconf("SC_CLK_TCK"))
        self._proc = proc
        self._clock = clock
        self._users: dict[int, str] = {}
        self._paths: dict[tuple[int, int], str] = {}
        """(device, inode) -> path through /proc/PID/root, see `log_files`."""
        self._calls = TimedCalls()
        self._boot = boot_time(proc)

    @property
    def stuck(self) -> "list[int]":
        """Return the pids for which reading /proc does not return."""
        return self._calls.stuck

    def scan(self, now: float) -> None:
        """Remove ended processes, read new ones, and read a part of the others again."""
        present = set(pids(self._proc))
        for pid in set(self.by_pid).difference(present):
            del self.by_pid[pid]
        self._meet([pid for pid in present if self._is_due(pid, now)], now)

    def add_unknown(self, found: "dict[int, Stat | None]", now: float) -> None:
        """Read the environment of processes in `found` that are new or reuse a pid."""
        self._meet([pid for pid, line in found.items() if self._is_unknown(pid, line)], now)

    def _is_unknown(self, pid: int, found: "Stat | None") -> bool:
        one = self.by_pid.get(pid)
        return found is not None and (one is None or one.start_ticks != found.start_ticks)

    def _is_due(self, pid: int, now: float) -> bool:
        return pid not in self.by_pid or self.by_pid[pid].checked <= now - RECHECK_S

    def _meet(self, unknown: "list[int]", now: float) -> None:
        asked: list[int] = []
        for pid in unknown:
            found = read_stat(self._proc, pid)
            if found is None:
                self.by_pid.pop(pid, None)
                continue
            one = self.by_pid.get(pid)
            if one is None or one.start_ticks != found.start_ticks:
                one = self.by_pid[pid] = KnownProcess(found, now - RECHECK_S, self._started(found))
            one.name, one.parent = found.name, found.parent
            if found.is_kernel_thread:
                one.checked = now
            else:
                asked.append(pid)
        for pid, answer in self._calls.ask({pid: self._environ_of(pid) for pid in asked}).items():
            if isinstance(answer, dict):
                one = self.by_pid[pid]
                one.variables = answer
                one.checked = now - RECHECK_S if self._is_young(one) else now

    def _is_young(self, one: "KnownProcess") -> bool:
        return one.start is not None and self._clock() - one.start < YOUNG_S

    def _environ_of(self, pid: int) -> "Callable[[], dict[str, str]]":
        path = os.path.join(self._proc, str(pid), "environ")
        return lambda: variables(read_bytes(path, MAX_ENVIRON) or b"")

    def learn_details(self, present: "list[int]", now: float) -> None:
        """Read the details of the processes `present` whose details are due."""
        due = [pid for pid in present if pid in self.by_pid and self.by_pid[pid].details_due <= now]
        for pid, answer in self._calls.ask({pid: self._details_of(pid) for pid in due}).items():
            if isinstance(answer, Details):
                self.by_pid[pid].details = answer
                self.by_pid[pid].details_at, self.by_pid[pid].details_due = now, now + DETAILS_EVERY_S

    def look_for_new_logs(self, writers: "Iterable[int]") -> None:
        """Make details due again for processes that have opened a log since they were read."""
        for pid in writers:
            one = self.by_pid.get(pid)
            if one is not None and one.details is not None and one.details.open_files.has_new_log():
                one.details_due = 0.0

    def doubt_details(self, on_gpu: "Iterable[int]") -> None:
        """Make details due again for processes that use a GPU by the driver, but had none open when read."""
        for pid in on_gpu:
            one = self.by_pid.get(pid)
            if one is not None and one.details is not None and one.details.holds_gpu is False:
                one.details_due = min(one.details_due, one.details_at + DOUBTED_S)

    def details(self, wanted: "Iterable[int]") -> "list[Details]":
        """Return the details of the processes `wanted`, as far as they are known."""
        found = (self.by_pid[pid].details for pid in wanted if pid in self.by_pid)
        return [one for one in found if one is not None]

    def _details_of(self, pid: int) -> "Callable[[], Details]":
        all_files = self.by_pid[pid].name in PIPE_READERS
        return lambda: Details(self._proc, pid, self._users, all_files, self._paths)

    def _started(self, found: "Stat") -> "float | None":
        return None if self._boot is None else self._boot + found.start_ticks / self.ticks_per_s

    def ancestors(self, pid: int) -> "Iterator[int]":
        """Yield the pids of the ancestors of a process, nearest first."""
        for _ in range(MAX_DEPTH):
            one = self.by_pid.get(pid)
            if one is None or one.parent <= 0:
                return
            pid = one.parent
            yield pid

    def launcher(self, pid: int) -> "int | None":
        """Return the pid of a rank's nearest ancestor without the rank's own variables; None: unknown."""
        if pid not in self.by_pid:
            return None
        place = place_of(identity(self.inherited(pid)))
        for above in self.ancestors(pid) if place[0] is not None else ():
            if above in self.by_pid and place_of(identity(self.inherited(above))) != place:
                return above
        return None

    def inherited(self, pid: int) -> "dict[str, str]":
        """Return a process's variables, completed by those of its ancestors; the nearest takes precedence.

        Raises:
            KeyError: The process is unknown.
        """
        merged = dict(self.by_pid[pid].variables or {})
        for above in self.ancestors(pid):
            one = self.by_pid.get(above)
            for key, value in (one.variables or {}).items() if one is not None else ():
                merged.setdefault(key, value)
        return merged

    def has_library(self, pid: int) -> bool:
        """Return True if the process has loaded a training library.

        Cached; a young process without one is checked again.
        """
        one = self.by_pid[pid]
        if one.trains is None or (not one.trains and self._is_young(one)):
            one.trains = has_library(self._proc, pid)
        return one.trains

    def is_distributed(self, pid: int) -> bool:
        """Return True if the process takes part in torch.distributed (see `spawned_ranks`), now or before."""
        one = self.by_pid[pid]
        if not one.distributed:
            one.distributed = is_distributed(self._proc, pid)
        return one.distributed
