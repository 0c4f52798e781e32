"""Counts what a line shows about the process that writes it. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from gpuwatch.agent.logs.lines.levels import GRAVE, own_level
from gpuwatch.agent.logs.lines.line_ranks import LineRanks
from gpuwatch.agent.logs.lines.prefixes import Speaker
from gpuwatch.agent.logs.lines.rank_words import OTHER_COUNTS, named_in
from gpuwatch.agent.patterns.quick_checks import has_one
from gpuwatch.agent.ranks.rank_environment import is_rank
from gpuwatch.runs.model.clues import OWN_LINE, Clue
from gpuwatch.runs.placement.joins.stated_hosts import own_device, visible_gpu
from gpuwatch.runs.placement.learned_tags.numbered_lines import launched_node
from gpuwatch.runs.placement.rank_facts import Census
from gpuwatch.runs.placement.rank_line_patterns import (
    ADDRESS,
    ASSIGNED,
    BANNER_KEYS,
    HOST,
    HOST_AFTER_PID,
    HOST_AFTER_RANK,
    HOST_OF_WRITER,
    HOST_PID,
    HOST_WORDS,
    LETTER,
    LOG_HOST,
    NODE_VARIABLE,
    OF_ANOTHER_HOST,
    ON_HOST,
    OWN,
    OWN_ADDRESS,
    OWN_HOST,
    PID,
    PID_OF_RANK,
    RANK_OF_HOST,
    SPAWNED,
    STARTS,
    STATED,
    STEP,
    VARIABLE,
)

MAX_ADDRESS = 600
"""Characters of a line in which a process states its own address."""


def count_writer(found: Census, file: str, text: str, by: Speaker, reading: LineRanks) -> None:
    """Record the facts of a line about the process that writes it."""
    rank = by.rank if by.rank is not None else reading.rank
    if reading.index is not None and reading.word is not None:
        found.numbers[reading.word].add(reading.index)
        found.indexes[file, reading.word].add(reading.index)
        found.numbered[reading.word].update(_identities(file, text, reading.index, by))
        if rank is not None:
            _compare(found, reading.word, reading.index, rank)
        if reading.word == "letter" and reading.index in mentioned_ranks(text):
            found.confirmed[reading.word].add(reading.index)
        if by.host is not None:
            found.hosts[reading.word, reading.index].add(by.host)
    if by.host is not None:
        found.writers.add(by.host)
    if by.task is not None:
        _count_task(found, text, by.task, rank, of_writer=not reading.phrase)
    if rank is None and reading.empty and STEP.search(text) is not None:
        found.anonymous.add(file)
    if rank is not None:
        if by.host is not None:
            found.hosts["rank", rank].add(by.host)
        if not reading.phrase or by.rank is not None:
            found.ranks[file].add(rank)
            if own_level(text) not in GRAVE and "Traceback" not in text:
                found.working[file] = found.working[file] or STATED.search(text) is not None
        _find_host(found, text, rank)
        found.clues.update(_identities(file, text, rank, by))
    _find_rank_of_host(found, text, by)
    _find_own_host(found, file, text, rank)
    _find_banner(found, file, text, by)


def _compare(found: Census, word: str, index: int, rank: int) -> None:
    """Record whether the number after a word is the rank that the same line states."""
    if index == rank:
        found.confirmed[word].add(index)
    else:
        found.disproved.add(word)


def _count_task(found: Census, text: str, task: int, rank: int | None, *, of_writer: bool) -> None:
    """Record whether the task at the head of a line is the rank in the line, or a node's launcher."""
    if rank is not None:
        _compare(found, "task", task, rank)
        found.task_ranks[task].update({rank} if of_writer else ())
    if launched_node(text) == task:
        found.disproved.add("task")


def mentioned_ranks(text: str) -> Iterator[int]:
    """Yield the ranks of the job that a line mentions, whichever rank wrote it."""
    for named in named_in(text[:2000]):
        other = OTHER_COUNTS.search(text[max(0, named.start() - 40) : named.start()])
        if named["rank"] is not None and other is None and is_rank(int(named["n"])):
            yield int(named["n"])


def _count_process(found: Census, file: str, text: str, by: Speaker) -> None:
    """Record the process of a line that mentions one rank, or one number that may count ranks."""
    ranks = set(mentioned_ranks(text))
    indexes = {int(named["letter_n"]) for named in LETTER.finditer(text)}
    if len(ranks) == 1:
        found.clues.update(_identities(file, text, ranks.pop(), by))
    elif not ranks and len(indexes) == 1:
        index = indexes.pop()
        found.numbers["letter"].add(index)
        found.numbered["letter"].update(_identities(file, text, index, by))


def _identities(file: str, text: str, rank: int, by: Speaker) -> Iterator[Clue]:
    """Yield a clue each for the local rank, pid, PCI address and visible GPU in a line about a rank."""
    pids, hosts = set(PID.findall(text)), set(HOST.findall(text))
    pids = pids or ({str(by.pid)} if by.pid is not None else set())
    host = hosts.pop() if by.host is None and len(hosts) == 1 else by.host
    if host is None and not hosts and pids:
        after = HOST_AFTER_PID.search(text)
        host = _host_after_rank(text, rank) if after is None else after["host"]
    if by.local_rank is not None:
        yield Clue(file, OWN_LINE, host, rank, local_rank=by.local_rank)
    if len(pids) == 1:
        yield Clue(file, OWN_LINE, host, rank, pid=int(pids.pop()))
    device = own_device(text)
    there = host or host_in_banner(text)
    if device is not None and (device.address is not None or there is not None):
        yield Clue(file, OWN_LINE, there, rank, bus_id=device.address, gpu=device.number)
    gpu = visible_gpu(text, by)
    if gpu is not None:
        yield Clue(file, OWN_LINE, host, rank, gpu=gpu)


def _find_host(found: Census, text: str, rank: int) -> None:
    """Record the host that follows the rank in a line, or the only one of a line that is about the rank."""
    host = _host_after_rank(text, rank)
    lower = text.lower()
    hosts = set(HOST.findall(text)) if host is None and has_one(lower, HOST_WORDS) else set()
    about = set(mentioned_ranks(text)) or ({rank} if BANNER_KEYS.search(text) is not None else set())
    if len(hosts) == 1 and about == {rank} and OF_ANOTHER_HOST.search(text) is None:
        host = hosts.pop()
    if host is None and about <= {rank}:
        host = host_in_banner(text)
    if host is not None:
        found.hosts["rank", rank].add(host)


def host_in_banner(text: str) -> str | None:
    """Return the only host on which a process says that it starts; None: it says none, or is in trouble."""
    named = {each["host"] for each in ON_HOST.finditer(text)} if "n " in text else set()
    if len(named) != 1 or own_level(text) in GRAVE or OF_ANOTHER_HOST.search(text) is not None:
        return None
    is_banner = BANNER_KEYS.search(text) is not None or STARTS.search(text) is not None
    return named.pop() if is_banner else None


def _host_after_rank(text: str, rank: int) -> str | None:
    for named in named_in(text):
        beside = HOST_AFTER_RANK.match(text, named.end())
        if beside is not None and named["rank"] is not None and int(named["n"]) == rank:
            return beside["host"]
    return None


def _find_rank_of_host(found: Census, text: str, by: Speaker) -> None:
    """Record the host in a process's banner, with the rank that it states or that the line's head names."""
    banner = RANK_OF_HOST.search(text) if "ank" in text else None
    if banner is not None and is_rank(int(banner["n"])):
        found.hosts["rank", int(banner["n"])].add(banner["host"])
    fields = HOST_OF_WRITER.search(text) if by.rank is not None and "host" in text else None
    if fields is not None and by.rank is not None:
        found.hosts["rank", by.rank].add(fields["host"])


def _find_own_host(found: Census, file: str, text: str, rank: int | None) -> None:
    """Record the host that a log, or the rank that writes a line, names as its own."""
    machine = LOG_HOST.search(text)
    if machine is not None:
        found.log_hosts[file].add(machine[1])
    stated = OWN_HOST.search(text)
    if stated is None and "." in text and ("ddr" in text or "ip" in text.lower() or "grpc:" in text):
        stated = OWN_ADDRESS.search(text[:MAX_ADDRESS])
    if stated is not None:
        host = next(filter(None, stated.groups()))
        found.own_hosts[file].add(host)
        if rank is not None:
            found.hosts["rank", rank].add(host)


def _find_banner(found: Census, file: str, text: str, by: Speaker) -> None:
    reported = set(VARIABLE.findall(text)) if "=" in text else set()
    if len(reported) == 1:
        rank, host = int(reported.pop()), NODE_VARIABLE.search(text)
        found.variables[file].add(rank)
        if host is not None:
            found.hosts["rank", rank].add(host[1])
    process = SPAWNED.search(text) if "spawned" in text else None
    if process is not None:
        clue = Clue(file, OWN_LINE, by.host, local_rank=int(process[2]), pid=int(process[1]))
        found.spawned.add(clue)
    lower = text.lower()
    if "pid" in lower:
        _count_process(found, file, text, by)
    if "rank" in lower and _find_assigned(found, file, text, by):
        return
    for named in named_in(text):
        if named["rank"] is not None and OWN.search(text[: named.start()][-40:]):
            found.banners[file].add(int(named["n"]))


def _find_assigned(found: Census, file: str, text: str, by: Speaker) -> bool:
    """Record the address or pid with a rank in a launcher's line; return True for Open MPI's report."""
    assigned = ASSIGNED.findall(text)
    addresses = set(ADDRESS.findall(text)) if len(assigned) == 1 else set()
    if len(addresses) == 1:
        found.hosts["rank", int(assigned[0])].add(addresses.pop())
    for pid, rank in PID_OF_RANK.findall(text):
        if is_rank(int(rank)):
            found.clues.add(Clue(file, OWN_LINE, by.host, int(rank), pid=int(pid)))
    bound = HOST_PID.search(text)
    if bound is not None:
        found.clues.add(Clue(file, OWN_LINE, bound[1], int(bound[3]), pid=int(bound[2])))
        found.ranks[file].add(int(bound[3]))
    return bound is not None
