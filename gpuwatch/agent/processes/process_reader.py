"""Reads the relevant processes: those that use a GPU, and those that are ranks."""

import os
import time
from collections import Counter

from ..base.user_rights import uid_of
from ..ranks.launcher_names import LAUNCHERS, is_launcher
from ..ranks.rank_arguments import with_stated
from ..ranks.rank_environment import identity
from ..ranks.ray_workers import TITLE, RayWorkers
from .children_cpu import ChildrenCpu
from .known_processes import KnownProcesses
from .launchers import PIPE_READERS, JobOwners, outlets, written
from .process_table import ENDED, STOPPED, read_stat
from .rank_owners import carries_rank, owners
from .sibling_numbers import Sibling
from .spawned_ranks import SpawnGroups, may_be_program

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Container, Iterable, Iterator

    from .known_processes import KnownProcess
    from .process_details import Details
    from .process_table import Stat

MAX_PROCESSES = 1024
MAX_APART = 256
"""Most processes with a parent of their own that are compared with each other."""
SCAN_EVERY_S = 4.5
"""Shortest interval in seconds of searches for ranks; processes on a GPU are read every time."""
_INITIAL_PID_NAMESPACE = "pid:[4026531836]"
"""PROC_PID_INIT_INO of the kernel: the namespace whose pids the driver reports."""


class ProcessReader(object):
    """Finds the processes that use a GPU (by NVML) and the ranks among all processes (by /proc)."""

    def __init__(
        self,
        clock: "Callable[[], float]" = time.time,
        proc: str = "/proc",
        monotonic: "Callable[[], float]" = time.monotonic,
        scan_every_s: float = SCAN_EVERY_S,
    ) -> None:
        self._proc = proc
        self._monotonic = monotonic
        self._processes = KnownProcesses(proc, clock)
        self._known = self._processes.by_pid
        self._children = ChildrenCpu(proc, self._processes)
        self.launchers: dict[int, dict[str, object]] = {}
        """Pid of each launcher -> `paths` of the log files that it writes, and its `job` if it names one.

        Launchers are what started the listed ranks, and other known launchers; the job comes from their own
        variables.
        """
        self.starters: dict[int, tuple[str, object]] = {}
        """Pid of each launcher of a listed rank -> its name and its start."""
        self._ends: dict[str, list[str]] = {}
        self._me = os.getpid()  # in a pod of a job the agent itself carries the rank's variables
        self._groups = SpawnGroups()
        self._separate = SpawnGroups()
        self._ray = RayWorkers()
        self._job_owners = JobOwners()
        self._stopped: set[int] = set()
        """Launchers that a signal has stopped."""
        self._scan_every_s = scan_every_s
        self._scan_due = monotonic()
        self._page_bytes = os.sysconf("SC_PAGE_SIZE")
        self._own_pids = _pids_are_the_drivers(proc)

    @property
    def partial(self) -> "str | None":
        """Return why facts are missing, if reading about a process does not return; else None."""
        stuck = self._processes.stuck
        return "reading /proc/{} does not return".format(stuck[0]) if stuck else None

    def read(
        self, gpu_processes: "dict[int, list[dict[str, object]]]"
    ) -> "tuple[list[dict[str, object]], int]":
        """Return (dicts with the keys of `wire.Process`, those on a GPU first; number of omitted ones).

        `gpu_processes` maps a pid to dicts with the keys of `wire.ProcessGpu`. A pid that is invisible here
        (another pid namespace) is listed with the name `?`.
        """
        now = self._monotonic()
        if now >= self._scan_due:
            self._scan_due = now + self._scan_every_s
            self._processes.scan(now)
        found = {pid: read_stat(self._proc, pid) for pid in gpu_processes}
        self._processes.add_unknown(found, now)
        holders = {
            pid: identity(self._processes.inherited(pid)) for pid in gpu_processes if pid in self._known
        }
        candidates = self._with_rank(holders)
        numbered = self._numbered(set(gpu_processes), set(candidates), now)
        ranked = owners(candidates, holders, self._processes.ancestors)
        listed = sorted(gpu_processes) + ranked + sorted(set(numbered).difference(gpu_processes, ranked))
        truncated = max(0, len(listed) - MAX_PROCESSES)
        listed = listed[:MAX_PROCESSES]
        found.update((pid, read_stat(self._proc, pid)) for pid in listed if pid not in found)
        above = {pid: self._processes.launcher(pid) for pid in listed}
        for pid in set(numbered).intersection(above):
            launcher = numbered[pid].get("launcher", above[pid])
            above[pid] = launcher if isinstance(launcher, int) else None
        started = sorted({pid for pid in above.values() if pid is not None})
        self.starters = {
            pid: (self._known[pid].name, self._known[pid].start)
            for pid in started
            if pid in self._known and is_launcher(self._known[pid].name)
        }
        states = ((pid, read_stat(self._proc, pid)) for pid in started)
        self._stopped = {pid for pid, stat in states if stat is not None and stat.state == STOPPED}
        others = [
            pid for pid, one in self._known.items() if one.name in LAUNCHERS or one.name in PIPE_READERS
        ]
        present = [pid for pid, line in found.items() if line is not None]
        self._processes.doubt_details(gpu_processes)
        self._processes.look_for_new_logs(present + started)
        self._processes.learn_details(present + sorted(set(started + others)), now)
        self._ends = outlets(
            self._processes.details(pid for pid in others if self._known[pid].name in PIPE_READERS)
        )
        self.launchers = dict(self._outputs(set(started).union(others), above))
        rows = [self._row(pid, found[pid], gpu_processes.get(pid), above[pid], now) for pid in listed]
        used = self._children.read(set(listed), candidates, now)
        present_rows = [row for row in rows if row is not None]
        for row in present_rows:
            if row["pid"] in numbered:
                row.update(with_stated(numbered[row["pid"]], row))
            self._add_children(row, used)
        return present_rows, truncated

    def _with_rank(self, holders: "Container[int]") -> "dict[int, dict[str, object]]":
        """Return pid -> rank facts of the processes without a GPU whose environment names a rank."""
        return {
            pid: identity(one.variables)
            for pid, one in self._known.items()
            if one.variables
            and pid not in holders
            and carries_rank(one.name, one.variables)
            and pid != self._me
        }

    def _add_children(self, row: "dict[str, Any]", used: "dict[int, float]") -> None:
        """Add to a process's row its child processes, and the CPU time that they use."""
        if row["pid"] in used:
            row["children_cpu_pct"] = used[row["pid"]]
        if row["pid"] in self._children.pids:
            inner = self._children.inner(row["pid"]) if "inner_pid" in row else []
            row["children"] = sorted(set(self._children.pids[row["pid"]]).union(inner))

    def _numbered(
        self, on_gpu: "set[int]", candidates: "set[int]", now: float
    ) -> "dict[int, dict[str, object]]":
        """Return pid -> rank facts of ranks that their program numbers itself (`spawned_ranks.ranks`).

        `on_gpu`: pids that use a GPU, `candidates`: those with a rank in their environment.
        """
        free = [
            pid
            for pid, one in self._known.items()
            if pid not in candidates
            and pid != self._me
            and (may_be_program(one.name) or pid in on_gpu)
            and "rank" not in identity(self._processes.inherited(pid))
        ]
        parents = Counter(self._known[pid].parent for pid in free)
        beside = [pid for pid in free if self._known[pid].parent > 1 < parents[self._known[pid].parent]]
        apart = self._apart(free, beside, candidates)
        self._processes.learn_details(beside + apart, now)
        ray = self._ray_ranks(beside + apart)
        beside, apart = ([pid for pid in group if pid not in ray] for group in (beside, apart))
        siblings = [one for one in map(self._sibling, beside) if one is not None]
        asked = self._processes.is_distributed, self._processes.has_library
        separate = [one for one in map(self._sibling, apart) if one is not None and not one.ended]
        users = [(self._user(one.pid), one) for one in separate]
        found = self._separate.separate(users, *asked)
        found.update(self._groups.ranks(siblings, on_gpu, *asked))
        found.update(ray)
        return found

    def _ray_ranks(self, programs: "list[int]") -> "dict[int, dict[str, object]]":
        """Return pid -> rank facts of the workers of Ray among `programs` that state their rank."""
        found: dict[int, dict[str, object]] = {}
        for pid in programs:
            one = self._known[pid]
            if one.details is not None and one.name.startswith(TITLE):
                facts = self._ray.facts(pid, one.start_ticks, written(one.details, self._ends))
                if facts:
                    found[pid] = dict(facts, launcher=one.parent)
        return found

    def _apart(self, free: "list[int]", beside: "list[int]", candidates: "set[int]") -> "list[int]":
        """Return the processes that were each started from a separate shell, at most `MAX_APART`.

        RANK alone in the environment counts: others that run the same command have it too.
        """
        alone = [
            pid
            for pid, one in self._known.items()
            if one.variables
            and "RANK" in one.variables
            and pid not in candidates
            and pid != self._me
            and may_be_program(one.name)
        ]
        programs = set(free).union(alone)
        launchers = {above for pid in candidates for above in self._processes.ancestors(pid)}
        found = programs.difference(beside, launchers)
        return [pid for pid in sorted(found) if pid > 1 and self._known[pid].parent not in programs][
            :MAX_APART
        ]

    def _user(self, pid: int) -> "str | None":
        details = self._known[pid].details
        return None if details is None else details.user

    def _sibling(self, pid: int) -> "Sibling | None":
        """Return the process as a `Sibling`; None: its details are unknown, or it ended well."""
        one, found = self._known[pid], read_stat(self._proc, pid)
        if found is not None and found.state == ENDED:
            if found.exit_status is None and pid not in self._groups:
                return None  # it may be a helper that ended well
            return Sibling(pid, one.parent, one.start_ticks, "", [], ended=True)
        if one.details is None:
            return None
        logs = written(one.details, self._ends)
        found_here = Sibling(pid, one.parent, one.start_ticks, one.details.command or "", logs)
        found_here.own_rank = identity({"RANK": (one.variables or {}).get("RANK", "")}).get("rank")  # type: ignore[assignment]  # `identity` returns mixed values; a rank is a number
        gpu = (one.variables or {}).get("CUDA_VISIBLE_DEVICES", "")
        found_here.own_gpu = int(gpu) if gpu.isdecimal() and len(gpu) < 5 else None
        return found_here

    def _outputs(
        self, wanted: "Iterable[int]", above: "dict[int, int | None]"
    ) -> "Iterator[tuple[int, dict[str, object]]]":
        """Yield (pid, job facts and `paths`) of the launchers that write log files.

        A process that started ranks which write into pipes is one, whatever its name, but not sshd: what it
        reads goes to the other machine, and its log is its own.

        A program states no job of another user's ranks.

        `above`: rank -> its starter.
        """
        jobs = (
            (identity(self._processes.inherited(pid)).get("job"), pid) for pid in above if pid in self._known
        )
        self._job_owners.take((str(job), uid_of(pid, self._proc)) for job, pid in jobs if job is not None)
        piped = {
            above[pid] for pid in above if any(set(one.pipes) - {0} for one in self._processes.details([pid]))
        }
        for pid in wanted:
            one = self._known.get(pid)
            if one is None or one.details is None or not (is_launcher(one.name) or pid in piped):
                continue
            if one.name.startswith("sshd"):
                continue
            paths = written(one.details, self._ends)
            facts = identity(one.variables or {})
            if not self._job_owners.may_state(facts.get("job"), uid_of(pid, self._proc)):
                facts = {}
            if paths:
                yield pid, dict(facts, paths=paths)

    def _row(
        self,
        pid: int,
        found: "Stat | None",
        gpus: "list[dict[str, object]] | None",
        launcher: "int | None",
        now: float,
    ) -> "dict[str, object] | None":
        one = self._known.get(pid)
        details = one.details if one is not None else None
        namesake = self._is_a_namesake(details, gpus)
        if found is None or one is None or (namesake and not carries_rank(one.name, one.variables or {})):
            return {"pid": pid, "name": "?", "gpus": gpus} if gpus else None
        if namesake:  # a rank is listed even if another process claims its number
            gpus = None
        inherited = self._processes.inherited(pid)
        row: dict[str, object] = {
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
        }
        row.update(identity(inherited))
        if launcher in self._stopped:
            row["launcher_stopped"] = True
        if details is not None:
            row.update((key, getattr(details, key)) for key in ("user", "command", "container", "inner_pid"))
            row["logs"] = written(details, self._ends)
            if set(details.pipes) - {0}:
                row["piped"] = True
            row.setdefault("job", details.job)
            if details.step is not None:
                row["variables"] = dict({"SLURM_STEP_ID": details.step}, **inherited)
        return {key: value for key, value in row.items() if value not in (None, [], {})}

    def _is_a_namesake(self, details: "Details | None", gpus: "list[dict[str, object]] | None") -> bool:
        """Return True if, in a container, the driver's pid is another process here, without an open GPU."""
        return bool(gpus) and not self._own_pids and details is not None and details.holds_gpu is False

    def _cpu(self, one: "KnownProcess", found: "Stat", now: float) -> "float | None":
        """Return a process's CPU use since the previous reading, in percent of one core; None at first."""
        before, one.cpu = one.cpu, (now, found.cpu_ticks)
        if before is None or now <= before[0] or found.cpu_ticks < before[1]:
            return None
        return 100.0 * (found.cpu_ticks - before[1]) / self._processes.ticks_per_s / (now - before[0])


def _pids_are_the_drivers(proc: str) -> bool:
    if os.environ.get("GPUWATCH_DRIVER_PIDS") == "own":
        return True
    try:
        return os.readlink(os.path.join(proc, "self/ns/pid")) == _INITIAL_PID_NAMESPACE
    except OSError:
        return True
