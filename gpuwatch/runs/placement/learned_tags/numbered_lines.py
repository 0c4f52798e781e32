"""Collects what the lines with one number at the head show about its writer. Pure."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, field

from gpuwatch.runs.placement.learned_tags.slots import HeadNumber, Slot, message_of, value_of

MAX_TEXTS = 400
"""Texts kept of each number."""
_MESSAGE_BEGUN = re.compile(r"[:>\])] +[^\W\d_]")
"""What closes a tag and the first letter of the message."""
_OF_NODE_PROCESS = re.compile(
    r"(?i)\b(?:gpu|device|dev|cuda|card|lane|slot|proc(?:ess)?|worker|l(?:ocal)?(?:[ _-]?rank)?)"
    r"[\s:=#._-]{0,3}$"
)
NODE_RANK = re.compile(r"--(?:node|machine)[_-]rank[= ](\d{1,5})\b")
"""Matches a launcher's option for the number of its node."""
_SEVERAL = re.compile(r"--nproc[_-]per[_-]node[= ](?!1\b)\w")
_OUT_OF = re.compile(r"(?<![0-9./])([0-9]{1,5}) ?/ ?([0-9]{1,5})(?![0-9./])")
_DECIMAL = re.compile(r"(?<![0-9])[0-9]+\.[0-9]+(?:e[+-]?[0-9]+)?")
_NO_LETTER = re.compile(r"[^A-Za-z]+")
_STATED = re.compile(
    r"(?i)(?:(?<![a-z])(?<!local[_ ])rank_?(?:id)?[\"']?[:=] ?\"?|\[(?:PG [^\]]{0,60} )?rank ?"
    r"|^\]:[ \[(<{]{0,2}rank[ _]?(?=[0-9]{1,6}[\]:>)}| ]))([0-9]{1,6})(?![0-9])"
)
"""A rank that a process states as its own, such as `[Rank 12]` in its tag or behind it."""
_ON_RANK = re.compile(
    r"(?i)\b(?:on|as|I am|this is|started|running as|is) (?:global )?rank ([0-9]{1,6})(?![0-9])"
)
"""A message in which a process calls its own rank without a sign between: `aborted on rank 4`."""
_LOST = re.compile(
    r"(?i)remote process exited|closed by (?:remote )?peer|reset by peer|lost connection|NCCL error"
)
DIGIT = re.compile(r"[0-9]")
_FOLLOWS = re.compile(
    _LOST.pattern + r"|time[d ]{0,2}out|aborted|unreachable|(?:nccl|rccl|hccl|xccl|gloo)\w{0,12} ?error"
    r"|lost (?:the )?(?:connection|peer|rank)|\bpeer\b|SIGTERM|terminated"
)


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
    follows: bool = False
    """Whether it reports the end of another process: a lost peer, a timeout, an abort."""
    hosts: set[str] = field(default_factory=set)
    stated: set[str] = field(default_factory=set)
    """Ranks that its lines state as their own: `RankID:11`, `rank=11`."""
    launches: bool = False
    """Whether it writes the command of a launcher of several processes, of the node with its number."""
    out_of: dict[int, set[int]] = field(default_factory=lambda: defaultdict(set))
    """Number of all -> the numbers out of them that its messages state: `6 / 8`."""
    inner: set[int] = field(default_factory=set)
    """Numbers that follow it in a tag: of the processes of a host."""
    called: set[str] = field(default_factory=set)
    """Ranks by which its messages call their writer: `aborted on rank 4`."""


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
        if inner is not None and inner.text.isdecimal() and _is_in_tag(text[number.end : inner.begin]):
            writer.inner.add(int(inner.text))
        rest = message_of(text, number)
        if "--n" in rest and launched_node(rest) == value:
            writer.launches = True
        writer.stated.update(_STATED.findall(rest[:200]))
        writer.called.update(_ON_RANK.findall(rest[:200]))
        for stated, of in _OUT_OF.findall(rest[:200]):
            writer.out_of[int(of)].add(int(stated))
        writer.lost += _LOST.search(rest) is not None
        writer.follows = writer.follows or _FOLLOWS.search(rest) is not None
        if len(writer.texts[file]) < MAX_TEXTS:
            message = _DECIMAL.sub(".", rest[:200])
            writer.again += message in writer.texts[file] and DIGIT.search(message) is not None
            writer.texts[file].add(message)
            writer.forms.add(_NO_LETTER.sub(" ", rest[:60]))


def _is_in_tag(between: str) -> bool:
    """Return True if a number belongs to the same tag as the one before it, by the text between both."""
    return _MESSAGE_BEGUN.search(between) is None or _OF_NODE_PROCESS.search(between) is not None


def launched_node(text: str) -> int | None:
    """Return the number of the node whose launcher of several processes a line names; None: it names none."""
    node = NODE_RANK.search(text)
    several = None if node is None else _SEVERAL.search(text)
    return None if node is None or several is None else int(node[1])
