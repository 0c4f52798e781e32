"""The facts that the lines of a job show about ranks, and which further lines of a file add none. Pure."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Sequence
from operator import attrgetter
from typing import Any, TypeAlias

from msgspec import Struct, field

from gpuwatch.agent.logs.lines.line_ranks import LineRanks
from gpuwatch.agent.logs.lines.prefixes import Speaker
from gpuwatch.runs.model.clues import Clue

ALIKE_LINES = 4
"""Number of lines of one form with the same facts after which further ones are skipped."""
MAX_FORMS = 2_000
MIN_LOSSES = 2
"""Least processes that report a lost peer, by which the number of processes per log is determined."""
MIN_STEPS, STEP_SHARE = 3, 10
"""Least steps for a comparison of files by their last steps, which differ by less than a tenth."""
_FREE = re.compile(rb"(?<![\w.-])\d[\d.:,]*")
"""Matches a number that is not part of a name: a time, a step, a value; not in `rank0` or `gpu-003`."""
FormKey: TypeAlias = tuple[int, bytes]
"""The form of a line: how many free numbers it has, and the line without them."""
_WRITER = ("rank", "local_rank", "host", "pid", "task", "program")


class Census(Struct):
    """Facts from the lines of all files, before conclusions are drawn."""

    numbers: dict[str, set[int]] = field(default_factory=lambda: defaultdict(set))
    """Word -> numbers after it."""
    confirmed: dict[str, set[int]] = field(default_factory=lambda: defaultdict(set))
    """Word -> numbers after the word that equal the rank on the same line."""
    disproved: set[str] = field(default_factory=set)
    """Words whose number differed from the rank on the same line."""
    ranks: dict[str, set[int]] = field(default_factory=lambda: defaultdict(set))
    """File -> ranks of the writers of its lines."""
    banners: dict[str, set[int]] = field(default_factory=lambda: defaultdict(set))
    """File -> ranks that a process in the file calls its own."""
    worlds: set[int] = field(default_factory=set)
    tag_worlds: dict[str, set[int]] = field(default_factory=lambda: defaultdict(set))
    """Word -> numbers of how many behind its numbers: `[3/8]`."""
    variables: dict[str, set[int]] = field(default_factory=lambda: defaultdict(set))
    """File -> ranks in launcher variables that the file has."""
    clues: set[Clue] = field(default_factory=set)
    hosts: dict[tuple[str, int], set[str]] = field(default_factory=lambda: defaultdict(set))
    """(word, number) -> hosts on which lines place this process."""
    log_hosts: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    """File -> machines in the header of a single-process log."""
    own_hosts: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    """File -> hosts that the file names as its own."""
    tasks: dict[int, tuple[str, str]] = field(default_factory=dict)
    """Slurm task -> its node and the file that names it."""
    task_ranks: dict[int, set[int]] = field(default_factory=lambda: defaultdict(set))
    """Number at the heads of lines (`srun -l`) -> ranks that these lines state."""
    numbered: dict[str, set[Clue]] = field(default_factory=lambda: defaultdict(set))
    """Word -> processes that lines name after the word, with the number as rank."""
    indexes: dict[tuple[str, str], set[int]] = field(default_factory=lambda: defaultdict(set))
    """(file, word) -> numbers after the word in the file."""
    openings: dict[str, set[int]] = field(default_factory=lambda: defaultdict(set))
    """File -> ranks mentioned in its first lines."""
    falls: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    """Word -> how often the number after it is lower than on the previous line."""
    writers: set[str] = field(default_factory=set)
    """Hosts at the heads of lines."""
    one_per_host: bool = False
    """True if lines are of JAX on several hosts, which runs one process per host."""
    ray_train: bool = False
    """True if lines are of Ray Train's worker table."""
    working: dict[str, bool] = field(default_factory=lambda: defaultdict(bool))
    """File in which a rank logs regular lines -> whether these lines name the rank (`rank=3`)."""
    anonymous: set[str] = field(default_factory=set)
    """Files with steps of unknown ranks."""
    launchers: set[str] = field(default_factory=set)
    """Files with lines of a launcher."""
    processes: dict[str, set[int]] = field(default_factory=lambda: defaultdict(set))
    """File -> processes that write to the file, out of an announced number: `process 3/16`."""
    pods: set[Clue] = field(default_factory=set)
    """Nodes that Kubernetes assigned to pods."""
    spawned: set[Clue] = field(default_factory=set)
    """Processes with their local ranks."""
    launched: bool = False
    """True if a launcher starts several ranks in one task."""
    losses: dict[tuple[str, str], int] = field(default_factory=lambda: defaultdict(int))
    """(file, host or empty) -> number of exceptions about a lost peer.

    Each process that loses one raises it.
    """
    last_steps: dict[str, int] = field(default_factory=dict)
    """File of one process -> its last step; -1 if that is the announced last one."""
    single: bool = False
    """True if a launcher shows that it started one process."""

    @property
    def world(self) -> int | None:
        """Number of ranks that the lines state or mention; None: unknown."""
        seen = max((rank for ranks in self.ranks.values() for rank in ranks), default=-1) + 1
        world = max(self.worlds, default=0)
        return max(world, seen) or None

    def one_process_each(self, writers: Collection[str], *, hosts: bool = False) -> bool:
        """Return True if one process writes in each of these files, or on each of these hosts.

        A process reports a lost peer once. At least `MIN_LOSSES` and half of the writers must have done so,
        and no other writer.
        """
        counts: dict[str, int] = defaultdict(int)
        for place, count in self.losses.items():
            counts[place[1] if hosts else place[0]] += count
        return (
            counts.keys() <= set(writers)
            and set(counts.values()) == {1}
            and len(counts) >= max(MIN_LOSSES, len(writers) / 2)
        )

    def in_step(self, writers: Collection[str]) -> bool:
        """Return True if these files end at nearly the same step, and none of them at the announced last one.

        Runs that do not depend on each other end where each of them does.
        """
        last = [self.last_steps.get(writer, -1) for writer in writers]
        return min(last, default=-1) >= MIN_STEPS and (max(last) - min(last)) * STEP_SHARE <= max(last)

    def is_local(self, word: str) -> bool:
        """Return True if the numbers after a word restart at 0 on each host."""
        places = [len(hosts) for (each, _), hosts in self.hosts.items() if each == word]
        return len(places) > 1 and sum(count > 1 for count in places) * 2 > len(places)

    @property
    def announced(self) -> int | None:
        """Number of ranks, if exactly one announced number is not below the number of ranks seen.

        Else None.
        """
        seen = max((rank for ranks in self.ranks.values() for rank in ranks), default=-1) + 1
        worlds = {world for world in self.worlds if world >= seen}
        return worlds.pop() if len(worlds) == 1 else None


_VALUES = attrgetter(*Census.__struct_fields__)


def extent(found: Census) -> int:
    """Return a number that grows with every fact that is added to the census."""
    total = 0
    for value in _VALUES(found):
        if not value:
            continue
        if isinstance(value, dict):
            total += len(value) + sum(each if isinstance(each, int) else len(each) for each in value.values())
        else:
            total += value if isinstance(value, int) else len(value)
    return total


class _Form(Struct):
    """The lines of a file that differ only in free numbers."""

    stated: list[tuple[Any, ...]]
    """Writer and ranks that each message states."""
    numbers: list[bytes]
    fixed: list[int]
    """Positions of the numbers that were the same in all lines so far."""
    alike: int = 0
    adds_nothing: bool = True
    """False once a line of this form added a fact, or stated something else."""


class RepeatedLines:
    """Recognises lines of one file that add nothing: `ALIKE_LINES` others of their form stated the same.

    A number that changed in those without an effect has none. A line with another value of a number that
    never changed is read.
    """

    def __init__(self) -> None:
        self._forms: dict[FormKey, _Form] = {}

    def knows(self, key: FormKey) -> bool:
        """Return True if a line of this form was read."""
        return key in self._forms

    def holds(self, raw: bytes, key: FormKey) -> bool:
        """Return True if a line need not be read, as lines of its form added nothing to the census."""
        form = self._forms.get(key)
        if form is None or not form.adds_nothing or form.alike < ALIKE_LINES:
            return False
        numbers = _FREE.findall(raw)
        return all(numbers[at] == form.numbers[at] for at in form.fixed)

    def note(
        self, raw: bytes, key: FormKey, stated: Sequence[tuple[Speaker, LineRanks]], *, changed: bool
    ) -> None:
        """Record who wrote a line that was read, and the ranks in it.

        `changed`: whether it added a fact; not used for the first line of a form.
        """
        numbers = _FREE.findall(raw)
        known = self._forms.get(key)
        facts = [_facts(by, reading) for by, reading in stated]
        if known is None:
            if len(self._forms) < MAX_FORMS:
                counts = any(reading.index is not None for _, reading in stated)  # the order of these counts
                self._forms[key] = _Form(facts, numbers, list(range(len(numbers))), adds_nothing=not counts)
            return
        known.adds_nothing = known.adds_nothing and not changed and facts == known.stated
        known.fixed = [at for at in known.fixed if numbers[at] == known.numbers[at]]
        known.alike += 1


def form_of(raw: bytes) -> FormKey:
    """Return the number of free numbers in a line, and the line with a NUL for each of them.

    A line may also contain a NUL itself, so the number of them belongs to the key.
    """
    text, count = _FREE.subn(b"\0", raw)
    return count, text


def _facts(by: Speaker, reading: LineRanks) -> tuple[Any, ...]:
    writer = tuple(getattr(by, name) for name in _WRITER)
    return (*writer, reading.rank, reading.local_rank, reading.index, reading.phrase, reading.world)
