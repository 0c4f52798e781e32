"""Parses the output of `scontrol`, `squeue` and `sacct` about jobs and nodes.

Example, of `scontrol show job -d 41`: `JobId=41 JobName=my run` ... `NodeList=node[001-002]` ...
`Nodes=node[001-002] CPU_IDs=6-7 Mem=4000 GRES=gpu:h100:4(IDX:0-3)` gives a `SlurmJob` of two nodes, each with
the GPUs 0 to 3.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from datetime import datetime

from msgspec import Struct, field

from gpuwatch.hosts.names import RangeError, expand
from gpuwatch.plain import plain_text
from gpuwatch.shell_command import value as in_form
from gpuwatch.whole_number import whole_number

WHOLE_LINE = ("JobName", "Command", "WorkDir", "StdErr", "StdIn", "StdOut", "Comment", "AdminComment")
"""Keys whose value may contain spaces: it is the rest of its line."""
UNKNOWN = frozenset({"", "(null)", "Unknown", "None", "N/A", "None assigned"})

_PAIR = re.compile(r"(?<!\S)([A-Za-z][\w/:.]*)=(\S*)")
_REST = re.compile(rf"(?<!\S)({'|'.join(WHOLE_LINE)})=(.*)")
_GPUS = re.compile(r"gpu(?::[\w.-]+)?:(\d+)(?:\(IDX:([\d,-]*)\))?")


class SlurmJob(Struct, frozen=True):
    """A job, as Slurm reports it; an unknown value is "", empty or None."""

    id: str
    name: str = ""
    user: str = ""
    state: str = ""
    """The job's state: RUNNING, PENDING, FAILED, ..."""
    reason: str = ""
    """Slurm's reason for the job's state."""
    exit_code: str = ""
    """`CODE:SIGNAL`."""
    nodes: tuple[str, ...] = ()
    gpus: Mapping[str, str] = field(default_factory=dict)
    """Node -> indices of the job's GPUs there: `0-3`; empty if only their number is known."""
    gpu_counts: Mapping[str, int] = field(default_factory=dict)
    """Node -> the number of the job's GPUs there."""
    stdout: str = ""
    stderr: str = ""
    folder: str = ""
    """The working directory."""
    ends: float | None = None
    """Unix seconds: the end, or the time limit of a running job."""
    restarts: int = 0
    names: frozenset[str] = frozenset()
    """The ids of the job: `41`, of a task of an array also `41_3`, of a part `41+1`."""


def read_jobs(text: str) -> list[SlurmJob]:
    """Return the jobs in the output of `scontrol show job -d`, in its order."""
    text = plain_text(text)
    starts = [match.start() for match in re.finditer(r"^JobId=", text, re.MULTILINE)]
    pieces = [text[start:end] for start, end in zip(starts, [*starts[1:], len(text)], strict=False)]
    return [_job(piece) for piece in pieces]


def _job(text: str) -> SlurmJob:
    stated: dict[str, set[str]] = {}
    for line in text.splitlines():
        rest = _REST.search(line)  # the value that the job's user chose: no pair in it counts
        pairs = _PAIR.findall(line if rest is None else line[: rest.start()])
        for key, value in [*pairs, *([] if rest is None else [(rest[1], rest[2].strip())])]:
            stated.setdefault(key, set()).add(value)
    # A name of several lines can hold what looks like pairs: what is stated in two ways is unknown.
    given = {key: next(iter(values)) for key, values in stated.items() if len(values) == 1}
    given = {key: value for key, value in given.items() if value not in UNKNOWN}
    head = _head(text)
    gpus, counts = _gpus(text)
    return SlurmJob(
        id=head.get("JobId", ""),
        name=given.get("JobName", ""),
        user=given.get("UserId", "").partition("(")[0],
        state=given.get("JobState", ""),
        reason=given.get("Reason", ""),
        exit_code=given.get("ExitCode", ""),
        nodes=nodes_of(given.get("NodeList", "")),
        gpus=gpus,
        gpu_counts=counts,
        stdout=given.get("StdOut", ""),
        stderr=given.get("StdErr", ""),
        folder=given.get("WorkDir", ""),
        ends=moment(given.get("EndTime", "")),
        restarts=whole_number(given.get("Restarts", "")) or 0,
        names=_names(head),
    )


def _head(text: str) -> dict[str, str]:
    """Return the keys and values before the job's name, the part of the text that its user cannot write."""
    line = text.partition("\n")[0]
    rest = _REST.search(line)
    return dict(_PAIR.findall(line if rest is None else line[: rest.start()]))


def _names(head: Mapping[str, str]) -> frozenset[str]:
    array, part = head.get("ArrayJobId", ""), head.get("HetJobId", "")
    names = {head.get("JobId", ""), array, part}
    names |= {f"{array}_{head.get('ArrayTaskId', '')}", f"{part}+{head.get('HetJobOffset', '')}"}
    return frozenset(name for name in names if in_form("job", name) is not None)


def _gpus(text: str) -> tuple[dict[str, str], dict[str, int]]:
    indices: dict[str, str] = {}
    counts: dict[str, int] = {}
    for line in text.splitlines():
        pairs = dict(_PAIR.findall(line))
        found = _GPUS.search(pairs.get("GRES", ""))
        number = None if found is None else whole_number(found[1])
        if "Nodes" not in pairs or found is None or number is None:
            continue
        for node in nodes_of(pairs["Nodes"]):
            counts[node] = number
            indices[node] = found[2] or ""
    return indices, counts


def nodes_of(text: str) -> tuple[str, ...]:
    """Return the names in a node list such as `node[001-002]`; empty if it is unknown or invalid."""
    try:
        return tuple(expand(text)) if text not in UNKNOWN else ()
    except RangeError:
        return ()


def moment(text: str) -> float | None:
    """Return the unix seconds of Slurm's `2026-11-26T14:26:50` (local time zone); None for other text."""
    try:
        return datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError, OSError):
        return None


class SlurmNode(Struct, frozen=True):
    """The state of a node, as Slurm reports it."""

    state: str
    """The node's state as Slurm prints it: `IDLE`, `MIXED+DRAIN`, `DOWN*`."""
    reason: str = ""
    """Why the node was taken out of service, by whom and when."""


def read_nodes(text: str) -> dict[str, SlurmNode]:
    """Return name -> state of the nodes in the output of `scontrol show node -o`."""
    found: dict[str, SlurmNode] = {}
    for line in plain_text(text).splitlines():
        stated, _, reason = line.partition(" Reason=")
        pairs = dict(reversed(_PAIR.findall(stated)))  # the text before it is not free text
        if line.startswith("NodeName="):
            found.setdefault(pairs["NodeName"], SlurmNode(pairs.get("State", ""), reason.strip()))
    return found


QUEUE_FIELDS = ("%i", "%T", "%u", "%D", "%M", "%L", "%b", "%R", "%j")
"""Fields of `squeue -o`; the name, which its user writes, is the last one."""


class QueuedJob(Struct, frozen=True):
    """One job in the queue, with the texts that squeue prints."""

    id: str
    state: str
    user: str
    node_count: str
    elapsed: str
    left: str
    gpus: str
    """GPUs per node, as requested: `gres:gpu:h100:4`."""
    where: str
    """The job's nodes; for a waiting job the reason."""
    name: str


def read_queue(text: str, separator: str) -> list[QueuedJob]:
    """Return the jobs in the output of `squeue -h -o` with the fields `QUEUE_FIELDS`.

    `separator`: the text between the fields; no user knows it, so no line of a job's name has as many fields.
    """
    last = len(QUEUE_FIELDS) - 1
    rows = [line.split(separator, last) for line in plain_text(text).splitlines()]
    return [QueuedJob(*row) for row in rows if len(row) > last]


ACCOUNT_FIELDS = ("JobIDRaw", "User", "State", "ExitCode", "NodeList", "End", "WorkDir", "JobName")
"""The name, which its user chooses, comes last: it may hold line ends."""


def read_account(text: str, asked: str, separator: str) -> SlurmJob | None:
    """Return the job in the output of `sacct -X -P -n -o ACCOUNT_FIELDS`, or None if it has no row.

    If the job was requeued, its last attempt. A job's name and folder can contain line ends, but not the
    `separator` between the fields, which no user knows. Only rows with the id `asked` count; if none has it,
    as for a task of an array, whose raw id differs, the first row.
    """
    lines = plain_text(text).splitlines()
    split = [line.split(separator, len(ACCOUNT_FIELDS) - 1) for line in lines]
    rows = [row for row in split if len(row) == len(ACCOUNT_FIELDS)]
    if not rows:
        return None
    rows = [row for row in rows if row[0] == asked] or rows[:1]
    row = dict(zip(ACCOUNT_FIELDS, rows[-1], strict=True))
    return SlurmJob(
        id=row["JobIDRaw"],
        name=row["JobName"],
        user=row["User"],
        state=row["State"].split(" ")[0],
        exit_code=row["ExitCode"],
        nodes=nodes_of(row["NodeList"]),
        folder=row["WorkDir"],
        ends=moment(row["End"]),
        restarts=len(rows) - 1,
    )


def submitted_output(line: str) -> str:
    """Return the output file that a submit line such as `sbatch -o out-%j.log job.sh` names, or ""."""
    try:
        words = shlex.split(line)
    except ValueError:
        return ""
    for at, word in enumerate(words):
        if word.startswith("--output="):
            return word.removeprefix("--output=")
        if word in ("-o", "--output") and at + 1 < len(words):
            return words[at + 1]
        if word.startswith("-o") and word[1] != "-":
            return word[2:]
    return ""
