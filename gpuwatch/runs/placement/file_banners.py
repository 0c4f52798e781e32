"""Finds the rank of a file by what its process prints once about itself. Pure.

Processes of one job print the same lines. A line that each file has, and in which one number differs, from 0
to the number of files less one, numbers each file's process, whatever its words are. In few files, the words
decide: `jax.process_index() = 3`, `JOB_COMPLETION_INDEX=2`, `Prozess 5 von 8`.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from gpuwatch.agent.ranks.rank_environment import is_rank
from gpuwatch.runs.placement.learned_tags.numbering import PROCESS_WORD, RANK_WORD, counts_other
from gpuwatch.runs.placement.rank_facts import Census

MIN_BANNER_LINES, BANNER_LINES = 16, 80
"""First lines of a file in which its process introduces itself; the more files, the fewer."""
MAX_HEAD_LINES = 4_000
MAX_CHARS = 240
MANY_FILES = 4
"""Files from which numbers from 0 on are no coincidence, whatever the words before them are."""
_STATED = re.compile(
    r"(?i)(?<![a-z_.])(?:(?:jax\.)?process[ _]?index(?:\(\))?|process[ _]rank"
    r"|dmlc_worker_id|paddle_trainer_id|flux_task_rank|pals_rankid)['\"]?\s{0,3}(?:[:=]|is)\s{0,3}['\"]?(?P<n>\d{1,5})(?![\d.])"
)
"""A statement of the process's own number in the job."""
_OF_NODE = re.compile(
    r"(?<![A-Za-z_])(?:JOB_COMPLETION_INDEX|AWS_BATCH_JOB_NODE_INDEX|PBS_NODENUM|VC_TASK_INDEX|PET_NODE_RANK|NODE_RANK"
    r"|MACHINE_RANK|GROUP_RANK|SM_CURRENT_HOST_INDEX|batch\.kubernetes\.io/job-completion-index)['\"]?\s{0,3}[:=]\s{0,3}['\"]?(?P<n>\d{1,5})(?![\d.])"
    r"|\bLocal rank: (?P<of_machine>\d{1,5}), total number of machines: \d"
)
"""The number of a node, which is the rank if each node has one process."""
_OUT_OF = re.compile(
    r"(?i)(?<![a-z])(?:proc(?:ess)?|prozess|proceso|processo|processus|worker|task|rank|replica|member|host|trainer"
    r"|\u043f\u0440\u043e\u0446\u0435\u0441\u0441|\u8fdb\u7a0b|\u30d7\u30ed\u30bb\u30b9|\ud504\ub85c\uc138\uc2a4)"
    r"(?:[ _]?(?:id|index|no\.?|nr\.?|number))?[ :=#]{0,3}(?P<n>\d{1,5})"
    r" ?(?:/|of|out of|von|de|sur|di|van|av|z|iz|\u0438\u0437|\u4e2d) ?(?P<world>\d{1,5})(?![\d%.])"
)
_SEVERAL = re.compile(
    rb"(?i)local[_ ]?rank['\"]?[ :=]{1,3}['\"]?[1-9](?!\d{0,4}, total number of machines)"
    rb"|\[(?:rank|default)\d{1,6}\]"
)
_NUMBER = re.compile(r"(?<![\w.])[0-9]{1,5}(?![\w.]|:\d)|(?<=[A-Za-z_=#])[0-9]{1,5}(?![\w.]|:\d)")
_DIGITS = re.compile(r"[0-9]+")
_ZEROS = str.maketrans("123456789", "000000000")
_TIME = re.compile(r"\d{4}[-/.]\d\d[-/.]\d\d[T ]?|\d\d?:\d\d(?::\d\d)?(?:[.,]\d{1,9})?Z?")


class _HeadLine(NamedTuple):
    """A line near the beginning of a file. Lines of one shape differ in ASCII digits only."""

    text: str
    shape: str
    """The text with 0 for each digit: no pattern here depends on which digits a line has."""


class _MatchingShapes(dict[str, bool]):
    """Shape of lines -> whether a pattern matches in them."""

    def __init__(self, pattern: re.Pattern[str]) -> None:
        super().__init__()
        self._pattern = pattern

    def __missing__(self, shape: str) -> bool:
        found = self[shape] = self._pattern.search(shape) is not None
        return found


class _NumbersOfShapes(dict[str, list[tuple[tuple[str, int], int, int]]]):
    """Shape of lines -> the numbers in their text without times: (form of the line, place), begin, end."""

    def __init__(self) -> None:
        super().__init__()
        self.timed = _MatchingShapes(_TIME)

    def __missing__(self, shape: str) -> list[tuple[tuple[str, int], int, int]]:
        text = _TIME.sub("@", shape)
        digits = [each.start() for each in _DIGITS.finditer(text)]
        form = _DIGITS.sub("#", text)
        found = self[shape] = [
            ((form, bisect_left(digits, each.start()) + text.count("#", 0, each.start())), *each.span())
            for each in _NUMBER.finditer(text)
        ]
        return found


def ranks_by_banner(samples: Sequence[tuple[str, Sequence[bytes]]], found: Census) -> dict[str, int]:
    """Return file -> rank, as far as processes state their number once at the head of their own file.

    Empty if two files have the same number, a number is not below the number of ranks, or all are 0.
    """
    several = {file for file, ranks in found.ranks.items() if len(ranks) > 1} | found.launchers
    count = max(MIN_BANNER_LINES, min(BANNER_LINES, MAX_HEAD_LINES // max(1, len(samples))))
    heads = {file: _head(lines[:count]) for file, lines in samples if file not in several}
    several |= {file for file, lines in samples if any(map(_is_of_several, lines[:200]))}
    own = _stated(heads)
    nodes = {file: number for file, number in _of_nodes(heads) if file not in several}
    if nodes and found.world in (None, len(nodes), max(nodes.values()) + 1):
        own = {**nodes, **own}
    own = {**_differing({file: head for file, head in heads.items() if file not in several}, found), **own}
    own = {file: rank for file, rank in own.items() if found.ranks.get(file, set()) <= {rank}}
    world = max(found.worlds, default=None)
    if len(set(own.values())) < len(own) or (world is not None and max(own.values(), default=0) >= world):
        return {}
    return {} if set(own.values()) == {0} else own  # rank 0 may log for the whole job


def _is_of_several(raw: bytes) -> bool:
    """Return True if a line shows that its file has lines of several ranks."""
    lower = raw[:400].lower()
    return (b"rank" in lower or b"[default" in lower) and _SEVERAL.search(raw[:400]) is not None


def _head(lines: Sequence[bytes]) -> list[_HeadLine]:
    texts = (raw[:MAX_CHARS].decode("utf-8", "replace") for raw in lines)
    return [_HeadLine(text, text.translate(_ZEROS)) for text in texts]


def _stated(heads: Mapping[str, Sequence[_HeadLine]]) -> dict[str, int]:
    """Return file -> the number that its process states as its own, if only one is stated there."""
    own: dict[str, int] = {}
    stated, out_of = _MatchingShapes(_STATED), _MatchingShapes(_OUT_OF)
    for file, lines in heads.items():
        numbers = {
            int(found["n"]) for line, shape in lines if stated[shape] for found in _STATED.finditer(line)
        }
        if not numbers:
            numbers = {
                int(found["n"])
                for line, shape in lines
                if out_of[shape]
                for found in _OUT_OF.finditer(line)
                if int(found["n"]) < int(found["world"]) and not counts_other(line[: found.start()][-40:])
            }
        if len(numbers) == 1:
            own[file] = numbers.pop()
    return own


def _of_nodes(heads: Mapping[str, Sequence[_HeadLine]]) -> Iterator[tuple[str, int]]:
    """Yield file and the number of its node, if only one is stated there."""
    of_node = _MatchingShapes(_OF_NODE)
    for file, lines in heads.items():
        numbers = {
            int(found["n"] or found["of_machine"])
            for line, shape in lines
            if of_node[shape]
            for found in _OF_NODE.finditer(line)
        }
        if len(numbers) == 1:
            yield file, numbers.pop()


def _differing(heads: Mapping[str, Sequence[_HeadLine]], found: Census) -> dict[str, int]:
    """Return file -> rank by the numbers from 0 on in which lines of equal form differ, one for each file.

    All files that log steps must have the line. Empty if there is none, or such lines contradict each other.
    """
    values: dict[tuple[str, int], dict[str, set[int]]] = defaultdict(lambda: defaultdict(set))
    words: dict[tuple[str, int], str] = {}
    if not 1 < len(heads) <= 4096:
        return {}
    numbers = _NumbersOfShapes()
    for file, lines in heads.items():
        for line, shape in lines:
            text = _TIME.sub("@", line) if numbers.timed[shape] else line
            for key, begin, end in numbers[shape]:
                values[key][file].add(int(text[begin:end]))
                if key not in words:
                    words[key] = text[max(0, begin - 40) : begin]
    answers: list[dict[str, int]] = []
    stepping = sum(found.last_steps.get(file, -1) >= 0 for file in heads)
    for key, files in values.items():
        own = {file: next(iter(each)) for file, each in files.items() if len(each) == 1}
        if (
            len(own) == len(files) >= max(2, stepping)
            and set(own.values()) == set(range(len(own)))
            and _names_process(words[key], len(own), found)
        ):
            answers.append(own)
    return answers[0] if answers and all(each == answers[0] for each in answers) else {}


def _names_process(before: str, count: int, found: Census) -> bool:
    if counts_other(before) or found.world not in (None, count) or not is_rank(count):
        return False
    named = RANK_WORD.search(before) is not None or PROCESS_WORD.search(before) is not None
    return named or (count >= MANY_FILES and re.search(r"[A-Za-z]{2}\W{0,4}$", before) is not None)
