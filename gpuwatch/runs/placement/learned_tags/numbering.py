"""Decides which numbers at the heads of lines are ranks, from how the writers of one job behave. Pure.

Processes of one job write the same messages, in turn, each under its own number from 0 to their count - 1.
Numbers of layers, steps or trials do not: they rise, have one message each, or belong to no line of training.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping
from itertools import pairwise

from gpuwatch.agent.logs.lines.rank_words import OTHER_COUNTS
from gpuwatch.runs.placement.learned_tags.numbered_lines import DIGIT, NumberedPlace
from gpuwatch.runs.placement.learned_tags.slots import Slot, value_of

MIN_SCORE = 3
"""Points of evidence that make numbers ranks; a word that means a rank has two."""
MIN_ALIKE = 8
"""Lines that half of the writers have in common, by which those with one form of lines run one program."""
MIN_CALLS, MIN_FILES = 2, 3
"""Least writers that call themselves by their number, and least numbers that files have of their own."""
MAX_WRITERS = 1 << 14
MIN_SHARE = 0.3
"""Share of a file's lines that have the tag; an exception's lines may lack it."""
WORLD = re.compile(
    r"\b(?:(?:dist_)?world[ _-]?size|nranks|MPI size|nprocs|n_ranks|num_ranks|num_processes)['\"]?[\s.]{0,40}"
    r"[:=]?\s{0,2}(\d{1,6})\b",
    re.IGNORECASE,
)
"""A statement of the number of ranks."""
RANK_WORD = re.compile(
    r"(?i)(?:(?:^|[^A-Za-z])(?:(?:global|world|mpi|pmix?|dist|torch|ddp|hvd|trainer|worker)[ _.-]?)?"
    r"rank(?:[ _-]?id)?"
    r"|(?:^|[^A-Za-z])r|(?:jax[ _-]?)?proc(?:ess)?[ _-]?(?:index|idx|id)|world[ _]?rank|WorldRank|rang[oa]?"
    r"|\u0440\u0430\u043d[\u0433\u043a]|\u30e9\u30f3\u30af|\ub7ad\ud06c|\u79e9)[\"']?[\s:=#._-]{0,3}\"?$"
)
"""Text before a number that means the rank."""
_RANK_IN_PATTERN = re.compile(r"(?i)rank|rang|r\W{0,4}$|proc|\u0440\u0430\u043d|[\u30e9\ub7ad\u79e9]")
PROCESS_WORD = re.compile(
    r"(?i)(?:^|[^A-Za-z])(?:worker|replica|task|member|trainer|peer|actor|learner|proc(?:ess)?|instance|party|pod"
    r"|client|agent|node|host|pe|p|w|xla|ordinal|\u043f\u0440\u043e\u0446\u0435\u0441\u0441|\u8fdb\u7a0b)"
    r"(?:[ _-]?(?:id|idx|index))?[\"']?[\s:=#._/-]{0,3}\"?$"
)
"""Text before a number that means a process."""
OTHER_WORD = re.compile(
    r"(?i)(?:^|[^A-Za-z])(?:steps?|iter(?:ation)?s?|it|epochs?|batch(?:es)?|loss|layers?|experts?|stages?|blocks?"
    r"|heads?|try|round"
    r"|folds?|seed|trials?|shards?|buckets?|chunks?|micro[ _-]?batch|mb|lr|lines?|attempt|restart|retry"
    r"|episodes?|envs?|splits?|version|v|port|pid|tid|threads?|dim|size|levels?|pages?|parts?|phase|queue|stream"
    r"|bs|seq|len|tokens?|samples?|images?|class|group|pg|runs?|exp|jobs?|array|tests?|case|sweep|arm|config"
    r"|loader|dataloader|nproc|world|nodes|ranks|workers|gpus|of|dp|tp|pp|ep|cp|sp|mp|port|axis|cycle|time|took"
    r"|seconds?|secs?|ms|mem(?:ory)?|buffer|table|row|col(?:umn)?|page|file|disk|rule|item|document|doc|sentence"
    r"|group[ _-]?rank|node[ _-]?rank)[\"']?[\s:=#._-]{0,3}\"?$"
)
"""Text before a number that counts something else."""
NODE_WORD = re.compile(
    r"(?i)(?:^|[^A-Za-z])(?:node(?:[ _-]?(?:rank|id|idx|index))?|(?:machine|group)[ _-]?rank|n|host|worker)"
    r"[\"']?[\s:=#._-]{0,3}\"?$"
)
"""Text before the number of a node."""
LOCAL_WORD = re.compile(
    r"(?i)(?:^|[^A-Za-z])(?:local(?:[ _-]?(?:rank|id|process(?:[ _-]?index)?))?)[\"']?[\s:=#._-]{0,3}\"?$"
)
"""Text before the number of a process on its node."""
TORCHRUN_WORD = re.compile(r"\[default$")
"""Text before the local rank in the tag of `torchrun --tee`."""


def may_be_ranks(slot: Slot, numbers: Collection[str], of: Collection[int | None]) -> bool:
    """Return True if numbers are those from 0 to their count - 1, or a word before them means a rank.

    Also if each is one of the same number of all (`of`): `[12/32]`.
    """
    values = set(map(value_of, numbers))
    if max(values) + 1 == len(values) or _RANK_IN_PATTERN.search(slot.before) is not None:
        return True
    return len(of) == 1 and max(values) < (next(iter(of)) or 0)


def ranks_at(place: NumberedPlace, worlds: set[int], sizes: Mapping[str, int]) -> dict[str, int]:
    """Return text of a number -> rank, if the numbers at a place are ranks; else an empty mapping.

    Args:
        place: The place.
        worlds: The numbers of ranks that the job's lines state.
        sizes: File -> its lines.
    """
    values = {text: value_of(text) for text in place.writers}
    if not 1 < len(values) <= MAX_WRITERS or len(set(values.values())) < len(values):
        return {}
    if counts_other(place.words) or any(writer.launches for writer in place.writers.values()):
        return {}
    share = sum(place.lines.values()) / max(1, sum(sizes[file] for file in place.lines))
    count, named = len(values), RANK_WORD.search(place.words) is not None or calls_itself(place)
    stated = {text: writer.stated for text, writer in place.writers.items() if writer.stated}
    disproved = sum(ranks != {str(values[text])} for text, ranks in stated.items()) * 2 > len(stated)
    is_local = LOCAL_WORD.search(place.words) or (worlds and TORCHRUN_WORD.search(place.words))
    if disproved or (is_local and count not in worlds):
        return {}
    some = are_some_of_all(place, worlds)
    if share < MIN_SHARE or (max(values.values()) + 1 != count and not named and not some):
        return {}
    several = 2 * sum(writer.lines > 1 for writer in place.writers.values()) >= count
    if restarts(place) or not (several or _is_out_of_all(place, count)):
        return {}  # one line each is a list of the ranks
    world = {*worlds, *(of for of in place.of if of is not None)}
    if named and world and max(values.values()) >= max(world):
        return {}
    if some:
        return {**_every_number(values, next(iter(place.of)) or 0), **values}
    return (
        values if is_split_by_file(place) or _evidence(place, count, world, named=named) >= MIN_SCORE else {}
    )


def _every_number(seen: Mapping[str, int], total: int) -> dict[str, int]:
    """Return text -> rank for the numbers below `total`, written as wide as those seen."""
    width = len(next(iter(seen))) if len({len(text) for text in seen}) == 1 else 1
    return {str(number).zfill(width): number for number in range(min(total, MAX_WRITERS))}


def counts_other(words: str) -> bool:
    """Return True if the text before a number says that it counts something else than processes."""
    return OTHER_WORD.search(words) is not None or OTHER_COUNTS.search(RANK_WORD.sub("", words)) is not None


def restarts(place: NumberedPlace) -> bool:
    """Return True if the numbers count the processes of each host or file: several write the same."""
    if any(len(writer.hosts) > 1 for writer in place.writers.values()):
        return True
    losses = [writer.lost for writer in place.writers.values() if writer.lost]
    if len(losses) > 1 and sum(lost > 1 for lost in losses) * 2 > len(losses):
        return True
    within = [writer.inner for writer in place.writers.values() if len(writer.inner) > 1]
    if sum(each == set(range(len(each))) for each in within) * 2 > len(place.writers):
        return True
    if sum(writer.again for writer in place.writers.values()) * 3 > sum(place.lines.values()):
        return True
    twice = 0
    for writer in place.writers.values():
        texts = [text for each in writer.texts.values() for text in each if DIGIT.search(text)]
        twice += len(texts) > len(set(texts))
    return twice * 2 > len(place.writers)


def are_some_of_all(place: NumberedPlace, worlds: set[int]) -> bool:
    """Return True if each number states how many there are (`[12/32]`), of which some write nothing.

    Numbers of steps or batches are told apart: the number of all is that of the job's ranks, or each file
    has numbers of its own that take turns or have a file each.
    """
    total = next(iter(place.of)) if len(place.of) == 1 else None
    if total is None or max(map(value_of, place.writers)) >= total:
        return False
    several = [writer for writer in place.writers.values() if writer.lines > 1]
    if len(several) * 2 < len(place.writers):
        return False
    apart = len(place.lines) > 1 and all(len(writer.texts) == 1 for writer in place.writers.values())
    own = Counter(file for writer in place.writers.values() for file in writer.texts)
    alone = sum(count == 1 for count in own.values()) * 2 > len(own)
    turns = place.falls >= len(place.writers)
    return (turns or alone) and (apart or total in worlds)


def hosts_at(place: NumberedPlace, ranks: Mapping[str, int]) -> dict[int, str]:
    """Return rank -> host, if one host is before each number: `k04/3: `; else nothing."""
    hosts = {text: next(iter(each.hosts)) for text, each in place.writers.items() if len(each.hosts) == 1}
    if len(hosts) < len(place.writers) or "" in hosts.values() or len(set(hosts.values())) < MIN_CALLS:
        return {}
    return {ranks[text]: host for text, host in hosts.items()}


def calls_itself(place: NumberedPlace) -> bool:
    """Return True if messages call their writer by its number, as in `<4> aborted on rank 4`."""
    calls = {text: writer.called for text, writer in place.writers.items() if writer.called}
    own = sum(called == {str(value_of(text))} for text, called in calls.items())
    return own == len(calls) and own * 2 >= max(MIN_CALLS, len(place.writers))


def is_split_by_file(place: NumberedPlace) -> bool:
    """Return True if each file has as many numbers of its own as the others, all together from 0 on.

    The number stands apart from a name, whose digits count hosts, the writers have a text in common, and most
    of them report the end of another: runs that do not depend on each other do not.
    """
    if sum(writer.follows for writer in place.writers.values()) * 2 < len(place.writers):
        return False
    own: dict[str, set[int]] = defaultdict(set)
    for text, writer in place.writers.items():
        for file in writer.texts:
            own[file].add(value_of(text))
    numbers = sorted(number for each in own.values() for number in each)
    if numbers != list(range(len(numbers))) or len(numbers) < MIN_FILES or len(own) < 2:
        return False
    if len({len(each) for each in own.values()}) > 1 or NODE_WORD.search(place.words) is not None:
        return False
    blocks = all(max(each) - min(each) + 1 == len(each) for each in own.values())
    before = place.words.rstrip()[-1:]
    bare = not before.isalnum() or RANK_WORD.search(place.words) is not None
    forms = [writer.forms for writer in place.writers.values()]
    shared = sum(bool(each & other) for each, other in pairwise(forms))
    return blocks and bare and shared * 2 >= len(forms) - 1


def _is_out_of_all(place: NumberedPlace, count: int) -> bool:
    """Return True if each number states how many there are, as in `proc 7/16`, and that many are seen.

    The message may state both: `6 / 8`.
    """
    restated = all(writer.out_of.get(count) == {value_of(text)} for text, writer in place.writers.items())
    return restated or (place.of == {count} and PROCESS_WORD.search(place.words) is not None)


def _are_on_hosts(place: NumberedPlace) -> bool:
    """Return True if a host is before each number, always the same one, and several have several numbers."""
    hosts = [next(iter(writer.hosts)) for writer in place.writers.values() if len(writer.hosts) == 1]
    return "" not in hosts and len(hosts) == len(place.writers) and 1 < len(set(hosts)) < len(hosts)


def _evidence(place: NumberedPlace, count: int, world: set[int], *, named: bool) -> int:
    """Return the points for the numbers being ranks; 0: too little supports it."""
    shared: dict[str, int] = defaultdict(int)
    for writer in place.writers.values():
        for text in set().union(*writer.texts.values()):
            shared[text] += 1
    most = max(2, (count + 1) // 2)
    alike = sum(number >= most for number in shared.values())
    lost = sum(writer.lost == 1 for writer in place.writers.values()) >= max(1, count / 2)
    varied = sum(len(writer.forms) > 1 for writer in place.writers.values()) >= most
    turns = place.falls > 1
    is_process = PROCESS_WORD.search(place.words) is not None or _are_on_hosts(place)
    if _is_out_of_all(place, count):
        return MIN_SCORE
    in_step = is_process and turns and alike >= MIN_ALIKE
    if not named and not ((varied or lost or count in world or in_step) and alike):
        return 0
    points = 2 * named + 2 * (count in world) + 2 * lost + varied + (alike > 1) + turns
    return points + is_process
