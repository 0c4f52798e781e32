"""Counts what the lines of a job show about ranks and their processes. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from gpuwatch.agent.logs.lines.levels import GRAVE, own_level
from gpuwatch.agent.logs.lines.line_ranks import LineRanks
from gpuwatch.agent.logs.lines.normalise import known_messages
from gpuwatch.agent.logs.lines.prefixes import Speaker
from gpuwatch.agent.logs.lines.rank_words import OTHER_COUNTS, named_in
from gpuwatch.agent.logs.matching.record_rank import read_message
from gpuwatch.agent.ranks.rank_environment import is_rank
from gpuwatch.fleet.jobs.slurm_tasks import task_numbers
from gpuwatch.runs.model.clues import Clue
from gpuwatch.runs.model.deepspeed_clues import clues_of_deepspeed
from gpuwatch.runs.placement.joins.stated_hosts import places_in, table_of_hosts, visible_gpu
from gpuwatch.runs.placement.learned_tags.numbering import WORLD, launched_node
from gpuwatch.runs.placement.rank_facts import Census, RepeatedLines, extent, form_of
from gpuwatch.runs.placement.rank_line_patterns import (
    ADDRESS,
    ASSIGNED,
    BANNER_KEYS,
    BUS,
    GLOBAL_RANKS,
    HOST,
    HOST_AFTER_PID,
    HOST_AFTER_RANK,
    HOST_OF_WRITER,
    HOST_PID,
    LAUNCHER,
    LAUNCHER_WORDS,
    LETTER,
    LOG_HOST,
    LOSS,
    NCCL_CHANNEL,
    NODE_RANK,
    NODE_VARIABLE,
    OF_ANOTHER_HOST,
    ONE_PER_HOST,
    ONE_PROCESS,
    OWN,
    OWN_HOST,
    OWN_LINE,
    PER_NODE,
    PID,
    PID_OF_RANK,
    PROCESS_OF,
    RANK_OF_HOST,
    SPAWNED,
    SRUN_TASKS,
    STATED,
    STEP,
    TASKS_ON_HOST,
    VARIABLE,
    WORKER_TABLE,
    WORLD_RANK,
)

MAX_LOSS = 600
"""Characters of a line that are searched for a lost peer."""
OPENING_LINES = 12
"""Number of first lines of a file in which a process states its rank."""
UNIT = re.compile(r"\b[A-Za-z][\w.-]{0,60}@(\d{1,5})\.service\b")


def census(samples: Iterable[tuple[str, Sequence[bytes]]]) -> Census:
    """Return the census of the (name, sample lines) of all files."""
    found = Census()
    for file, lines in samples:
        last: dict[str, int] = {}
        repeated = RepeatedLines()
        size = -1
        for number, raw in enumerate(lines):
            form = form_of(raw)
            if number >= OPENING_LINES and repeated.holds(raw, form):
                continue
            is_known = repeated.knows(form)
            before = extent(found) if is_known and size < 0 else size
            stated = [(text, by, read_message(text, by, raw)) for text, by in known_messages(raw)[0]]
            for text, by, reading in stated:
                _count(found, file, text, by, reading)
                if reading.word is not None and reading.index is not None:
                    found.falls[reading.word] += reading.index < last.get(reading.word, 0)
                    last[reading.word] = reading.index
                if number < OPENING_LINES:
                    own = set() if by.rank is None else {by.rank}
                    found.openings[file] |= set(_mentioned(text)) | own
            size = extent(found) if is_known else -1
            changed = is_known and size != before
            repeated.note(raw, form, [each[1:] for each in stated], changed=changed)
        _count_node(found, file, lines)
    return found


def _mentioned(text: str) -> Iterator[int]:
    """Yield the ranks of the job that a line mentions, whichever rank wrote it."""
    for named in named_in(text[:2000]):
        other = OTHER_COUNTS.search(text[max(0, named.start() - 40) : named.start()])
        if named["rank"] is not None and other is None and is_rank(int(named["n"])):
            yield int(named["n"])


def _count_node(found: Census, file: str, lines: Sequence[bytes]) -> None:
    """Record which ranks a node's launcher starts, by local rank."""
    found.pods.update(table_of_hosts(file, lines))
    given: set[tuple[int, ...]] = set()
    options: set[tuple[int, int]] = set()
    found.clues.update(clues_of_deepspeed(file, lines))
    for raw in lines:
        if b"global_ranks=[" in raw:
            given |= {
                tuple(map(int, each.split(",")))
                for each in GLOBAL_RANKS.findall(raw.decode("utf-8", "replace"))
            }
        elif b"--n" in raw or b"--machine" in raw:
            text = raw.decode("utf-8", "replace")
            node, count = NODE_RANK.search(text), PER_NODE.search(text)
            if node is not None and count is not None:
                options.add((int(node[1]), int(count[1])))
    if not given and len(options) == 1:
        node_rank, per_node = options.pop()
        given = {tuple(range(node_rank * per_node, (node_rank + 1) * per_node))}
    if len(given) == 1:
        for local, rank in enumerate(given.pop()):
            found.clues.add(Clue(file, OWN_LINE, rank=rank, local_rank=local))


def _count(found: Census, file: str, text: str, by: Speaker, reading: LineRanks) -> None:
    lower = text.lower()
    for world in WORLD.findall(text) if "rank" in lower or "size" in lower or "proc" in lower else ():
        if is_rank(int(world)) and int(world) > 0:
            found.worlds.add(int(world))
    if any(word in text for word in LAUNCHER_WORDS) and LAUNCHER.search(text) is not None:
        found.launched = True
        found.launchers.add(file)
    if ("peer" in text or "remote " in text or "lost " in text) and LOSS.search(text[:MAX_LOSS]) is not None:
        found.losses[file, by.host or ""] += 1
    found.single = found.single or ONE_PROCESS.search(text) is not None
    if reading.world is not None:
        found.tag_worlds[reading.word or ""].add(reading.world)
    _count_tasks(found, file, text)
    channel = NCCL_CHANNEL.search(text) if "NCCL INFO Channel" in text else None
    if channel is not None and by.host is not None and by.pid is not None:
        end = "receiver" if channel["receives"] else "sender"
        number, device = int(channel[end]), channel[f"{end}_device"]
        local = int(device) if len(device) < len("100") and device.isdecimal() else None
        found.clues.add(Clue(file, OWN_LINE, by.host, number, local_rank=local, pid=by.pid))
    found.pods.update(places_in(file, text))
    if "jax" in lower or "coordination_service" in text:
        found.one_per_host = found.one_per_host or ONE_PER_HOST.search(text) is not None
    if "world_rank=" in text:
        found.ray_train = found.ray_train or WORLD_RANK.search(text) is not None
    _count_processes(found, file, text)
    if found.ray_train and _is_table_row(found, file, text):
        return
    _count_speaker(found, file, text, by, reading)


def _count_processes(found: Census, file: str, text: str) -> None:
    """Record which process, out of how many, writes to a file, and its host: `process 3/16 on gpu-004`."""
    process = PROCESS_OF.search(text) if "rocess" in text else None
    if process is None or int(process["n"]) >= int(process["world"]):
        return
    found.processes[file].add(int(process["n"]))
    if process["host"] is not None:
        found.hosts["rank", int(process["n"])].add(process["host"])


def _is_table_row(found: Census, file: str, text: str) -> bool:
    """Record where a Ray Train worker runs, if the line is a row of its table; return True then."""
    row = WORKER_TABLE.search(text)
    if row is None:
        return False
    found.hosts["rank", int(row["rank"])].add(row["host"])
    found.clues.add(Clue(file, OWN_LINE, row["host"], int(row["rank"]), pid=int(row["pid"])))
    return True


def _count_speaker(found: Census, file: str, text: str, by: Speaker, reading: LineRanks) -> None:
    """Record the facts of a line about the process that writes it."""
    rank = by.rank if by.rank is not None else reading.rank
    if reading.index is not None and reading.word is not None:
        found.numbers[reading.word].add(reading.index)
        found.indexes[file, reading.word].add(reading.index)
        found.numbered[reading.word].update(_identities(file, text, reading.index, by))
        if rank is not None and rank != reading.index:
            found.disproved.add(reading.word)
        if reading.word == "letter" and reading.index in _mentioned(text):
            found.confirmed[reading.word].add(reading.index)
        if by.host is not None:
            found.hosts[reading.word, reading.index].add(by.host)
    if by.host is not None:
        found.writers.add(by.host)
    if by.task is not None and (rank not in (None, by.task) or launched_node(text) == by.task):
        found.disproved.add("task")
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


def _count_process(found: Census, file: str, text: str, by: Speaker) -> None:
    """Record the process of a line that mentions one rank, or one number that may count ranks."""
    ranks = set(_mentioned(text))
    indexes = {int(named["letter_n"]) for named in LETTER.finditer(text)}
    if len(ranks) == 1:
        found.clues.update(_identities(file, text, ranks.pop(), by))
    elif not ranks and len(indexes) == 1:
        index = indexes.pop()
        found.numbers["letter"].add(index)
        found.numbered["letter"].update(_identities(file, text, index, by))


def _count_tasks(found: Census, file: str, text: str) -> None:
    """Record the tasks that `srun` names, with their nodes."""
    reported = (SRUN_TASKS.search(text) or TASKS_ON_HOST.search(text)) if "task" in text else None
    if reported is None:
        return
    found.launchers.add(file)
    host = reported["host"]
    for task in task_numbers(reported["tasks"]):
        found.numbers["task"].add(task)
        found.tasks[task] = (host, file)


def _identities(file: str, text: str, rank: int, by: Speaker) -> Iterator[Clue]:
    """Yield a clue each for the local rank, pid, PCI address and visible GPU in a line about a rank."""
    pids, buses, hosts = set(PID.findall(text)), set(BUS.findall(text)), set(HOST.findall(text))
    pids = pids or ({str(by.pid)} if by.pid is not None else set())
    host = hosts.pop() if by.host is None and len(hosts) == 1 else by.host
    if host is None and not hosts and pids:
        after = HOST_AFTER_PID.search(text)
        host = _host_after_rank(text, rank) if after is None else after["host"]
    if by.local_rank is not None:
        yield Clue(file, OWN_LINE, host, rank, local_rank=by.local_rank)
    if len(pids) == 1:
        yield Clue(file, OWN_LINE, host, rank, pid=int(pids.pop()))
    if len(buses) == 1:
        yield Clue(file, OWN_LINE, host, rank, bus_id=buses.pop())
    gpu = visible_gpu(text, by)
    if gpu is not None:
        yield Clue(file, OWN_LINE, host, rank, gpu=gpu)


def _find_host(found: Census, text: str, rank: int) -> None:
    """Record the host that follows the rank in a line, or the only one of a line that is about the rank."""
    host = _host_after_rank(text, rank)
    hosts = set(HOST.findall(text)) if host is None and "host" in text.lower() else set()
    about = set(_mentioned(text)) or ({rank} if BANNER_KEYS.search(text) is not None else set())
    if len(hosts) == 1 and about == {rank} and OF_ANOTHER_HOST.search(text) is None:
        host = hosts.pop()
    if host is not None:
        found.hosts["rank", rank].add(host)


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
    if stated is not None:
        found.own_hosts[file].add(stated[1])
        if rank is not None:
            found.hosts["rank", rank].add(stated[1])


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
