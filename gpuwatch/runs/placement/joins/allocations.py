"""Reads which hosts a batch system or launcher gave to a job, in order, and places its ranks on them. Pure.

Slurm, PBS, LSF, Grid Engine and mpirun number the processes of a job by the order of its hosts: of sixteen
ranks on two hosts, 0 to 7 run on the first one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import accumulate, pairwise

from msgspec import Struct
from msgspec.structs import replace

from gpuwatch.hosts.names import RangeError, expand

MAX_HOSTS = 4_096
MAX_LINES = 4_000
_NAME = r"[A-Za-z][\w.-]{0,120}"
_SLURM = re.compile(
    r"(?:^|[\s\"'])(?:SLURM_(?:JOB_|STEP_)?NODELIST|NodeList)['\"]?[=:] ?['\"]?"
    r"(?P<hosts>[A-Za-z](?=[\w.,\[\]-]{0,2000}[\[,])[\w.,\[\]-]{0,2000})(?=['\"\s]|$)"
)
"""Matches the nodes of a Slurm job, folded."""
_SQUEUE = re.compile(
    r"^\s{0,20}\d{1,12}(?:[._]\w{1,20})?\s.{0,300}?\s\d{1,5}\s{1,20}(?P<hosts>[A-Za-z][\w.-]{0,120}\[[\d,-]{1,400}\])\s*$"
)
"""Matches a row of squeue: job, number of nodes, nodes."""
_PBS = re.compile(r"\bexec_host = (?P<hosts>[A-Za-z][^\s=]{1,8000})")
_PBS_HOST = re.compile(
    rf"(?P<host>{_NAME})/(?P<first>\d{{1,4}})(?:\*(?P<slots>\d{{1,4}})|-(?P<last>\d{{1,4}}))?"
)
"""Matches one host of PBS: `gn01/0*8`, `node5/0-7`, `node5/3`."""
_LSF = re.compile(
    rf"\b(?:[Ss]tarted|[Dd]ispatched)\b.{{0,80}}?\bon (?:\d{{1,5}} )?(?:Host|Task)[^<>]{{0,60}}"
    rf"(?P<hosts><(?:\d{{1,5}}\*)?{_NAME}>[^;,]{{0,8000}})"
    rf"|\bLSB_MCPU_HOSTS=['\"]?(?P<pairs>{_NAME} \d{{1,5}}(?: {_NAME} \d{{1,5}}){{0,4095}})"
    rf"|^\d{{1,12}}\s{{1,20}}\S{{1,64}}\s{{1,20}}(?:RUN|EXIT|DONE|[SU]SUSP)\s.{{0,200}}?\s(?P<row>\d{{1,4}}\*[A-Za-z][\w.:*-]{{1,4000}})"
)
"""Matches the hosts of an LSF job: `bjobs -l` and `bhist -l`, a variable, a row of `bjobs`."""
_LSF_HOST = re.compile(rf"(?:(?P<slots>\d{{1,5}})\*)?(?P<host>{_NAME})")
_PAIR = re.compile(rf"(?P<host>{_NAME}) (?P<slots>\d{{1,5}})")
_SLOTS_ROW = re.compile(
    rf"^(?P<host>{_NAME}) (?:slots ?= ?)?(?P<slots>\d{{1,4}})"
    rf"(?: [\w.-]{{1,64}}@[A-Za-z][\w.-]{{0,120}}(?: \S{{1,64}})?)?\s*$"
)
"""Matches a row of a hostfile (`gpu01 slots=8`), or of Grid Engine's PE_HOSTFILE."""
_MPIRUN = re.compile(
    rf"\b(?:mpirun|mpiexec(?:\.hydra)?|horovodrun|prterun)\b.{{0,2000}}?\s(?:-H|--?hosts?)[ =]"
    rf"(?P<hosts>{_NAME}:\d{{1,4}}(?:,{_NAME}:\d{{1,4}}){{1,4095}})(?=\s|$)"
)
_OTHER_ORDER = re.compile(
    rb"rdzv[_-]backend[= ]'?c10d|rdzv_backend\W{1,4}c10d"
    rb"|distribution\W{1,4}(?:cyclic|plane|arbitrary)|\s-m[= ](?:cyclic|plane|arbitrary)\b"
    rb"|--(?:map|rank)-by[= ]node\b|\s--?(?:by-?node|rankfile|rf|rr)\b",
    re.IGNORECASE,
)
"""A rendezvous that numbers the nodes in any order, or ranks that take turns on the hosts."""


class HostOrder(Struct, frozen=True):
    """The hosts of a job, in order."""

    hosts: tuple[str, ...]
    slots: tuple[int, ...] = ()
    """Processes or CPUs on each; empty: not stated."""
    of_processes: bool = False
    """True if the slots are those of processes."""

    def ranks(self, world: int | None) -> Mapping[int, str]:
        """Return rank -> host for a job of `world` ranks (None: as many as processes), or nothing."""
        world = sum(self.slots) if world is None and self.of_processes else world or 0
        counts = self.slots
        if sum(counts) != world:
            each, rest = divmod(world, len(self.hosts))
            counts = (each,) * len(self.hosts) if not rest and (not counts or min(counts) >= each) else ()
        ends = accumulate(counts, initial=0)
        return {
            rank: host
            for host, (first, end) in zip(self.hosts, pairwise(ends), strict=False)
            for rank in range(first, end)
        }


def allocations(samples: Iterable[tuple[str, Sequence[bytes]]]) -> set[HostOrder]:
    """Return the allocations of several hosts that lines of all files state.

    Empty if a line shows that the ranks do not fill the hosts in this order.
    """
    found: set[HostOrder] = set()
    for _, lines in samples:
        rows: list[tuple[str, int]] = []
        for raw in lines[:MAX_LINES]:
            if _OTHER_ORDER.search(raw[:2000]) is not None:
                return set()
            text = raw[:9000].decode("utf-8", "replace")
            found.update(each for each in _in_line(text) if 1 < len(each.hosts) <= MAX_HOSTS)
            row = _SLOTS_ROW.match(text) if len(raw) < 300 else None
            if row is not None and ("=" in row[0] or "@" in row[0]):
                rows.append((row["host"], int(row["slots"])))
        if len({host for host, _ in rows}) == len(rows) > 1:
            found.add(_of_pairs(rows))
    return found


def ranks_in_order(
    found: AbstractSet[HostOrder], world: int | None, hosts: Mapping[tuple[str, int], AbstractSet[str]]
) -> Mapping[int, str]:
    """Return rank -> host by the only allocation, unless a line states another host for a rank.

    Args:
        found: The allocations.
        world: The number of ranks; None: unknown.
        hosts: (word, number) -> hosts that lines state for the process.
    """
    places = [each for each in (one.ranks(world) for one in found) if each]
    if not places or any(each != places[0] for each in places):
        return {}
    only = places[0]
    short = {rank: host.partition(".")[0] for rank, host in only.items()}
    for (word, number), stated in hosts.items():
        if (
            word == "rank"
            and number in short
            and {each.partition(".")[0] for each in stated} != {short[number]}
        ):
            return {}
    return only


def _in_line(text: str) -> Iterator[HostOrder]:
    """Yield the hosts of each job that a line of Slurm, PBS, LSF or mpirun states, in its order.

    A pattern is tried if the line has a text that each match contains.
    """
    folded = _SLURM.search(text) if "NODELIST" in text or "NodeList" in text else None
    folded = folded or (_SQUEUE.match(text) if "[" in text else None)
    if folded is not None:
        try:
            yield HostOrder(tuple(expand(folded["hosts"], MAX_HOSTS)))
        except RangeError:
            return
    pbs = _PBS.search(text) if "exec_host" in text else None
    if pbs is not None:
        yield _of_pairs((each["host"], _pbs_slots(each)) for each in _PBS_HOST.finditer(pbs["hosts"]))
    has_lsf = "tarted" in text or "ispatched" in text or "LSB_MCPU" in text or "*" in text
    lsf = _LSF.search(text) if has_lsf else None
    if lsf is not None:
        form = _PAIR if lsf["pairs"] is not None else _LSF_HOST
        part = lsf["pairs"] or lsf["row"] or "".join(re.findall(r"<[^<>]{1,140}>", lsf["hosts"]))
        yield _of_pairs((each["host"], int(each["slots"] or 1)) for each in form.finditer(part))
    has_mpirun = "mpi" in text or "horovodrun" in text or "prterun" in text
    mpirun = _MPIRUN.search(text) if has_mpirun else None
    if mpirun is not None:
        pairs = (each.rpartition(":") for each in mpirun["hosts"].split(","))
        yield replace(_of_pairs((host, int(slots)) for host, _, slots in pairs), of_processes=True)


def _pbs_slots(found: re.Match[str]) -> int:
    if found["slots"] is not None:
        return int(found["slots"])
    return 1 if found["last"] is None else int(found["last"]) - int(found["first"]) + 1


def _of_pairs(pairs: Iterable[tuple[str, int]]) -> HostOrder:
    """Return the allocation of hosts with their slots; rows of the same host are summed."""
    slots: dict[str, int] = {}
    for host, count in pairs:
        slots[host] = slots.get(host, 0) + max(0, count)
    return HostOrder(tuple(slots), tuple(slots.values()))
