"""Joins the words in a kernel message that a user has chosen, so that no rule takes them for the kernel's.

The kernel quotes names of processes, files and control groups, and options of mounts: `a.out[7]: segfault at
0 ip 0 sp 0 error 4 in NAME[400000+1000]`, `cgroup: fork rejected by pids controller in /user.slice/NAME`.
What the kernel states itself, such as `NVRM: Xid (...)`, has blanks.
"""

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Match

_BETWEEN_WORDS = re.compile(r"[\s()'\"`]")
CALLER = r"\s*(?:\[ *[TC]\d+\]\s*)?"
"""Thread or processor, which the kernel writes before its messages if it is built so."""
_CALLER = re.compile(CALLER)
_CHOSEN = [
    re.compile(pattern)
    for pattern in (
        r"^(?:traps: )?(.{1,16})\[\d+\]",  # NAME[pid]: a signal
        r"^(?:traps: )?.{1,16}\[\d+\]:? (?:segfault|trap|general|unhandled|bad|potentially) .*? in (.*)",
        r"^(.{1,16}?) ?\(\d{1,10}\)[: ]",  # NAME (pid): a use that is not supported
        r"^[\w.-]{1,30}: (.{1,16}?) ?\(\d{1,10}\)[: ]",
        r"^(.{1,16})/\d{1,10}[: ]",
        r"^(.{1,16}): (?:page allocation|vmalloc|vmap|alloc_pages|[Cc]orrupted page|order:\d)",
        r"^(.{1,16}) (?:uses|used|is using|triggered|forks|tried) ",
        r"^[\w.-]{1,30}: (.{1,16}) (?:tries|tried|uses|attempted) ",
        r"\b[Pp]id:? \d{1,10}\((.{1,64})\)",
        r"\bUID \d{1,10}, \((.{1,64})\) ",
        r"#(?:AC|DB): (.{1,16})/\d{1,10} ",
        r"\bprocess (.{1,16}?) {1,2}(?:pfn|pte|\(pid):",
        r"\bprogram (.{1,16}?) (?:is|uses|tried) ",
        r"^task:(.{1,16}?) +state:",
        r"PAT: (.{1,16}):\d{1,10} ",
        r"^(.{1,16}) invoked oom-killer",
        r"^oom-kill:.*?cpuset=(.*)",
        r"^Memory cgroup stats for (.*)",
        r"^Tasks in (.*) killed as a result",
        r" as a result of limit of (.*)",
        r"^cgroup: .*? in (/.*)",
        r"^\[ *\d+\](?: +-?\d{1,20}){4,12} +(.*)",  # the table of tasks
        r"\bComm: (.{1,16}?) (?:Tainted|Not tainted|Kdump)",
        r"\bcomm (.{1,16}?): ",
        r"\bprocess \d+ \((.{1,64})\)",
        r"\btask (.{1,64}):\d+ (?:is )?blocked",
        r"\bname=(.{1,16}?)(?:, [Cc]h|$)",  # ", Ch 00000010", since driver 550 ", channel 0x00000010"
        r"\bname=(?!.{1,16}?(?:, [Cc]h|$))(.*)",
        r"\[(.{1,64}):\d+\]$",
        r"(?:^|(?<=[\s=(]))['\"`](.*)['\"`]",
    )
]
"""Patterns of texts that a user chose; the one group of each is that text."""


def without_user_words(message: str) -> str:
    """Return a kernel message in which `_` replaces blanks in names that users choose; its length stays.

    Only messages of NVIDIA's driver have several lines: in others a user chose the text after a line feed.
    """
    begin = _CALLER.match(message).end()  # type: ignore[union-attr]  # the pattern matches every message
    own, feed, below = message[begin:].partition("\n")
    if not own.startswith("NVRM:"):
        below = _BETWEEN_WORDS.sub("_", below)
    for pattern in _CHOSEN:
        own = pattern.sub(_joined, own)
    return message[:begin] + own + feed + below


def _joined(found: "Match[str]") -> str:
    whole, begin = found.group(), found.start(1) - found.start()
    end = begin + len(found.group(1))
    return whole[:begin] + _BETWEEN_WORDS.sub("_", found.group(1)) + whole[end:]
