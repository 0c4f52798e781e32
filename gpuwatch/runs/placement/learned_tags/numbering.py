"""Decides which numbers at the heads of lines are ranks, from how the writers of one job behave. Pure.

Processes of one job write the same messages, in turn, each under its own number from 0 to their count - 1.
Numbers of layers, steps or trials do not: they rise, have one message each, or belong to no line of training.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from gpuwatch.agent.logs.lines.rank_words import OTHER_COUNTS
from gpuwatch.runs.placement.learned_tags.slots import HeadNumber, Slot, message_of, value_of

MIN_SCORE = 3
"""Points of evidence that make numbers ranks; a word that means a rank has two."""
MIN_ALIKE = 8
"""Lines that half of the writers have in common, by which those with one form of lines run one program."""
MAX_WRITERS = 1 << 14
MAX_TEXTS = 400
"""Texts kept of each number."""
MIN_SHARE = 0.3
"""Share of a file's lines that have the tag; an exception's lines may lack it."""
WORLD = re.compile(
    r"\b(?:(?:dist_)?world[ _-]?size|nranks|MPI size|nprocs|n_ranks|num_ranks|num_processes)['\"]?[\s.]{0,40}"
    r"[:=]?\s{0,2}(\d{1,6})\b",
    re.IGNORECASE,
)
"""A statement of the number of ranks."""
_NODE_RANK = re.compile(r"--(?:node|machine)[_-]rank[= ](\d{1,5})\b")
_SEVERAL = re.compile(r"--nproc[_-]per[_-]node[= ](?!1\b)\w")
_OUT_OF = re.compile(r"(?<![0-9./])([0-9]{1,5}) ?/ ?([0-9]{1,5})(?![0-9./])")
_DECIMAL = re.compile(r"(?<![0-9])[0-9]+\.[0-9]+(?:e[+-]?[0-9]+)?")
_NO_LETTER = re.compile(r"[^A-Za-z]+")
_DIGIT = re.compile(r"[0-9]")
_STATED = re.compile(r"(?i)(?<![a-z])(?<!local[_ ])rank_?(?:id)?[\"']?[:=] ?\"?([0-9]{1,6})(?![0-9])")
_LOST = re.compile(
    r"(?i)remote process exited|closed by (?:remote )?peer|reset by peer|lost connection|NCCL error"
)
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
LOCAL_WORD = re.compile(
    r"(?i)(?:^|[^A-Za-z])(?:local(?:[ _-]?(?:rank|id|process(?:[ _-]?index)?))?)[\"']?[\s:=#._-]{0,3}\"?$"
)
"""Text before the number of a process on its node."""


@dataclass
class NumberedWriter:
    """The log lines that have one certain number at one place of their tag."""

    lines: int = 0
    texts: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    """File -> what follows the tag there, without decimals."""
    forms: set[str] = field(default_factory=set)
    again: int = 0
    """Lines with a number whose text was written before: by another process, if there are many."""
    lost: int = 0
    hosts: set[str] = field(default_factory=set)
    stated: set[str] = field(default_factory=set)
    """Ranks that its lines state as their own: `RankID:11`, `rank=11`."""
    launches: bool = False
    """Whether it writes the command of a launcher of several processes, of the node with its number."""
    out_of: dict[int, set[int]] = field(default_factory=lambda: defaultdict(set))
    """Number of all -> the numbers out of them that its messages state: `6 / 8`."""
    inner: set[int] = field(default_factory=set)
    """Numbers that follow it in a tag: of the processes of a host."""


@dataclass
class NumberedPlace:
    """The log lines that have any number at one place of their tag, by that number."""

    slot: Slot
    words: str
    """The text before the number, of its first line."""
    writers: dict[str, NumberedWriter] = field(default_factory=lambda: defaultdict(NumberedWriter))
    of: set[int | None] = field(default_factory=set)
    falls: int = 0
    previous: dict[str, int] = field(default_factory=dict)
    """File -> the number of its previous line."""
    lines: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    """File -> its lines with the tag."""

    def take(self, file: str, number: HeadNumber, text: str, host: str, inner: HeadNumber | None) -> None:
        """Add one line."""
        writer = self.writers[number.text]
        value = value_of(number.text)
        self.falls += value < self.previous.get(file, 0)
        self.previous[file] = value
        self.lines[file] += 1
        self.of.add(number.of)
        writer.lines += 1
        writer.hosts.add(host)
        if inner is not None and inner.text.isdecimal() and not counts_other(text[: inner.begin][-40:]):
            writer.inner.add(int(inner.text))
        rest = message_of(text, number)
        if "--n" in rest and launched_node(rest) == value:
            writer.launches = True
        writer.stated.update(_STATED.findall(rest[:200]))
        for stated, of in _OUT_OF.findall(rest[:200]):
            writer.out_of[int(of)].add(int(stated))
        writer.lost += _LOST.search(rest) is not None
        if len(writer.texts[file]) < MAX_TEXTS:
            message = _DECIMAL.sub(".", rest[:200])
            writer.again += message in writer.texts[file] and _DIGIT.search(message) is not None
            writer.texts[file].add(message)
            writer.forms.add(_NO_LETTER.sub(" ", rest[:60]))


def launched_node(text: str) -> int | None:
    """Return the number of the node whose launcher of several processes a line names; None: it names none."""
    node = _NODE_RANK.search(text)
    several = None if node is None else _SEVERAL.search(text)
    return None if node is None or several is None else int(node[1])


def may_be_ranks(slot: Slot, numbers: Collection[str]) -> bool:
    """Return True if numbers are those from 0 to their count - 1, or a word before them means a rank."""
    values = set(map(value_of, numbers))
    return max(values) + 1 == len(values) or _RANK_IN_PATTERN.search(slot.before) is not None


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
    count, named = len(values), RANK_WORD.search(place.words) is not None
    stated = {text: writer.stated for text, writer in place.writers.items() if writer.stated}
    if sum(ranks != {str(values[text])} for text, ranks in stated.items()) * 2 > len(stated):
        return {}
    if LOCAL_WORD.search(place.words) and count not in worlds:
        return {}
    if share < MIN_SHARE or (max(values.values()) + 1 != count and not named):
        return {}
    several = 2 * sum(writer.lines > 1 for writer in place.writers.values()) >= count
    if restarts(place) or not (several or _is_out_of_all(place, count)):
        return {}  # one line each is a list of the ranks
    world = {*worlds, *(of for of in place.of if of is not None)}
    if named and world and max(values.values()) >= max(world):
        return {}
    return values if _evidence(place, count, world, named=named) >= MIN_SCORE else {}


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
        texts = [text for each in writer.texts.values() for text in each if _DIGIT.search(text)]
        twice += len(texts) > len(set(texts))
    return twice * 2 > len(place.writers)


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
