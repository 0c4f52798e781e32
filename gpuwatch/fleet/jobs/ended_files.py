"""Assigns the log files of ended jobs to jobs by their paths; no process has them open any more."""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timezone
from typing import TypeAlias

from gpuwatch.agent.patterns.module_pattern import pattern_of
from gpuwatch.wire import LogFile

_SLURM = pattern_of(r"slurm-(\d{1,12}(?:_\d{1,8})?)(?:[._-][^/]{0,40})?\.(?:out|err|log)")
_SUBMITIT = pattern_of(r"(\d{2,12}(?:_\d{1,8})?)_\d{1,6}_log\.(?:out|err)")
_RAY = pattern_of(r".*/(session_[\w-]{1,80})/logs/worker-[0-9a-f]{8,64}-([0-9a-f]{8})-\d{1,10}\.(?:out|err)")
"""A Ray worker's log: the session's name is the same on all nodes, and its jobs are numbered."""
_STAMP = pattern_of(r"(?<!\d)\d{4}-?\d\d-?\d\d[-_T]?\d\d[-_]?\d\d(?:[-_]?\d\d)?(?!\d)")
"""The start time of a run in a file's name."""
SAME_START_S = 120
"""The launchers of one job on several nodes start within this many seconds."""
_WANDB = pattern_of(r"/wandb/(?:offline-)?run-[^/]{1,100}/(?:files|logs)$")
_LIGHTNING = pattern_of(r"/lightning_logs(?:/version_\d{1,6})?$")
_TORCHRUN = pattern_of(r"(.*/([^/]{1,200})_[a-z0-9_]{8})/attempt_\d{1,6}/\d{1,4}/[^/]{1,80}")
"""A log of torchrun's `--log-dir`: each agent appends eight random characters to the run id."""
TEMPORARY = "/torchelastic_"
"""Part of the path where torchrun keeps the error files of its ranks if no `--log-dir` was given."""
NO_ID = "none"
"""torchrun's run id if none was given."""
_RANK = pattern_of(
    r"(?:[-_.]?(?:global|local)?[-_.]?(?:rank|task|worker|node|r))?[-_.=]?\d{1,6}$", re.IGNORECASE
)
_STREAM = pattern_of(r"[-_.](?:stdout|stderr|out|err|log|txt|console)$|^(?:stdout|stderr|output|error)$")
_GENERAL = pattern_of(
    r"(?:logs?|outputs?|out|runs?|results?|jobs?|work|tmp|exp(?:eriments?)?|default|version_\d{1,6}"
    r"|\d{2}-\d{2}-\d{2}|\d{4}-\d{2}-\d{2}|\d{1,4})"
)
"""Folder names that do not identify a job (`logs`, `output`)."""

_RECORD = pattern_of(
    r"(?i)(?:kubectl[-_.])?(?:describe|events?|inspect|sacct|scontrol|squeue|dmesg|journal(?:ctl)?|nvidia-smi|df"
    r"|free|ps|top|env|ibstat|lsof|lspci)(?:[-_.]\w.*)?"
)
"""Names of files that people save beside a job's log; they belong to the only job of the folder."""
MAX_GENERAL = 3
"""Maximum number of general folders below a folder that identifies the job."""
RunEnd: TypeAlias = "tuple[float, str]"

LAUNCHER_S = 120.0
"""A launcher may write its last line this many seconds before or after its ranks: it waits for hung ranks."""
TOGETHER_S = 3.0
"""Folders of one run id and unknown ranks are of one run if they end within this many seconds."""
MAX_LAUNCHERS = 4096
"""Maximum number of launchers' folders of one run; more are not compared."""
HANG_S = 2400.0
"""A hung job's launcher ends up to this many seconds after its ranks' last line (time-outs: 600 to 1,800)."""


def is_ended(file: LogFile) -> bool:
    """Return True if a log belongs to a job that ended before the agent started: no process has it open."""
    return file.source == "found" and file.last_at is not None and not file.pids


def has_own_id(path: str) -> bool:
    """Return True if the path contains an id of the job that is the same on all of its nodes."""
    return _scheduled(path) is not None or run_of(path)[1] not in (None, NO_ID)


def _scheduled(path: str) -> str | None:
    """Return a job name made of the id from Slurm or Ray in a path; None: there is none."""
    name = path.rpartition("/")[2]
    slurm = _SLURM.fullmatch(name) or _SUBMITIT.fullmatch(name)
    if slurm is not None:
        return slurm.group(1)
    ray = _RAY.fullmatch(path)
    return None if ray is None else f"{ray.group(1)}/{ray.group(2)}"


def run_of(path: str) -> tuple[str, str | None]:
    """Return the folder that a torchrun agent made for a run, and its run id; ("", None) for other paths."""
    found = _TORCHRUN.fullmatch(path)
    return ("", None) if found is None else (found.group(1), found.group(2))


def ended_job_names(files: Iterable[LogFile], home: Callable[[str], str]) -> dict[str, str]:
    """Return path -> job name for the files of ended jobs among these.

    A folder with files of ranks is one job. Elsewhere files belong to one job if they differ only in the part
    that names a rank or stream (`a.out` and `a.err`). A launcher's log above a folder belongs to the run in
    the folder if only that run ended at about the same time. Logs of ranks beside it
    (`job/logs` and `job/tr/none_x/attempt_0`) belong to that run too, and a launcher's log in `job` belongs
    to the ranks in `job/logs`. A run without an id has the name of its launcher's log.

    Args:
        files: Of one node.
        home: Path -> the folder of its job's logs.
    """
    found: dict[str, str] = {}
    folders: dict[str, list[LogFile]] = defaultdict(list)
    for file in files:
        if is_ended(file):
            scheduled = _scheduled(file.path)
            if scheduled is not None:
                found[file.path] = scheduled
            else:
                folders[_folder(home(file.path))].append(file)
    shown = _shown_apart(folders)
    runs = _runs(folders)
    sorted_runs = sorted(runs)
    shown.update(_named_by_id(runs, folders))
    ranked_folders = {folder for folder, members in folders.items() if _is_ranked(members)}
    beside = _runs_beside(ranked_folders - runs.keys(), folders, runs, sorted_runs)
    shown.update({folder: shown[run] for folder, run in beside.items()})
    shown.update(_error_files(ranked_folders - runs.keys(), folders, runs, shown))
    below_here = _ranks_below(ranked_folders - runs.keys(), folders)
    launched: dict[str, set[str]] = defaultdict(set)
    for folder, members in folders.items():
        stems = {file.path: _stem(file.path) for file in members}
        ranked = folder in ranked_folders
        trained = {stem for stem in stems.values() if not _RECORD.fullmatch(stem)}
        one = ranked or len(trained or set(stems.values())) == 1
        older = _older_starts(members) if ranked else {}
        ends = [] if folder in runs else _run_ends(folder, runs, sorted_runs)
        for file in members:
            own = shown[folder] if one else f"{shown[folder]}/{stems[file.path]}"
            if file.path in older:
                own = f"{shown[folder]}/{older[file.path]}"
            run = _run_below(file, ends, shown)
            if run is not None and shown[run] == NO_ID:
                launched[shown[run]].add(own)
            if run is None and not ranked and folder in below_here:
                place, last = below_here[folder]
                run = place if -LAUNCHER_S <= (file.last_at or 0.0) - last <= HANG_S else None
            found[file.path] = own if run is None else shown[run]
    called = {run: next(iter(names)) for run, names in launched.items() if len(names) == 1}
    return {path: called.get(job, job) for path, job in found.items()}


def _is_ranked(files: Iterable[LogFile]) -> bool:
    """Return True if one of a folder's files is known to belong to a rank."""
    return any(file.ranks or file.local_rank is not None for file in files)


def _runs_beside(
    ranked: Iterable[str],
    folders: Mapping[str, Iterable[LogFile]],
    runs: Mapping[str, tuple[str, float]],
    sorted_runs: Sequence[str],
) -> dict[str, str]:
    """Return folder with logs of ranks -> the torchrun run of the same project that ended at the same time.

    Folders with several such runs, or none, are left out.
    """
    found = {}
    for folder in ranked:
        if project_of(folder) == folder:  # a home folder holds logs of many jobs
            continue
        last = _last_of(folders[folder])
        ends = _run_ends(project_of(folder), runs, sorted_runs)
        near = [run for end, run in ends if abs(end - last) <= LAUNCHER_S]
        if len(near) == 1:
            found[folder] = near[0]
    return found


def _error_files(
    ranked: Iterable[str],
    folders: Mapping[str, Iterable[LogFile]],
    runs: Mapping[str, tuple[str, float]],
    shown: Mapping[str, str],
) -> dict[str, str]:
    """Return folder with torchrun's error files -> name of the job whose ranks ended at the same time.

    With a run id, that is the only such job with the id in the path of its logs; without one, the only such
    job. Other folders are left out.
    """
    found = {}
    last = {folder: _last_of(folders[folder]) for folder in ranked}
    for run, (name, end) in runs.items():
        if TEMPORARY not in run:
            continue
        near = [folder for folder, at in last.items() if abs(end - at) <= LAUNCHER_S]
        named = [folder for folder in near if name != NO_ID and name in folder.split("/")]
        near = named or (near if name == NO_ID else [])
        if len(near) == 1:
            found[run] = shown[near[0]]
    return found


def _ranks_below(
    ranked: Iterable[str], folders: Mapping[str, Iterable[LogFile]]
) -> dict[str, tuple[str, float]]:
    """Return project folder -> (the only folder below with logs of ranks, time of their last write)."""
    found: dict[str, list[str]] = defaultdict(list)
    for folder in ranked:
        found[project_of(folder)].append(folder)
    return {
        project: (places[0], _last_of(folders[places[0]]))
        for project, places in found.items()
        if len(places) == 1 and places[0] != project
    }


def _last_of(files: Iterable[LogFile]) -> float:
    return max((file.last_at or 0.0 for file in files), default=0.0)


def project_of(folder: str) -> str:
    """Return a folder without general last parts, which name no job: `/srv/a` for `/srv/a/logs`."""
    parts = folder.split("/")
    kept = len(parts)
    while kept > 2 and len(parts) - kept < MAX_GENERAL and _GENERAL.fullmatch(parts[kept - 1]):
        kept -= 1
    return "/".join(parts[:kept])


def _older_starts(files: Iterable[LogFile]) -> dict[str, str]:
    """Return path -> start time for files whose name holds an earlier start than the folder's newest one.

    DeepSpeed writes the logs of all its runs into one folder: `20261123005003_rank0.log`.
    """
    starts: dict[float, list[tuple[str, str]]] = {}
    for file in files:
        stamp = _STAMP.search(file.path.rpartition("/")[2])
        digits = "" if stamp is None else re.sub(r"\D", "", stamp[0]).ljust(14, "0")
        try:
            at = datetime.strptime(digits, "%Y%m%d%H%M%S").replace(tzinfo=timezone.utc).timestamp()
        except ValueError:
            continue
        starts.setdefault(at, []).append((file.path, stamp[0] if stamp is not None else ""))
    found: dict[str, str] = {}
    first, name = math.inf, ""
    for at in sorted(starts, reverse=True):
        if first - at > SAME_START_S:
            name = "" if first == math.inf else starts[at][0][1]
            first = at
        found.update({path: name for path, _ in starts[at] if name})
    return found


def _runs(folders: Mapping[str, Iterable[LogFile]]) -> dict[str, tuple[str, float]]:
    """Return run folder -> (torchrun's run id, time of its last write)."""
    found = {}
    for folder, members in folders.items():
        ids = {name for where, name in (run_of(file.path) for file in members) if where == folder}
        name = next(iter(ids), None)
        if name is not None:
            found[folder] = name, max(file.last_at or 0.0 for file in members)
    return found


def _named_by_id(
    runs: Mapping[str, tuple[str, float]], folders: Mapping[str, Iterable[LogFile]]
) -> dict[str, str]:
    """Return folder -> run id; an older run of the same id keeps the name of its folder.

    Launchers of several nodes that share a `--log-dir` make a folder each: folders of other ranks that ended
    within `LAUNCHER_S` of the newest run belong to it, and those of unknown ranks within `TOGETHER_S`.
    """
    named: dict[str, str] = {}
    taken: dict[str, tuple[float, set[int]]] = {}
    for folder, (name, last) in sorted(runs.items(), key=lambda run: run[1][1], reverse=True):
        ranks = {rank for file in folders[folder] for rank in file.ranks}
        newest, known = taken.setdefault(name, (last, set()))
        others = ranks and newest - last <= LAUNCHER_S and not ranks & known
        if not known or others or (not ranks and known == {-1} and newest - last <= TOGETHER_S):
            named[folder] = name
            known |= ranks or {-1}
    return named


def _run_ends(folder: str, runs: Mapping[str, tuple[str, float]], sorted_runs: Sequence[str]) -> list[RunEnd]:
    """Return the (time of the last write, folder) of each run below a folder, sorted by time."""
    return sorted((runs[run][1], run) for run in sorted_runs[below(folder, sorted_runs)])


def _run_below(file: LogFile, ends: Sequence[RunEnd], shown: Mapping[str, str]) -> str | None:
    """Return the run below the folder of a launcher's log that ended when the log did.

    None if none or several did; folders of several launchers with one job name, as in `shown`, are one run.
    """
    if not ends or file.rank_from == "path" or file.local_rank is not None:
        return None
    last = file.last_at or 0.0
    first = bisect_left(ends, (last - LAUNCHER_S, ""))
    near = [run for end, run in ends[first : first + MAX_LAUNCHERS] if end <= last + LAUNCHER_S]
    return near[0] if len({shown[run] for run in near}) == 1 and len(near) < MAX_LAUNCHERS else None


def below(folder: str, places: Sequence[str]) -> slice:
    """Return the slice of a sorted list of folders that contains those below a folder."""
    return slice(bisect_left(places, f"{folder}/"), bisect_left(places, f"{folder}0"))  # 0 follows /


def _shown_apart(folders: Iterable[str]) -> dict[str, str]:
    """Return folder -> its short name; the whole path if another folder has the same short name."""
    shown = {folder: _shown(folder) for folder in folders}
    counts = Counter(shown.values())
    return {folder: folder if counts[name] > 1 else name for folder, name in shown.items()}


def _folder(folder: str) -> str:
    """Return the folder of the job: a folder without the parts that wandb and Lightning append."""
    for form in (_WANDB, _LIGHTNING):
        found = form.search(folder)
        if found is not None:
            return folder[: found.start()]
    return folder


def _stem(path: str) -> str:
    """Return a file's name without its suffix, rank and stream: `train` for `train_rank3.log`."""
    stem = path.rpartition("/")[2].rpartition(".")[0] or path.rpartition("/")[2]
    stem = _STREAM.sub("", _RANK.sub("", stem))
    return stem or "log"


def _shown(folder: str) -> str:
    """Return the short name of a folder: `run7`, or `run7/logs` if the last part is a general word."""
    parts = [part for part in folder.split("/") if part]
    kept = 1
    while kept < min(4, len(parts)) and _GENERAL.fullmatch(parts[-kept]):
        kept += 1
    return "/".join(parts[-kept:]) or "/"
