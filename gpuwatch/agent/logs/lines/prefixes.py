"""Removes the prefixes of launchers and log collectors from a line, and reads the writer from them.

`[rank3]:` is torch's own prefix and names the global rank. Under `torchrun --tee --role rank` it is the local
rank; a line with two that differ (`[rank0]:[rank8]:`) proves that for its file. `[default0]:` is always
local, and a number of `srun -l` is a task, not a rank. A word with a colon, as pdsh prefixes it, is a host if
it contains a digit; otherwise (`oom-kill: `) only if another prefix follows, because it mostly belongs to the
message. Host names contain no underscore.

Example: `gpu-7: [rank3]: CUDA error` gives host gpu-7 and rank 3; the message starts at `CUDA error`.
"""

import re

from ...patterns.module_pattern import pattern_of
from ...ranks.learned_tags import TAGS, learned_writer
from .prefix_forms import AFTER_MONTH, AFTER_STAMP, FORMS, STAMP, SYSTEM
from .programs import KERNEL, head_program, program_of

MAX_PREFIXES = 10
MAX_INDENT = 4

_IN_MESSAGE = pattern_of(r"slurm|srun")
"""Programs whose name is part of their messages (`slurmstepd: error: `); it stays unless a pid follows."""
_TAG = pattern_of(
    r"\[(?:(?:[\w.-]{1,80}@)?\d{1,10},)?(?:mpirank:)?(\d{1,6})(?:,([A-Za-z][\w.-]{0,80}))?\]"
    r"<std(?:err|out)>: ?"
)
_DAEMON = pattern_of(r"^slurm(?:step)?d-(?=[A-Za-z0-9])")
"""Slurm's daemons with their host in the name: `slurmstepd-gpu-002`."""
_NUMBERED_PROGRAM = pattern_of(
    r"(?:global[_-])?rank[_-]?(?P<rank>\d{1,6})$|(?!user@)[a-z][\w.-]{0,60}@(?P<instance>\d{1,5})(?:\.service)?$"
)
_IN_TEXT = pattern_of(r"\[(?:PG [^\]]{0,200}? )?Rank (\d{1,6})\]")
_NCCL = pattern_of(r"\b([A-Za-z0-9][\w.-]{0,80}):(\d{1,10}):\d{1,10} \[\d+\] ")
_NUMBERED_MONTH = pattern_of(r"\d{1,2}[月월]")
_QUOTED = pattern_of(r"[:=({\[,]\s?([\"'`])")
_INNER = pattern_of(r"(?<=[^\s:(\[])\s*(?=\[(?:rank|default)\d{1,6}\]:)")


class Speaker(object):
    """The writer of a line, as its prefixes name it: rank, local rank, task, host, pid, program."""

    __slots__ = ("rank", "local_rank", "host", "pid", "task", "program", "level", "_seen")

    def __init__(self, other: "Speaker | None" = None) -> None:
        self.rank: int | None = other.rank if other else None
        self.local_rank: int | None = other.local_rank if other else None
        self.host: str | None = other.host if other else None
        self.pid: int | None = other.pid if other else None
        self.task: int | None = other.task if other else None
        self.program: str | None = other.program if other else None
        """Program as named in a system log, in lower case; `kernel` for the kernel; None: not named."""
        self.level: str | None = other.level if other else None
        """Level that a JSON record states in a field; None: none does."""
        self._seen = False

    def take(self, found: "re.Match[str]", local_ranks: bool) -> bool:
        """Store what a prefix names; return True if it proves that `[rankN]:` is a local rank in the file."""
        proof = False
        for kind, value in found.groupdict().items():
            if value is None:
                continue
            if kind in ("rank", "caps"):
                proof = self._take_rank(int(value), local_ranks and kind == "rank")
            elif kind == "local":
                self.local_rank = int(value)
            elif kind == "task":
                self.task = int(value)
            elif kind == "pid":
                self.pid = int(value)
            elif kind == "program":
                self.program = program_of(value)
                proof = self._take_unit(self.program) or proof
            else:
                self.host = _DAEMON.sub("", value)
        return proof

    def _take_unit(self, program: str) -> bool:
        """Store the rank or task in a program's name: `rank3`, or `train@3`, an instance of a systemd unit.

        Return True if it proves that `[rankN]:` is a local rank in this file.
        """
        named = _NUMBERED_PROGRAM.match(program)
        if named is not None and named.group("rank") is not None:
            return self._take_rank(int(named.group("rank")), False)
        if named is not None:
            self.task = int(named.group("instance"))
        return False

    def _take_rank(self, rank: int, is_local: bool) -> bool:
        proof = False
        if self._seen:  # [rank0]:[rank8]: the first was put there by the launcher
            proof = self.rank is not None and self.rank != rank
            self.local_rank = self.rank if self.rank is not None else self.local_rank
            self.rank = rank
        elif is_local:
            self.rank, self.local_rank = None, rank
        else:
            self.rank = rank
        self._seen = True
        return proof


def differ(one: "Speaker", other: "Speaker") -> bool:
    """Return True if the prefixes of two lines show that different processes wrote them."""
    return any(
        getattr(one, name) is not None
        and getattr(other, name) is not None
        and getattr(one, name) != getattr(other, name)
        for name in ("rank", "local_rank", "task", "pid")
    )


def read_prefixes(text: str, speaker: "Speaker", local_ranks: bool = False) -> "tuple[int, bool]":
    """Store the writer that the prefixes of `text` name in `speaker`.

    Return the offset where the message begins, and whether `[rankN]:` proved to be local. `local_ranks`: read
    `[rankN]:` as a local rank.
    """
    at, proof = _read_known(text, 0, speaker, local_ranks)
    learned = learned_writer(text) if TAGS else None
    if learned is not None:
        if learned[1] > at:
            at, more = _read_known(text, learned[1], speaker, local_ranks)
            proof = proof or more
        if speaker.rank is None:
            speaker.rank, speaker.task = learned[0], None
    if speaker.program is None and text[at : at + 1].isalpha():
        speaker.program = head_program(text[at : at + 64])
    return at, proof


def _read_known(text: str, at: int, speaker: "Speaker", local_ranks: bool) -> "tuple[int, bool]":
    """Read the prefixes of the table from `at` on into `speaker`.

    Return (their end, whether they prove that `[rankN]:` is a local rank).
    """
    proof, kernel = False, False
    for _ in range(MAX_PREFIXES):
        begin = at
        while begin < at + MAX_INDENT and text[begin : begin + 1] == " ":
            begin += 1
        kind, found = _prefix(text, begin, kernel)
        if found is None:
            break
        proof = speaker.take(found, local_ranks) or proof
        at = found.end()
        if kind == SYSTEM:
            kernel, speaker.program = True, KERNEL
        elif kind == STAMP:
            at = _collector(text, begin, at, speaker)
            kernel = kernel or speaker.program == KERNEL
        if at < len(text) and text[at] == " " and text[at + 1 : at + 2] not in ("", " "):
            at += 1
    return at, proof


def _prefix(text: str, at: int, kernel: bool) -> "tuple[str, re.Match[str] | None]":
    """Return (kind, match) of the prefix at offset `at`; ("", None): there is none.

    `kernel`: a prefix of the kernel came before, so no host follows.
    """
    first = text[at : at + 1]
    first = "0" if first.isdecimal() else "a" if first.isalpha() else first
    for kind, form in FORMS.get(first, ()):
        found = form.match(text, at)
        if found is not None and not (kernel and "host" in form.groupindex):
            return kind, found
    return "", None


def _collector(text: str, begin: int, at: int, speaker: "Speaker") -> int:
    """Store host and program that a log collector wrote after a time; return where the message begins."""
    syslog = text[begin : begin + 1].isalpha() or _NUMBERED_MONTH.match(text, begin) is not None
    forms = AFTER_STAMP + AFTER_MONTH if syslog else AFTER_STAMP
    for form in forms:
        found = form.match(text, at)
        if found is not None:
            speaker.take(found, False)
            bare = form in AFTER_MONTH and _IN_MESSAGE.match(text, found.start("program"))
            return found.start("program") if bare else found.end()
    return at


def read_inner_prefixes(text: str, speaker: "Speaker") -> None:
    """Store the writer that the message itself names: torch's `[Rank 3]`, NCCL's `host:pid:tid [device]`."""
    if speaker.rank is None:
        found = _IN_TEXT.search(text)
        if found:
            speaker.rank = int(found.group(1))
    if "NCCL" in text:
        head = _NCCL.search(text)
        if head:
            speaker.host, speaker.pid = head.group(1), int(head.group(2))


def untagged(text: str, speaker: "Speaker") -> str:
    """Return a line without mpirun's tags, which may be anywhere in it; `speaker` gets rank and host."""
    if "]<std" not in text:
        return text
    tag = _TAG.search(text)
    if tag:
        speaker.rank = int(tag.group(1))
        speaker.host = tag.group(2) or speaker.host
    return _TAG.sub("", text)


def _is_quotation(before: str) -> bool:
    """Return True if `before` ends inside a quotation, so that the next text is a value such as a prompt."""
    opened = list(_QUOTED.finditer(before))
    return bool(opened) and opened[-1].group(1) not in before[opened[-1].end() :]


def writers(text: str) -> "list[str]":
    """Return the parts of a message that several ranks wrote on one line, split at their prefixes."""
    if "]:" not in text:
        return [text]
    cuts = [0] + [found.end() for found in _INNER.finditer(text)] + [len(text)]
    if len(cuts) > 2 and _is_quotation(text[: cuts[1]]):
        return [text]
    return [
        text[a:b]
        for a, b in zip(cuts, cuts[1:])  # noqa: B905 - strict needs Python 3.10
        if b > a
    ]
