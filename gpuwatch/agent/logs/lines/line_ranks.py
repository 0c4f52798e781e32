"""Reads from one line which rank writes it and which ranks it is about.

The writer is in the line's head: before the message, among timestamps, levels and logger names, or in a field
of a structured record. A sentence names a failed rank only in the phrases of the table (`rank 3 died`, `on
rank 3`); any other rank in it is not the failed one. Linear in the (limited) length of a line.

Example: `[rank5]: recv from rank 2 failed` gives rank 5 (the writer, from its head); `launcher: rank 2 died`
gives rank 2 with `phrase` set; `loss of rank 2: 3.1` gives none.
"""

import re

from .levels import FOREIGN_LEVELS, GRAVE, own_level
from .rank_words import (
    AT,
    BARE,
    ENDED,
    FROM,
    INDEX,
    JSON_PAIR,
    LAST_IN_LINE,
    LOCAL,
    MPI_NAME,
    NOT_OF_A_JOB,
    OTHER_COUNTS,
    OTHERS,
    PAIR,
    PEER,
    RANK,
    RANK_NAMED,
    SCOPES,
    SRUN_TASK,
    SUFFIX,
    TASK_PATH,
    named_from,
    named_in,
    named_pattern,
)

RANK_CHARS = 2000
"""Characters of a line that are read."""
MAX_TOKENS = 14
MAX_MENTIONS = 12
"""Most numbered words examined in a sentence."""
_CHARS_BEFORE = 40

_TOKEN = re.compile(
    r"[\s|>:,;*#\]-]{1,12}"
    r"|\d{1,4}[-/.:]\d{1,2}[-/.:]\d{1,4}(?:[T -]\d{1,2}:\d\d(?::\d\d)?)?(?:[.,]\d{1,9})?"
    r"(?:Z|[+-]\d\d:?\d\d)?(?=[\s\],|:-]|$)"
    r"|\d\d-\d\d \d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?=\s)"
    r"|(?:DEBUG|INFO|NOTICE|WARN(?:ING)?|ERROR|ERR|CRITICAL|FATAL|TRACE)\b"
    r"|(?:" + "|".join(FOREIGN_LEVELS) + r")(?=[\s:|\]])"
    r"|[IWEF](?:20\d\d)?\d{4}(?=\s)"
    r"|[A-Z][a-z]{2} [ \d]\d (?=\d\d:)"
    r"|\d{1,18}(?=[\s\]])|(?=[a-f]{0,8}\d)[0-9a-f]{7,64}(?=[\s|:])"
    r"|[\w./-]{1,60}:\d{1,6}(?=[\s\]:|])"
    r"|[A-Za-z_][\w./-]{0,60}(?=\s{0,8}(?:-|\|)\s)"
    r"|[A-Za-z_][\w.]{0,40}:(?=[A-Za-z\[(])"
    r"|[A-Za-z]{4,14} distributed: |[A-Z]{2,20}\(\d{1,10},[\w.,-]{1,60}\):"
    r"|(?:\[|\u250c) (?:Debug|Info|Warning|Error): "
    r"|(?:srun|mpirun|mpiexec|slurmstepd|prterun|kernel)(?=: )",
    re.IGNORECASE,
)
_GROUP = re.compile(r"[\[(<{](?P<in>[^\[\](){}<>]{0,90})[\])>}]")
_OPENS = ("[", "(", "<", "{")
_CLOSED = re.compile(r"\s?[\])>|:,]|\s{1,4}[-|>]|\s{0,2}$")
_STAMPED = re.compile(
    r" {1,4}(?:\d{4}-\d\d-\d\d|\d\d:\d\d:\d\d|[IWEF](?:20\d\d)?\d{4} "
    r"|(?:DEBUG|INFO|WARN(?:ING)?|ERROR|CRITICAL|FATAL)\b)"
)
"""A time or level after a numbered word, which makes that a tag: `r40 2026-05-20 07:02:03`."""
_PAIRS = re.compile(r"(?:^|\s)[A-Za-z_][\w.]{0,40}=(?:\"|[^\s=])")
_OBJECT = re.compile(r"\{['\"]")
_NUMBER = re.compile(r"\[(?P<n>\d{1,4})(?: ?/ ?(?P<world>\d{1,5}))?\]:?(?= \S)(?! (?:\S{1,80} )?NCCL)")
_ENGINE = re.compile(r"(?:^|[ _])TP(\d{1,4})(?: EP\d{1,4})?$")
"""The tag of a tensor-parallel rank at the end of a bracket, as SGLang and vLLM write it."""
_PATH = re.compile(r"^[/\\]|[/\\].?$|\.\w$")
"""Surroundings of a name within a path: `/ckpt/rank3.pt`."""
_QUOTED = re.compile(r"(['\"]).{1,80}\1")
"""A word and its quotes: an argument of a command (`'--style', 'rank0'`), or a name."""
_WORD = re.compile(
    r"ran[kg]|worker|task|proc|replica|trainer|\u8fdb\u7a0b|\bpe[ :=#_-]?\d|device=|\brk?[_:=#-]?\d"
    r"|\[\d{1,4}(?: ?/ ?\d{1,5})?\]|xla:\d|\[gpu|\btp\d|[\[(]p\d|prozess|(?:[\[(]|\| )global"
    r"|\u043f\u0440\u043e\u0446|\u30d7\u30ed\u30bb\u30b9|\ud504\ub85c\uc138\uc2a4"
    r"|\u0440\u0430\u043d[\u0433\u043a]|\u30e9\u30f3\u30af|\ub7ad\ud06c|\u79e9",
    re.IGNORECASE,
)


class LineRanks(object):
    """The numbers of ranks in a line, one per scope; None for each that the line does not name."""

    __slots__ = ("index", "local_rank", "mentioned", "phrase", "rank", "word", "world")

    def __init__(self) -> None:
        self.rank: int | None = None
        self.local_rank: int | None = None
        self.index: int | None = None
        """A number after the word `word` that may count the ranks."""
        self.word: str | None = None
        self.phrase = False
        """True if a sentence states that `rank` or `index` has failed."""
        self.mentioned = False
        """True if `rank` is only mentioned in the message of an error."""
        self.world: int | None = None

    def take(self, word: str, number: int, world: "str | None" = None) -> None:
        """Set the number of the word's scope, unless it is set.

        `world` (a number of ranks) is set too if `number` is below it.
        """
        scope = SCOPES[word]
        if scope == RANK and self.rank is None:
            self.rank = number
        elif scope == LOCAL and self.local_rank is None:
            self.local_rank = number
        elif scope == INDEX and self.index is None:
            self.index, self.word = number, word
        if world is not None and scope != LOCAL and number < int(world):
            self.world = int(world)

    @property
    def empty(self) -> bool:
        """Return True if the line names no process."""
        return self.rank is None and self.local_rank is None and self.index is None


def may_name_process(text: str) -> bool:
    """Return False if `line_ranks` reads no process in a text, whatever its digits are."""
    text = text[:RANK_CHARS]
    return BARE.match(text.lstrip()) is not None or _WORD.search(text) is not None


def line_ranks(text: str) -> "LineRanks":
    """Return the ranks that a line names.

    A phrase that names a failed rank takes precedence over the head's writer.
    """
    text = text[:RANK_CHARS]
    head = LineRanks()
    bare = BARE.match(text.lstrip())
    if bare is None and _WORD.search(text) is None:
        return head
    at = 0
    if _is_record(text):
        head = record_ranks(text)
        if head.rank is None and not head.empty and text.lstrip()[:1] in _OPENS[:2]:
            tag = LineRanks()
            at = _read_head(text, tag)  # [rank9] local_rank=1 device=1
            head.rank = tag.rank
    if head.empty and text.lstrip()[:1] != "{":
        at = _read_head(text, head)
        if head.empty:
            _read_subject(text, at, head)
        if head.empty:
            _read_suffix(text, at, head)
        if head.empty and bare is not None and "NCCL" not in text:
            head.take("bare", int(bare.group("n")), bare.group("world"))
    failed = _read_sentence(text, at, head.empty)
    may_mention = head.empty and failed.empty and any(found.group("rank") for found in named_in(text))
    if may_mention and own_level(text) in GRAVE:
        _read_mention(text, at, head)
    return head if failed.empty else failed


def record_ranks(text: str) -> "LineRanks":
    """Return the first rank, local rank and index in the fields of a record: JSON, or several `key=value`."""
    reading = LineRanks()
    text = text[:RANK_CHARS]
    pattern = JSON_PAIR if _OBJECT.search(text) is not None else PAIR
    for found in pattern.finditer(text):
        reading.take(_word(found), int(found.group("n")))
    return reading


def _is_record(text: str) -> bool:
    return text.lstrip()[:1] == "{" or sum(1 for _ in _PAIRS.finditer(text)) > 1


def _read_head(text: str, reading: "LineRanks") -> int:
    """Read ranks from a line's head, before the message, into `reading`; return the offset of its end."""
    at = 0
    named_at = named_pattern(text).match if named_in(text) else None
    for _ in range(MAX_TOKENS):
        named = None if named_at is None else named_at(text, at)
        if named is not None and _closes(named, text):
            _take(named, text, reading)
            at = named.end()
            continue
        group = _GROUP.match(text, at)
        if group is not None:
            named = None if named_at is None else RANK_NAMED.search(group.group())
            engine = _ENGINE.search(group.group("in"))
            number = _NUMBER.match(text, at) if at else None
            if named is not None:
                _take(named, group.group(), reading)
            elif engine is not None:
                reading.take("task", int(engine.group(1)))
            elif number is not None:
                reading.take("inner", int(number.group("n")), number.group("world"))
            at = group.end()
            continue
        nested = named_at(text, at + 1) if named_at is not None and text[at : at + 1] in _OPENS else None
        if nested is not None:
            _take(nested, text, reading)
            break
        token = _TOKEN.match(text, at)
        if token is None:
            break
        at = token.end()
    return at


def _read_subject(text: str, at: int, reading: "LineRanks") -> None:
    """Read the only rank at the start of a message into `reading`: `rank 0 sub-batch 3 loss 5.1`."""
    named = named_pattern(text).match(text, at) if named_in(text) else None
    if named is None or named.group("rank") is None or text[named.end() : named.end() + 1] != " ":
        return
    others = named_from(text, named.end())[:MAX_MENTIONS]
    if not any(other.group("rank") and not _counts_other(other, text) for other in others):
        _take(named, text, reading)


def _read_suffix(text: str, at: int, reading: "LineRanks") -> None:
    """Read the only rank at the end of a line into `reading`: `out of memory, rank 3`."""
    ranks = [found for found in named_from(text, at)[:MAX_MENTIONS] if found.group("rank")]
    if len(ranks) != 1:
        return
    before = text[max(0, ranks[0].start() - _CHARS_BEFORE) : ranks[0].start()]
    ends = SUFFIX.search(before) is not None and LAST_IN_LINE.match(text, ranks[0].end()) is not None
    if ends and PEER.search(before) is None and OTHERS.search(text) is None:
        _take(ranks[0], text, reading)


def _closes(named: "re.Match[str]", text: str) -> bool:
    """Return True if a numbered word (`rank 3`) stands alone, as in a head, and starts no sentence."""
    if _CLOSED.match(text, named.end()) is not None:
        return True
    if named.group("world") is not None and text[named.end() : named.end() + 1] == " ":
        return True  # `R12/16 ERROR`: a number out of all
    if named.start() == 0 and _STAMPED.match(text, named.end()) is not None:
        return True
    return named.group("sep").strip() != "" and text[named.end() : named.end() + 1] == " "


def _take(named: "re.Match[str]", text: str, reading: "LineRanks") -> None:
    if not _counts_other(named, text):
        reading.take(_word(named), int(named.group("n")), named.group("world"))


def _read_sentence(text: str, at: int, anonymous: bool) -> "LineRanks":
    """Return the rank that a sentence reports as failed; an empty result for none or several.

    `anonymous`: the head names no rank, so the place of an error (`on rank 3`) counts too.
    """
    failed: dict[tuple[str, int], str | None] = {}
    for found in named_from(text, at)[:MAX_MENTIONS]:
        word = _word(found)
        if (
            word not in ("letter", "pe")
            and not _counts_other(found, text)
            and _failed(found, text, anonymous)
        ):
            failed.setdefault((word, int(found.group("n"))), found.group("world"))
    for pattern, word in ((TASK_PATH, "rank"), (MPI_NAME, "rank"), (SRUN_TASK, "task")):
        named = pattern.search(text)
        if named is not None:
            failed.setdefault((word, int(named.group("n"))), None)
    ranks = [each for each in failed if SCOPES[each[0]] == RANK]
    chosen = ranks or [each for each in failed if SCOPES[each[0]] == INDEX]
    reading = LineRanks()
    if len({number for _, number in chosen}) == 1:
        reading.take(chosen[0][0], chosen[0][1], failed[chosen[0]])
        reading.phrase = True
    return reading


def _read_mention(text: str, at: int, reading: "LineRanks") -> None:
    """Read the only rank in an error, unless it is a peer, into `reading`.

    Example: `Check failed: 2 vs. 0, rank 5 device 5: no room`. A known writer takes precedence. A line about
    ranks of adapters or matrices names none.
    """
    if any(NOT_OF_A_JOB.match(text, found.end()) for found in named_from(text, at)[:MAX_MENTIONS]):
        return
    ranks = {
        int(found.group("n"))
        for found in named_from(text, at)[:MAX_MENTIONS]
        if _word(found) == "rank"
        and not _counts_other(found, text)
        and PEER.search(text[max(0, found.start() - _CHARS_BEFORE) : found.start()]) is None
        and not text[: found.start()].endswith(" of ")
        and not _PATH.search(text[max(0, found.start() - 1) : found.end() + 2])
        and not _QUOTED.fullmatch(text[max(0, found.start() - 1) : found.end() + 1])
    }
    if len(ranks) == 1:
        reading.take("rank", ranks.pop())
        reading.mentioned = True


def _failed(found: "re.Match[str]", text: str, anonymous: bool) -> bool:
    """Return True if a sentence states that the rank in `found` has failed, or that something on it has."""
    before = text[max(0, found.start() - _CHARS_BEFORE) : found.start()]
    if FROM.search(before) is not None:
        return True
    if PEER.search(before) is not None:
        return False
    if ENDED.match(text, found.end()) is not None:
        return True
    return anonymous and (
        AT.search(before) is not None or (before[-1:] in ("[", "(") and _shuts(found, text))
    )


def _shuts(found: "re.Match[str]", text: str) -> bool:
    """Return True if the bracket before a numbered word closes soon after it: `[rank 3/8 on n1]`."""
    return re.match(r"[^\[\](){}<>]{0,60}[\])]", text[found.end() : found.end() + 62]) is not None


def _word(found: "re.Match[str]") -> str:
    return next(name for name, value in found.groupdict().items() if value is not None and name in SCOPES)


def _counts_other(found: "re.Match[str]", text: str) -> bool:
    """Return True if the number in `found` counts no processes of the job: `tp rank 3`, `rank 4 tensor`."""
    before = text[max(0, found.start() - _CHARS_BEFORE) : found.start()]
    return OTHER_COUNTS.search(before) is not None or NOT_OF_A_JOB.match(text, found.end()) is not None
