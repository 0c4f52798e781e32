"""The processes of interest: those that hold a GPU, and those that carry a rank."""

import os
import time
from collections import Counter

from ..base.background import TimedCalls
from ..base.procfs import read_bytes
from ..base.rank_environment import identity, variables
from .launchers import LAUNCHERS, PIPE_READERS, is_launcher, outlets, written
from .process_details import Details
from .process_table import ENDED, MAX_DEPTH, boot_time, pids, read_stat
from .rank_owners import carries_rank, owners, place_of
from .sibling_numbers import Sibling
from .spawned_ranks import SpawnGroups, has_library, is_distributed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable, Iterable, Iterator  # noqa: F401 - used in type comments

    from .process_table import Stat  # noqa: F401 - used in type comments

MAX_PROCESSES = 1024
SCAN_EVERY_S = 4.5
"""All processes are looked through for ranks this often at most; those on a GPU every time."""
YOUNG_S = 10.0
"""A process this young may still be between fork and exec: its environment is read again."""
RECHECK_S = 60.0
"""Every process is looked at anew this often: a pid is used again, a shell becomes python."""
DETAILS_EVERY_S = 30.0
"""Log files come and go while a process lives."""
MAX_ENVIRON = 1 << 20
_INITIAL_PID_NAMESPACE = "pid:[4026531836]"
"""PROC_PID_INIT_INO of the kernel: the namespace whose pids the driver reports."""


class _Known(object):
    """What is remembered of one process."""

    __slots__ = (
        "checked",
        "cpu",
        "details",
        "details_due",
        "distributed",
        "name",
        "parent",
        "start",
        "start_ticks",
        "trains",
        "variables",
    )

    def __init__(self, found, checked, start):
        # type: (Stat, float, float | None) -> None
        self.name = found.name
        self.parent = found.parent
        self.start_ticks = found.start_ticks
        self.start = start
        self.checked = checked
        self.variables = None  # type: dict[str, str] | None
        self.details = None  # type: Details | None
        self.details_due = 0.0
        self.distributed = False
        self.trains = None  # type: bool | None
        self.cpu = None  # type: tuple[float, int] | None


class ProcessReader(object):
    """Joins NVML's process ids to /proc and finds the ranks among all processes."""

    def __init__(self, clock=time.time, proc="/proc", monotonic=time.monotonic, scan_every_s=SCAN_EVERY_S):
        # type: (Callable[[], float], str, Callable[[], float], float) -> None
        self._clock = clock
        self._proc = proc
        self._monotonic = monotonic
        self._known = {}  # type: dict[int, _Known]
        self.launchers = {}  # type: dict[int, dict[str, object]]
        """What started the ranks that were listed last, and other launchers -> `paths` of the log files that
        it writes, and its `job` where its own variables name one."""
        self._ends = {}  # type: dict[str, list[str]]
        self._me = os.getpid()  # in a pod of a job the agent itself carries the rank's variables
        self._users = {}  # type: dict[int, str]
        self._rounds = TimedCalls()
        self._groups = SpawnGroups()
        self._scan_every_s = scan_every_s
        self._scan_due = monotonic()
        self._ticks_per_s = float(os.sysconf("SC_CLK_TCK"))
        self._page_bytes = os.sysconf("SC_PAGE_SIZE")
        self._boot = boot_time(proc)
        self._own_pids = _pids_are_the_drivers(proc)

    @property
    def partial(self):
        # type: () -> str | None
        """Why facts are missing, where asking about a process does not come back."""
        stuck = self._rounds.stuck
        return "reading /proc/{} does not come back".format(stuck[0]) if stuck else None

    def read(self, gpu_processes):
        # type: (dict[int, list[dict[str, object]]]) -> tuple[list[dict[str, object]], int]
        """Dicts with the keys of `wire.Process`, those on a GPU first, and how many more there were.

        `gpu_processes` maps a pid to what it holds (keys of `wire.ProcessGpu`). A pid that cannot be seen
        from here (another pid namespace) is listed with the name `?`.
        """
        now = self._monotonic()
        if now >= self._scan_due:
            self._scan_due = now + self._scan_every_s
            self._scan(now)
        found = {pid: read_stat(self._proc, pid) for pid in gpu_processes}
        self._meet([pid for pid, line in found.items() if self._is_stranger(pid, line)], now)
        holders = {pid: identity(self._inherited(pid)) for pid in gpu_processes if pid in self._known}
        candidates = {
            pid: identity(one.variables)
            for pid, one in self._known.items()
            if one.variables
            and pid not in holders
            and carries_rank(one.name, one.variables)
            and pid != self._me
        }
        numbered = self._numbered(set(gpu_processes), set(candidates), now)
        ranked = owners(candidates, holders, self._ancestors)
        listed = sorted(gpu_processes) + ranked + sorted(set(numbered).difference(gpu_processes, ranked))
        truncated = max(0, len(listed) - MAX_PROCESSES)
        listed = listed[:MAX_PROCESSES]
        found.update((pid, read_stat(self._proc, pid)) for pid in listed if pid not in found)
        above = {pid: self._launcher(pid) for pid in listed}
        above.update((pid, one["launcher"]) for pid, one in numbered.items() if pid in above)  # type: ignore[misc]
        started = sorted({pid for pid in above.values() if pid is not None})
        others = [
            pid for pid, one in self._known.items() if one.name in LAUNCHERS or one.name in PIPE_READERS
        ]
        present = [pid for pid, line in found.items() if line is not None]
        self._learn_details(present + sorted(set(started + others)), now)
        self._ends = outlets(self._details(pid for pid in others if self._known[pid].name in PIPE_READERS))
        self.launchers = dict(self._outputs(set(started).union(others), above))
        rows = [self._row(pid, found[pid], gpu_processes.get(pid), above[pid], now) for pid in listed]
        for row in rows:
            if row is not None and row["pid"] in numbered:
                row.update(numbered[row["pid"]])
        return [row for row in rows if row is not None], truncated

    def _numbered(self, on_gpu, candidates, now):
        # type: (set[int], set[int], float) -> dict[int, dict[str, object]]
        """The ranks that their program numbers itself, as `spawned_ranks.ranks`.

        `on_gpu`: pids that hold a GPU, `candidates`: those with a rank in their environment.
        """
        free = [
            pid
            for pid, one in self._known.items()
            if pid not in candidates
            and pid != self._me
            and (one.name.startswith(("python", "pt_")) or pid in on_gpu)
            and "rank" not in identity(self._inherited(pid))
        ]
        parents = Counter(self._known[pid].parent for pid in free)
        beside = [pid for pid in free if self._known[pid].parent > 1 < parents[self._known[pid].parent]]
        self._learn_details(beside, now)
        siblings = [one for one in map(self._sibling, beside) if one is not None]
        return self._groups.ranks(siblings, on_gpu, self._is_distributed, self._has_library)

    def _sibling(self, pid):
        # type: (int) -> Sibling | None
        """None: nothing is known of it."""
        one, found = self._known[pid], read_stat(self._proc, pid)
        if found is not None and found.state == ENDED:
            if found.exit_status is None and pid not in self._groups:
                return None  # it may be a helper that ended well
            return Sibling(pid, one.parent, one.start_ticks, "", [], ended=True)
        if one.details is None:
            return None
        logs = written(one.details, self._ends)
        return Sibling(pid, one.parent, one.start_ticks, one.details.command or "", logs)

    def _has_library(self, pid):
        # type: (int) -> bool
        """As `spawned_ranks.has_library`: asked again of a process that may still be loading."""
        one = self._known[pid]
        if one.trains is None or (not one.trains and self._is_young(one)):
            one.trains = has_library(self._proc, pid)
        return one.trains

    def _is_distributed(self, pid):
        # type: (int) -> bool
        """As `spawned_ranks.is_distributed`: once it is, it stays so."""
        one = self._known[pid]
        if not one.distributed:
            one.distributed = is_distributed(self._proc, pid)
        return one.distributed

    def _details(self, wanted):
        # type: (Iterable[int]) -> list[Details]
        found = (self._known[pid].details for pid in wanted if pid in self._known)
        return [one for one in found if one is not None]

    def _outputs(self, wanted, above):
        # type: (Iterable[int], dict[int, int | None]) -> Iterator[tuple[int, dict[str, object]]]
        """What launchers write; who started ranks that write into pipes is one, whatever its name.

        `above`: rank -> what started it.
        """
        piped = {above[pid] for pid in above if any(set(one.pipes) - {0} for one in self._details([pid]))}
        for pid in wanted:
            one = self._known.get(pid)
            if one is None or one.details is None or not (is_launcher(one.name) or pid in piped):
                continue
            paths = written(one.details, self._ends)
            if paths:
                yield pid, dict(identity(one.variables or {}), paths=paths)

    def _scan(self, now):
        # type: (float) -> None
        """Forget who is gone, meet who is new, and look again at a part of the others."""
        present = set(pids(self._proc))
        self._known = {pid: one for pid, one in self._known.items() if pid in present}
        self._meet([pid for pid in present if self._is_due(pid, now)], now)

    def _is_stranger(self, pid, found):
        # type: (int, Stat | None) -> bool
        one = self._known.get(pid)
        return found is not None and (one is None or one.start_ticks != found.start_ticks)

    def _is_due(self, pid, now):
        # type: (int, float) -> bool
        return pid not in self._known or self._known[pid].checked <= now - RECHECK_S

    def _meet(self, strangers, now):
        # type: (list[int], float) -> None
        asked = []  # type: list[int]
        for pid in strangers:
            found = read_stat(self._proc, pid)
            if found is None:
                self._known.pop(pid, None)
                continue
            one = self._known.get(pid)
            if one is None or one.start_ticks != found.start_ticks:
                one = self._known[pid] = _Known(found, now - RECHECK_S, self._started(found))
            one.name, one.parent = found.name, found.parent
            if found.is_kernel_thread:
                one.checked = now
            else:
                asked.append(pid)
        for pid, answer in self._rounds.ask({pid: self._environ_of(pid) for pid in asked}).items():
            if isinstance(answer, dict):
                one = self._known[pid]
                one.variables = answer
                one.checked = now - RECHECK_S if self._is_young(one) else now

    def _is_young(self, one):
        # type: (_Known) -> bool
        return one.start is not None and self._clock() - one.start < YOUNG_S

    def _environ_of(self, pid):
        # type: (int) -> Callable[[], dict[str, str]]
        path = os.path.join(self._proc, str(pid), "environ")
        return lambda: variables(read_bytes(path, MAX_ENVIRON) or b"")

    def _details_of(self, pid):
        # type: (int) -> Callable[[], Details]
        all_files = self._known[pid].name in PIPE_READERS
        return lambda: Details(self._proc, pid, self._users, all_files)

    def _learn_details(self, present, now):
        # type: (list[int], float) -> None
        due = [pid for pid in present if pid in self._known and self._known[pid].details_due <= now]
        for pid, answer in self._rounds.ask({pid: self._details_of(pid) for pid in due}).items():
            if isinstance(answer, Details):
                self._known[pid].details = answer
                self._known[pid].details_due = now + DETAILS_EVERY_S

    def _row(self, pid, found, gpus, launcher, now):
        # type: (int, Stat | None, list[dict[str, object]] | None, int | None, float) -> dict[str, object] | None
        one = self._known.get(pid)
        details = one.details if one is not None else None
        if found is None or one is None or self._is_a_namesake(details, gpus):
            return {"pid": pid, "name": "?", "gpus": gpus} if gpus else None
        inherited = self._inherited(pid)
        row = {
            "pid": pid,
            "name": found.name,
            "start": one.start,
            "state": found.state,
            "exit_status": found.exit_status,
            "cpu_pct": self._cpu(one, found, now),
            "rss_bytes": found.rss_pages * self._page_bytes,
            "gpus": gpus,
            "variables": inherited,
            "launcher": launcher,
        }  # type: dict[str, object]
        row.update(identity(inherited))
        if details is not None:
            row.update((key, getattr(details, key)) for key in ("user", "command", "container", "inner_pid"))
            row["logs"] = written(details, self._ends)
            if set(details.pipes) - {0}:
                row["piped"] = True
            row.setdefault("job", details.job)
            if details.step is not None:
                row["variables"] = dict({"SLURM_STEP_ID": details.step}, **inherited)
        return {key: value for key, value in row.items() if value not in (None, [], {})}

    def _is_a_namesake(self, details, gpus):
        # type: (Details | None, list[dict[str, object]] | None) -> bool
        """In a container the driver's pid may be that of another process here, which has no GPU open."""
        return bool(gpus) and not self._own_pids and details is not None and details.holds_gpu is False

    def _cpu(self, one, found, now):
        # type: (_Known, Stat, float) -> float | None
        """Per cent of one core since the reading before."""
        before, one.cpu = one.cpu, (now, found.cpu_ticks)
        if before is None or now <= before[0] or found.cpu_ticks < before[1]:
            return None
        return 100.0 * (found.cpu_ticks - before[1]) / self._ticks_per_s / (now - before[0])

    def _started(self, found):
        # type: (Stat) -> float | None
        return None if self._boot is None else self._boot + found.start_ticks / self._ticks_per_s

    def _ancestors(self, pid):
        # type: (int) -> Iterator[int]
        for _ in range(MAX_DEPTH):
            one = self._known.get(pid)
            if one is None or one.parent <= 0:
                return
            pid = one.parent
            yield pid

    def _launcher(self, pid):
        # type: (int) -> int | None
        """The nearest process above a rank that has another rank's variables, or none."""
        if pid not in self._known:
            return None
        place = place_of(identity(self._inherited(pid)))
        for above in self._ancestors(pid) if place[0] is not None else ():
            if above in self._known and place_of(identity(self._inherited(above))) != place:
                return above
        return None

    def _inherited(self, pid):
        # type: (int) -> dict[str, str]
        """The variables of a process, completed from the processes above it: the nearest wins."""
        merged = dict(self._known[pid].variables or {})
        for above in self._ancestors(pid):
            one = self._known.get(above)
            for key, value in (one.variables or {}).items() if one is not None else ():
                merged.setdefault(key, value)
        return merged


def _pids_are_the_drivers(proc):
    # type: (str) -> bool
    if os.environ.get("GPUWATCH_DRIVER_PIDS") == "own":
        return True
    try:
        return os.readlink(os.path.join(proc, "self/ns/pid")) == _INITIAL_PID_NAMESPACE
    except OSError:
        return True
