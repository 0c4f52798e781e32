"""Determines from a census of log lines which numbers are ranks, and where each rank ran. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping

from gpuwatch.agent.logs.lines.line_ranks import line_ranks
from gpuwatch.agent.logs.lines.rank_words import WORLD_NEEDED
from gpuwatch.runs.model.clues import HEAD, OWN_LINE, POD, Clue
from gpuwatch.runs.placement.joins.pod_ranks import ranks_of_pods
from gpuwatch.runs.placement.rank_facts import Census

OUT_OF_ALL = frozenset(("letter", "worker", "task", "process", "replica", "trainer", "pe"))
"""Words whose number and number of all (`R12/16`) state a rank and the world."""
MIN_CONFIRMED = 2
"""Lines on which the number after a word is the line's rank, for all such numbers to be ranks."""
INTERLEAVED_FALLS = 2
"""Number of falls between consecutive lines by which a number identifies writers; steps and epochs rise."""


def ranks_counted_by(found: Census) -> frozenset[str]:
    """Return the words (`worker`, `task`) whose numbers are this job's ranks."""
    return frozenset(word for word, numbers in found.numbers.items() if _counts_ranks(found, word, numbers))


def worlds_of_tags(found: Census) -> list[set[int]]:
    """Return the numbers of ranks that tags state, a set for each word before the number.

    A number without a word (`[3/9000]`) may be a step; it counts only if it identifies writers.
    """
    return [
        worlds
        for word, worlds in found.tag_worlds.items()
        if word not in ("bare", "inner") or found.falls[word] >= INTERLEAVED_FALLS
    ]


def _counts_ranks(found: Census, word: str, numbers: set[int]) -> bool:
    if word not in found.disproved and (
        (word == "worker" and found.ray_train)
        or len(found.confirmed[word]) >= MIN_CONFIRMED
        or _are_on_hosts_of_ranks(found, word)
    ):
        return True
    if word in found.disproved or found.is_local(word) or len(numbers) < 2 or min(numbers) != 0:
        return False
    most, world = max(numbers) + 1, found.world
    if word in OUT_OF_ALL and len(found.tag_worlds[word]) == 1 and len(numbers) > 2:
        return most <= next(iter(found.tag_worlds[word]))  # `R12/16`: some ranks log nothing
    if len(numbers) * 2 < most:
        return False  # too scattered for ranks
    interleaved = found.falls[word] >= INTERLEAVED_FALLS
    if word in WORLD_NEEDED:
        return len(numbers) == most and (most == world or (word == "inner" and interleaved and world is None))
    if word == "bare" and not interleaved and not found.numbered[word]:
        return most == world  # the number may also count steps
    return world is None or most == world or (most < world < 2 * most and len(numbers) < most)


def _are_on_hosts_of_ranks(found: Census, word: str) -> bool:
    """Return True if the numbers after a word are on the hosts that other lines state for these ranks."""
    both = {
        number: (hosts, found.hosts["rank", number])
        for (each, number), hosts in list(found.hosts.items())
        if each == word and ("rank", number) in found.hosts
    }
    alike = all(stated == hosts and len(hosts) == 1 for stated, hosts in both.values())
    return alike and len(set().union(*(hosts for hosts, _ in both.values()))) >= MIN_CONFIRMED


def clues_of_tasks(found: Census, words: frozenset[str]) -> list[Clue]:
    """Return where each rank ran, from `srun`'s tasks and nodes, if tasks are ranks; else an empty list.

    They are if `words` has `task`. They also are if there is no launcher, no line contradicts it, and each
    task number occurs as a rank; if no rank occurs at all, only if no task is 0.
    """
    ranks = set().union(*found.ranks.values())
    alone = not ranks and 0 not in found.tasks  # task 0 may be the launcher of all ranks of a node
    alike = not found.launched and "task" not in found.disproved and (set(found.tasks) <= ranks or alone)
    if "task" not in words and not alike:
        return []
    return [Clue(file, OWN_LINE, node, task) for task, (node, file) in sorted(found.tasks.items())]


def clues_of_launchers(found: Census) -> list[Clue]:
    """Return the node of ranks that write in lines of a task, if each task starts several ranks of a node."""
    if "task" not in found.disproved:
        return []
    tasks = [task for task in found.tasks if task in found.task_ranks]
    once = Counter(rank for ranks in found.task_ranks.values() for rank in ranks)
    return [
        Clue(found.tasks[task][1], OWN_LINE, found.tasks[task][0], rank)
        for task in sorted(tasks)
        for rank in sorted(found.task_ranks[task])
        if once[rank] == 1
    ]


def clues_of_openings(found: Census) -> list[Clue]:
    """Return the host of files whose first lines are about several ranks of one host, and no other ranks."""
    clues: list[Clue] = []
    for file, ranks in sorted(found.openings.items()):
        hosts = [found.hosts.get(("rank", rank), set()) for rank in ranks]
        every = set().union(*hosts)
        if len(ranks) > 1 and all(hosts) and len(every) == 1 and found.ranks.get(file, set()) <= ranks:
            clues.append(Clue(file, HEAD, next(iter(every))))
    return clues


def refute_numbers_of_hosts(found: Census) -> None:
    """Record that numbers in names of hosts (`worker-2`) are no ranks, where a host has several ranks."""
    ranks: dict[str, set[int]] = defaultdict(set)
    for clue in found.clues:
        if clue.host is not None and clue.rank is not None:
            ranks[clue.host].add(clue.rank)
    for host, there in ranks.items():
        word = line_ranks(f"[{host}] ").word if len(there) > 1 else None
        if word is not None:
            found.disproved.add(word)


def several_on_a_node(found: Census) -> bool:
    """Return True if `srun` ran several of the job's tasks on one node: none is a node's launcher."""
    nodes = [node for node, _ in found.tasks.values()]
    return len(set(nodes)) < len(nodes)


def clues_of_hosts(found: Census, words: frozenset[str]) -> list[Clue]:
    """Return clues to where each rank ran, from the ranks and hosts at the heads of lines.

    A rank with several hosts is left out. Empty if ranks restart on each host.
    """
    if found.is_local("rank"):
        return []
    return [
        Clue("", OWN_LINE, next(iter(hosts)), number)
        for (word, number), hosts in sorted(found.hosts.items())
        if len(hosts) == 1 and (word == "rank" or word in words)
    ]


def clues_of_pods(found: Census) -> list[Clue]:
    """Return clues to the rank of each pod, by its ordinal; none if a line shows where a rank runs."""
    if any(word == "rank" for word, _ in found.hosts):
        return []
    one_per_host = found.one_per_host or found.one_process_each(found.writers, hosts=True)
    ranks = ranks_of_pods(found.writers, found.world, one_per_host=one_per_host)
    if not ranks and found.world is not None:
        listed = {name for each in found.pods if (name := pod_of(each)) is not None}
        ranks = ranks_of_pods(listed, found.world, one_per_host=False)
    return [Clue("", OWN_LINE, host, rank) for host, rank in sorted(ranks.items())]


def pod_of(clue: Clue) -> str | None:
    """Return the pod whose node a clue states; None: it states none."""
    is_pod = clue.address is not None and clue.address.startswith(POD)
    return clue.address.removeprefix(POD) if is_pod and clue.address is not None else None


def clues_of_own_hosts(found: Census) -> list[Clue]:
    """Return the host that each file names as its own, if it names one.

    If at least two files name one and all are different, they count as the job's own line, else as the log's
    head, which is less reliable. The header of a single-process log always counts as the job's own line.
    """
    sure = {file: next(iter(hosts)) for file, hosts in found.log_hosts.items() if len(hosts) == 1}
    stated = {file: next(iter(hosts)) for file, hosts in found.own_hosts.items() if len(hosts) == 1}
    if len(stated) < 2 or len(set(stated.values())) < len(stated):
        heads = [Clue(file, HEAD, host) for file, host in sorted(stated.items()) if file not in sure]
        return heads + [Clue(file, OWN_LINE, host) for file, host in sorted(sure.items())]
    return [Clue(file, OWN_LINE, host) for file, host in sorted((stated | sure).items())]


def clues_of_processes(found: Census, words: frozenset[str]) -> list[Clue]:
    """Return the clues to the process and the GPU of each rank, without those claimed by two ranks."""
    claims: Mapping[tuple[object, ...], set[int | None]] = defaultdict(set)
    clues = found.clues.union(*(found.numbered[word] for word in words))
    if {clue.gpu for clue in clues} <= {None, 0}:  # each container numbers its own GPUs
        clues = {clue for clue in clues if clue.gpu is None}
    for clue in clues:
        claims[claim(clue)].add(clue.rank)
    known = sorted(clues, key=lambda clue: (clue.file, clue.rank or 0, clue.pid or 0, clue.bus_id or ""))
    return [clue for clue in known if len(claims[claim(clue)]) == 1]


def claim(clue: Clue) -> tuple[object, ...]:
    """Return the key of the process or GPU that a clue assigns to a rank, on its host or its file's node."""
    at = clue.file if clue.local_rank is not None or clue.host is None else ""
    return (clue.host, clue.pid, clue.bus_id, clue.local_rank, clue.gpu, at)
