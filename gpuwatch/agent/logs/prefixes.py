"""What launchers and log collectors put before a line: peeled off, and what it tells about who speaks.

`[rank3]:` is torch's own prefix and names the global rank. Under `torchrun --tee --role rank` it is the local
rank; a line with two that differ (`[rank0]:[rank8]:`) proves that for its file. `[default0]:` is always
local, and a number of `srun -l` is a task and no rank. A word with a colon, as pdsh puts before a line, is a
host where it has a digit in it; without one (`oom-kill: `) only where another prefix follows, for it mostly
belongs to the message. An underscore stands in no host's name.
"""

import re

MAX_PREFIXES = 8

_HOST = r"[A-Za-z0-9][\w.-]{0,80}"
_DEVICE = (  # kernel and RDMA messages begin so; none of these is a host
    r"(?!(?:mlx|bnxt|irdma|eth|en[ops]|ibp?|ibs|bond|nvme|nvidia|sd|md|dm|amdgpu|i40e|ixgbe|ice|hfi|qp|cpu|"
    r"rank|worker|line|step|epoch|iter|cuda|CUDA|node|np|v|q|h)[\d_-]*:|gpu\d{1,2}:)"
)
_PREFIX = re.compile(
    r"\s{0,4}(?:"
    r"\[rank(?P<rank>\d{1,6})\[?\]?\]:"
    r"|\[RANK (?P<caps>\d{1,6})\] (?=\S)"
    r"|\[(?:default|worker|trainer|actor|role)(?P<local>\d{1,4})\]:"
    r"|\[[a-z]{3,20}\d{1,6}\|\d{1,4}\]:"
    r"|(?P<task>\d{1,6}): (?=\S)(?![\d.nan-]+, [\d.nan-]+ avg\b)"  # not the step of Darknet
    r"|\((?:[\w.:-]{1,80} )?pid=(?P<pid>\d{1,10})(?:, ip=(?P<ip>[\d.]{7,15}))?\) ?"
    r"|\([\w-]{1,40}, ip=(?P<ip2>[\d.]{7,15})\) ?"
    r"|(?P<node>" + _HOST + r") \[std(?:err|out)\] "
    r"|std(?:err|out): "
    r"|[A-Za-z][\w.-]{0,60}/\d{1,5} (?=[\[(])"
    r"|\[\d{1,8}\] (?=\[rank\d)"
    r"|\d{4}-\d\d-\d\d \d\d:\d\d (?=\[rank\d)"
    r"|\[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z| ?[+-]\d\d:?\d\d)?\]?"
    r"(?: std(?:err|out) [FP])?(?=[ \t\[:|])[:| ]?"
    r"|\d\d:\d\d:\d\d\.\d{3,6} (?=\[)"
    r"|<\d{1,3}>(?=\S)"
    r"|\d{1,3},\d{1,12},\d{1,16},[-c+](?:,[^;]{0,80})?;"
    r"|\[\s{0,8}\d{1,10}\.\d{6}\](?:\[\s*[TC]\d+\])? ?"
    r"|\[[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \d{4}\] ?"
    r"|[^\W\d_]{3,5}\.? [ \d]\d \d\d:\d\d:\d\d (?P<sys>" + _HOST + r") (?=[\w./-]{1,60}(?:\[\d+\])?:)"
    r"|kernel: ?"
    r"|" + _DEVICE + r"(?!nvidia-nvswitch\d)"
    r"(?P<pdsh>[a-z][a-z-]*\d[A-Za-z0-9.-]{0,60}|\d{1,3}(?:\.\d{1,3}){3}): (?=\S)"
    r"|(?P<named>[a-z]+(?:-[a-z]+)+): (?=\[(?:rank|RANK |default)\d|\[?\d{4}-\d\d-|\[[EWIF]\d{3,4} )"
    r"|> "
    r")"
)
_KERNEL = re.compile(r"\s*(?:kernel:|\[\s*\d+\.\d{6}\]|<\d+>|\d+,\d+,\d+,)")
"""After one of these stands the name of a driver and never a host."""
_TAG = re.compile(r"\[\d+,(\d{1,6})\]<std(?:err|out)>: ?")
_IN_TEXT = re.compile(r"\[(?:PG [^\]]{0,200}? )?Rank (\d{1,6})\]")
_NCCL = re.compile(r"\b([A-Za-z0-9][\w.-]{0,80}):(\d{1,10}):\d{1,10} \[\d+\] ")
_INNER = re.compile(r"(?<=[^\s:(\[])\s*(?=\[(?:rank|default)\d{1,6}\]:)")


class Speaker(object):
    """Who says a line, as far as its prefixes tell."""

    __slots__ = ("rank", "local_rank", "host", "pid", "task", "_seen")

    def __init__(self, other=None):
        # type: (Speaker | None) -> None
        self.rank = other.rank if other else None  # type: int | None
        self.local_rank = other.local_rank if other else None  # type: int | None
        self.host = other.host if other else None  # type: str | None
        self.pid = other.pid if other else None  # type: int | None
        self.task = other.task if other else None  # type: int | None
        self._seen = False

    def take(self, found, local_ranks):
        # type: (re.Match[str], bool) -> bool
        """Take one prefix in; whether it proves that a single `[rankN]:` is a local rank in this file."""
        kind = found.lastgroup
        if kind is None:
            return False
        value = found.group(kind)
        proof = False
        if kind in ("rank", "caps"):
            if self._seen:  # [rank0]:[rank8]: the first was put there by the launcher
                proof = self.rank is not None and self.rank != int(value)
                self.local_rank = self.rank if self.rank is not None else self.local_rank
                self.rank = int(value)
            elif local_ranks and kind == "rank":
                self.rank, self.local_rank = None, int(value)
            else:
                self.rank = int(value)
            self._seen = True
        elif kind == "local":
            self.local_rank = int(value)
        elif kind == "task":
            self.task = int(value)
        elif kind == "pid":
            self.pid = int(value)
        else:
            self.host = value
            if kind == "ip":
                self.pid = int(found.group("pid"))
        return proof


def differ(one, other):
    # type: (Speaker, Speaker) -> bool
    """Whether two lines cannot be of the same process, as far as their prefixes tell."""
    return any(
        getattr(one, name) is not None
        and getattr(other, name) is not None
        and getattr(one, name) != getattr(other, name)
        for name in ("rank", "local_rank", "task", "pid")
    )


def peel(text, speaker, local_ranks=False):
    # type: (str, Speaker, bool) -> tuple[int, bool]
    """Take the prefixes of `text` in: where the message begins, and whether ranks proved to be local."""
    at, proof, kernel = 0, False, False
    for _ in range(MAX_PREFIXES):
        found = _PREFIX.match(text, at)
        if found is None or found.end() == at or (kernel and found.group("pdsh")):
            break
        kernel = kernel or _KERNEL.match(found.group()) is not None
        proof = speaker.take(found, local_ranks) or proof
        at = found.end()
        if at < len(text) and text[at] == " " and text[at + 1 : at + 2] not in ("", " "):
            at += 1
    return at, proof


def look_inside(text, speaker):
    # type: (str, Speaker) -> None
    """What the message itself says about who speaks: torch's `[Rank 3]`, NCCL's `host:pid:tid [device]`."""
    if speaker.rank is None:
        found = _IN_TEXT.search(text)
        if found:
            speaker.rank = int(found.group(1))
    if "NCCL" in text:
        head = _NCCL.search(text)
        if head:
            speaker.host, speaker.pid = head.group(1), int(head.group(2))


def untagged(text, speaker):
    # type: (str, Speaker) -> str
    """The line without mpirun's tags, which may stand all over it; their rank is taken."""
    if "]<std" not in text:
        return text
    tag = _TAG.search(text)
    if tag:
        speaker.rank = int(tag.group(1))
    return _TAG.sub("", text)


def voices(text):
    # type: (str) -> list[str]
    """The message cut where another rank's prefix stands in its midst: two ranks wrote on one line."""
    if "]:" not in text:
        return [text]
    cuts = [0] + [found.end() for found in _INNER.finditer(text)] + [len(text)]
    return [
        text[a:b]
        for a, b in zip(cuts, cuts[1:])  # noqa: B905 - strict needs Python 3.10
        if b > a
    ]
