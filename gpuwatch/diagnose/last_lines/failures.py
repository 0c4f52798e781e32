"""Decides whether a line without a level of its own states a failure, in words that no rule knows. Pure."""

from __future__ import annotations

import re

from gpuwatch.agent.logs.lines.levels import own_level
from gpuwatch.agent.logs.lines.programs import head_program
from gpuwatch.agent.logs.matching.event_form import is_absent, is_continuing, is_event
from gpuwatch.diagnose.last_lines.polarity import is_live
from gpuwatch.diagnose.last_lines.trouble_words import has_foreign_trouble, has_trouble_words

MAX_LINE_CHARS = 400
"""Longest line that counts as a message (characters); a longer one is data or a command."""
FAILURE_WORDS = re.compile(
    r"(?i)\b(?:failed|fails"
    r"|(?:error|failure|exception)(?=!|$|: ?\S| -?\d| (?:occurred|while|during|in|code) )"
    r"|cannot|can['\N{RIGHT SINGLE QUOTATION MARK}]?t"
    r"|(?:could|did|was|were|is|are|does)(?: not|n't)(?: be)? (?:\w{1,20} ){0,2}?"
    r"(?:responding|reachable|found|written?|read|open(?:ed)?|load(?:ed)?|start(?:ed)?|connect(?:ed)?|available"
    r"|allocate[d]?|initiali[sz]e[d]?|create[d]?|save[d]?|finite|permitted|exist|respond)"
    r"|unable to|abort(?:ed|ing)?|killed|died|dead|crash(?:ed|ing)?|panic(?:ked)?|fatal|lost|vanished"
    r"|unresponsive|unreachable|unhealthy|refused|denied|not permitted|no such (?:file|device|process)"
    r"|corrupt(?:ed|ion)?|diverged|exhausted|unexpected(?:ly)?|hangs?|hung|stuck|disconnected|evicted"
    r"|preempt(?:ed)?|giv(?:ing|en) up|gave up|out of (?:memory|space)|disk (?:is )?full|no space|core dumped"
    r"|already in use|(?:contains?|became|is|are|went) (?:inf|nan)"
    r"|terminat(?:ing|ed) (?:the )?(?:run|job|training|process|worker)"
    r"|died through|requires? (?:a )?(?:reset|reboot)|lower than configured|command not found)\b"
)
"""Matches words with which programs state a failure."""
NONE_OF_IT = re.compile(
    r"(?i)\b(?:no|0|zero|without(?: any)?|any|not|never|non)[ -](?:\w{1,20} ){0,2}$"
    r"|\b(?:if|when|on|for|handle|handles|handling|catch|count|counts?|rate|num|total|max)[ _=:]{1,3}$"
)
"""Matches words before a failure word that deny or count it."""
KERNEL_RECORD = re.compile("kernel: ")
"""Matches the head of a kernel line; what the kernel reports about the job has rules."""
TABLE_ROW = re.compile(
    r"\W{0,2}[|+]|.{0,80}\S {2,}[:|]|.{0,80} {3,}\S|\w[\w ]{0,60}: (?:0|[Nn]o|[Nn]one|N/A)$"
)
"""Matches a row of a table, or a name and its value, as tools print them."""
MIN_WORDS, MAX_WORDS = 3, 16
"""Least and most words of a line that states trouble in a short sentence."""
MACHINE = re.compile(
    r"(?i)\b(?:gpu|device|driver|accelerator|slice|stream|rank|peer|node|host|machine|worker|process|thread|job|run"
    r"|task|step|link|port|nic|hca|switch|route|network|connection|socket|heartbeat|disk|file|handle|mount"
    r"|volume|shard\w*|input/output|manager|record|bucket|quota|permission|inode|container|pod|image|entrypoint|memory|swap|heap|cpu"
    r"|fan|power|temperature|cache|checkpoint|weights?|loss|gradient|norm|optimi[sz]er|matrix|scale|kernel"
    r"|collective|barrier|communicator|loader|queue|dataset|tokeni[sz]er|model|replica|engine|actor|executor"
    r"|raylet|allocation|scheduler|server|store|coordinator|backend|request|requests|token|key|licen[cs]e"
    r"|credential|certificate|retr(?:y|ies)|attempts?|resume"
    r"|qp|queue pair|ring|group|channel|buffer|interface|bus|board|card|lane|cable|raid|database|service"
    r"|daemon|client|endpoint|session|lease|lock|plugin|module|library|pipeline|config\w*|environment|version|shape"
    r"|tensor|layer|parameter|page|ecc|stage|batch|window|[a-z]{2,6}\d{1,3}(?:_\d{1,2})?)e?s?\b"
)
"""Matches names of parts of a machine or job."""
QUIET_HEAD = re.compile(r"\W{0,2}[DIVW](?: |\d{3,4}\b)")
"""Matches the head of a log record that states its level by a letter."""
QUIET_LEVELS = ("debug", "info", "warning")
"""Log levels of lines that end nothing; lines of graver levels are alerts already."""


def states_failure(line: str, *, quiet: bool = False) -> bool:
    """Return True if a line states a failure as an event.

    Args:
        line: The line, without launcher prefixes.
        quiet: Also accept lines whose writer gave them a level that ends nothing.
    """
    if is_foreign(line) or TABLE_ROW.match(line) or is_continuing(line) or (is_quiet(line) and not quiet):
        return False
    return any(
        not NONE_OF_IT.search(line, 0, found.start())
        and not _joins(line, found.start(), found.end())
        and is_event(line, found.start())
        and is_live(line, *found.span())
        and not is_absent(line, found.end())
        for found in FAILURE_WORDS.finditer(line)
    )


def states_machine_trouble(line: str) -> bool:
    """Return True if a short line states trouble of a part of the machine or job: `port 1 is down`."""
    if is_foreign(line) or TABLE_ROW.match(line) or is_continuing(line) or not is_event(line, 0):
        return False
    quiet = own_level(line) in QUIET_LEVELS[:2]
    if quiet or not MIN_WORDS <= len(line.split()) <= MAX_WORDS:
        return has_foreign_trouble(line) and not quiet
    return has_foreign_trouble(line) or (MACHINE.search(line) is not None and has_trouble_words(line))


def is_foreign(line: str) -> bool:
    """Return True if a line is too long for a message, or is the kernel's or a system program's."""
    return (
        len(line) > MAX_LINE_CHARS or head_program(line) is not None or KERNEL_RECORD.match(line) is not None
    )


def is_quiet(line: str) -> bool:
    """Return True if the writer gave the line a level that ends nothing (debug, info, warning)."""
    return own_level(line) in QUIET_LEVELS or QUIET_HEAD.match(line) is not None


def _joins(line: str, start: int, end: int) -> bool:
    """Return True if the word is part of a name, path or call, or quoted.

    Examples: `error_rate`, `max-errors`, `errors=0`, `log.error(`, `"error"`.
    """
    before, after = line[start - 1 : start], line[end : end + 1]
    return before in tuple("-_/.='\"`") or after in tuple("-_/='\"`(")
