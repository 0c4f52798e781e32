"""Determines the node of each log file of an ended job, from its path and what lines state. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from pathlib import PurePath

from msgspec import Struct

from gpuwatch.runs.model.clues import HEAD, MAPPING, TABLE, Clue
from gpuwatch.runs.placement.owners import stem, without_weak

ABOVE_NAME = (TABLE, HEAD)
"""Sources of a node that are more reliable than the file's name, if no other line gives the node."""


class FileOwner(Struct, frozen=True):
    """The facts that a log file's path shows: rank, possible hosts, folder of its launcher's ranks."""

    file: str
    rank: int | None = None
    local_rank: int | None = None
    hosts: tuple[str, ...] = ()
    """Candidates for its node."""
    group: str = ""
    """The folder with all ranks of one launcher on one node; empty: there is none."""


def nodes_of_files(
    owners: Sequence[FileOwner], clues: Iterable[Clue], addresses: Mapping[str, str]
) -> dict[str, str]:
    """Return file -> node: the host that a rank's own log names, else the one in its path that lines confirm.

    If no line names a host of the path, the only host in the file's lines is used; if these name none, the
    likely host of the path.
    """
    named: dict[str, Counter[str]] = defaultdict(Counter)
    stated: dict[str, set[str]] = defaultdict(set)
    hosts: set[str] = set()
    for clue in clues:
        if clue.host is not None:
            host = addresses.get(clue.host, clue.host)
            hosts.add(host)
            if clue.how in ABOVE_NAME:
                stated[clue.file].add(host)
            elif clue.how != MAPPING:
                named[clue.file][host] += 1
    nodes: dict[str, str] = {}
    likely = without_weak({owner.file: owner.hosts for owner in owners})
    is_foreign = foreign_hosts(owners)
    for owner in owners:
        candidates = [addresses.get(host, host) for host in owner.hosts]
        sure = [host for host in candidates if host in hosts] or folders_named(owner.file, hosts)
        inside = [host for host in named.get(owner.file, ()) if not is_foreign(owner.file, host)]
        if sure and not (owner.rank is not None and len(inside) == 1):
            nodes[owner.file] = sure[0]
        elif len(inside) == 1:
            nodes[owner.file] = inside[0]
        elif not inside and len(stated[owner.file]) == 1 and (owner.rank is None or likely[owner.file]):
            nodes[owner.file] = next(iter(stated[owner.file]))
        elif likely[owner.file] and not inside:
            nodes[owner.file] = addresses.get(likely[owner.file][0], likely[owner.file][0])
    return {**nodes, **_nodes_of_folders(owners, nodes, hosts)}


def _nodes_of_folders(
    owners: Sequence[FileOwner], nodes: Mapping[str, str], hosts: AbstractSet[str]
) -> dict[str, str]:
    """Return file -> node for files whose node is only the name of a folder, if another file there states it.

    Example: the lines of `node3/journal.json` name dgx-14; `node3/launcher.log` names no host.
    """
    told: dict[str, set[str]] = defaultdict(set)
    for owner in owners:
        node = nodes.get(owner.file)
        if node is not None and node in hosts:
            told[PurePath(owner.file).parent.name].add(node)
    found = {}
    for owner in owners:
        folder = PurePath(owner.file).parent.name
        if nodes.get(owner.file) == folder and folder not in hosts and len(told[folder]) == 1:
            found[owner.file] = next(iter(told[folder]))
    return found


def foreign_hosts(owners: Sequence[FileOwner]) -> Callable[[str, str], bool]:
    """Return a function that returns True if a host (file, host) is in the paths of other files only.

    It returns False for a file that is not of a rank or whose path names no host. A line that contains such a
    host belongs to that node, wherever it is.
    """
    likely = without_weak({owner.file: owner.hosts for owner in owners})
    every = {hosts[0] for hosts in likely.values() if hosts}
    own = {owner.file: owner.hosts for owner in owners if likely[owner.file] and owner.rank is not None}
    return lambda file, host: file in own and host in every and host not in own[file]


def files_of_nodes(clues: Iterable[Clue]) -> set[str]:
    """Return the files that state one pid or PCI address, each for another rank: every one is of one node."""
    claims: dict[tuple[int | None, str | None], dict[str, set[int]]] = defaultdict(lambda: defaultdict(set))
    for clue in clues:
        if clue.rank is not None and clue.host is None and (clue.pid or clue.bus_id):
            claims[clue.pid, clue.bus_id][clue.file].add(clue.rank)
    return {
        file
        for files in claims.values()
        if len(files) > 1 and len(set().union(*files.values())) == sum(map(len, files.values())) == len(files)
        for file in files
    }


def folders_named(file: str, hosts: AbstractSet[str]) -> list[str]:
    """Return the hosts named by lines that also occur in the file's path, nearest first."""
    path = PurePath(file)
    return [part for part in (stem(file), *reversed(path.parts)) if part in hosts]
