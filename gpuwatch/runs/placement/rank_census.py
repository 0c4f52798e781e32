"""Counts what the lines of a job show about ranks and their processes. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gpuwatch.agent.logs.lines.line_ranks import LineRanks
from gpuwatch.agent.logs.lines.normalise import known_messages
from gpuwatch.agent.logs.lines.prefixes import Speaker
from gpuwatch.agent.logs.matching.record_rank import read_message
from gpuwatch.agent.ranks.rank_environment import is_rank
from gpuwatch.fleet.jobs.slurm_tasks import task_numbers
from gpuwatch.runs.model.clues import OWN_LINE, Clue
from gpuwatch.runs.model.deepspeed_clues import clues_of_deepspeed
from gpuwatch.runs.placement.joins.stated_hosts import places_in, table_of_hosts
from gpuwatch.runs.placement.learned_tags.numbered_lines import NODE_RANK
from gpuwatch.runs.placement.learned_tags.numbering import WORLD
from gpuwatch.runs.placement.rank_facts import Census, RepeatedLines, extent, form_of
from gpuwatch.runs.placement.rank_line_patterns import (
    GLOBAL_RANKS,
    LAUNCHER,
    LAUNCHER_WORDS,
    LOSS,
    NCCL_CHANNEL,
    ONE_PER_HOST,
    ONE_PROCESS,
    PER_NODE,
    PROCESS_OF,
    SRUN_TASKS,
    TASKS_ON_HOST,
    WORKER_TABLE,
    WORLD_RANK,
)
from gpuwatch.runs.placement.writer_facts import count_writer, mentioned_ranks

MAX_LOSS = 600
"""Characters of a line that are searched for a lost peer."""
OPENING_LINES = 12
"""Number of first lines of a file in which a process states its rank."""


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
                    found.openings[file] |= set(mentioned_ranks(text)) | own
            size = extent(found) if is_known else -1
            changed = is_known and size != before
            repeated.note(raw, form, [each[1:] for each in stated], changed=changed)
        _count_node(found, file, lines)
    return found


def _count_node(found: Census, file: str, lines: Sequence[bytes]) -> None:
    """Record what a launcher's lines state: ranks by local rank, hosts of pods, nodes of DeepSpeed."""
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
    count_writer(found, file, text, by, reading)


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
