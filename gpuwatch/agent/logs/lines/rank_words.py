"""Tables of the words with which log lines name a rank, for `line_ranks`.

A word has a scope. RANK counts the processes of the job; LOCAL counts those of a node; an INDEX (worker 3,
task 3) counts something that may be the ranks, which only the job's other lines can show.
"""

import re
from functools import lru_cache

from ...patterns.quick_checks import has_one, is_ascii

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Match, Pattern

RANK = "rank"
LOCAL = "local"
INDEX = "index"

SCOPES = {
    "rank": RANK,
    "local": LOCAL,
    "worker": INDEX,
    "task": INDEX,
    "process": INDEX,
    "replica": INDEX,
    "trainer": INDEX,
    "pe": INDEX,
    "ordinal": INDEX,
    "letter": INDEX,
    "device": INDEX,
    "bare": INDEX,
    "inner": INDEX,
}
"""Name of a word (a group of `RANK_NAMED`) -> its scope.

`bare` is a number in brackets at the start of a line, `inner` one after a time or level.
"""
WORLD_NEEDED = frozenset(("device", "inner"))
"""Ambiguous words: ranks only if the job announces as many ranks as there are numbers."""

_CALL = r"|(?:[A-Za-z_]{1,20}\.){0,3}(?:get_)?rank\(\)"
_WORDS = (
    r"(?:(?P<local>local[ _-]?rank|local[ _-]?process[ _-]?index)"
    r"|(?P<rank>(?:(?:global|world|mpi|pmi|pmix|dist|torch|hvd|horovod|worker|actor|learner)[ _.-]?)?"
    r"rank(?:[ _-]?id)?" + "%s" + r"|(?<=[\[(<{])global(?=[ :=]{1,2}\d)"
    r"|(?<=\| )global(?=[ :=]{1,2}\d{1,6}[\])>}])"
    r"|rang[oa]?|\u0440\u0430\u043d[\u0433\u043a]|\u30e9\u30f3\u30af|\ub7ad\ud06c|\u79e9)"
    r"|(?P<worker>worker(?:[ _-]?(?:id|index|idx))?)"
    r"|(?P<task>task(?:[ _-]?(?:id|index|idx))?)"
    r"|(?P<process>(?:proc(?:ess)?[ _-]?(?:index|idx))|(?:slurm_)?procid|proc|\u8fdb\u7a0b"
    r"|(?:process(?:[ _-]?id)?|procesos?|processo|prozess|processus"
    r"|\u043f\u0440\u043e\u0446\u0435\u0441\u0441"
    r"|\u30d7\u30ed\u30bb\u30b9|\ud504\ub85c\uc138\uc2a4)(?=[ :=#]{0,3}\d{1,4}(?!\d)))"
    r"|(?P<replica>replica(?:[ _-]?(?:id|index))?)"
    r"|(?P<trainer>trainer(?:[ _-]?(?:id|index))?)"
    r"|(?P<pe>pe)"
    r"|(?P<ordinal>device=(?:tpu|xla)|xla(?=:\d))"
    r"|(?P<device>(?<=[\[(<{])gpu(?=[ :_]?\d))"
    r"|(?P<letter>rk?|(?<=[\[(<{])p(?=\d)))"
)
_END = r"(?![0-9A-Za-z_]|\.\d|-\d)"

_NUMBER = (
    r"(?P<sep>['\"]?\s{0,4}[:=#]\s{0,4}['\"\[]?|[ _-]?|\[)"
    r"(?P<n>\d{1,6})(?:\s?(?:/|(?:out )?of|von|sur|de|di|van|\u0438\u0437|\u4e2d)\s?(?P<world>\d{1,6}))?"
    + _END
)
RANK_NAMED = re.compile(r"(?<![A-Za-z0-9_.-])" + _WORDS % _CALL + _NUMBER, re.IGNORECASE)
"""A numbered word: `rank 3`, `RANK=3`, `[Rank 3/8]`, `local_rank: 3`, `worker-3`, `r3`."""
_NAMED_BY_WORD = re.compile(
    "(?<![A-Za-z0-9_.-])(?=[adghlmprstwx\u0080-\U0010ffff])" + _WORDS % "" + _NUMBER, re.IGNORECASE
)
"""The same for texts without `rank()`, which any name may stand before: it takes a third of the time."""


@lru_cache(maxsize=64)  # each reader of a line asks for them
def named_in(text: str) -> "tuple[Match[str], ...]":
    """Return all matches of `RANK_NAMED` in a text."""
    return tuple(named_pattern(text).finditer(text)) if _may_be_named(text) else ()


def named_pattern(text: str) -> "Pattern[str]":
    """Return a pattern that matches in this text where `RANK_NAMED` does."""
    return RANK_NAMED if "rank()" in text.lower() else _NAMED_BY_WORD


def _may_be_named(text: str) -> bool:
    """Return True if a text may have a word that `RANK_NAMED` matches; False: it has none."""
    if not is_ascii(text):
        return True
    lower = text.lower()
    return has_one(lower, _NAMES) or _SHORT_NAME.search(lower) is not None


_NAMES = (
    "rank", "worker", "task", "proc", "replica", "trainer", "rang", "proz", "xla", "tpu", "global", "gpu",
)  # fmt: skip
_SHORT_NAME = re.compile(r"(?<![a-z0-9_.-])(?:rk?|pe?)['\"\s:=#_\[-]{0,12}\d")


def named_from(text: str, at: int) -> "list[Match[str]]":
    """Return the matches of `RANK_NAMED` in a text from offset `at` on."""
    every = named_in(text)
    if any(found.start() < at < found.end() for found in every):
        return list(RANK_NAMED.finditer(text, at))
    return [found for found in every if found.start() >= at]


class TextBefore(object):
    """A pattern of the text before a numbered word; it is searched only behind one of its last words."""

    def __init__(self, pattern: "Pattern[str]", last: str) -> None:
        """Create it; `last`: the words with which each match ends, but for blanks and signs."""
        self._search = pattern.search
        self._last = tuple(last.split())

    def search(self, text: str) -> "Match[str] | None":
        """Return the match of the pattern at the end of a text, or None."""
        # other letters may be variants of ASCII's in another case
        may_match = not is_ascii(text) or text.rstrip(_SIGNS).lower().endswith(self._last)
        return self._search(text) if may_match else None


_SIGNS = " \t\n\r\x0b\x0c\x1c\x1d\x1e\x1f:=[(_.-"

_KEYS = (
    r"(?:(?P<local>local_?rank)|(?P<rank>global_?rank|world_?rank|rank(?:_?id)?)|(?P<worker>worker(?:_id|_index)?)"
    r"|(?P<task>task(?:_id|_index)?)|(?P<process>process_index|proc_index)|(?P<replica>replica_id)"
    r"|(?P<trainer>trainer_id))"
)
PAIR = re.compile(
    r"(?<![A-Za-z0-9_.-])" + _KEYS + r"=['\"]?(?P<n>\d{1,6})['\"]?(?=[,\s)\]}]|\(\d{1,6}\)|/\d{1,6}(?!\d)|$)",
    re.IGNORECASE,
)
JSON_PAIR = re.compile(
    r"['\"]" + _KEYS + r"['\"]\s{0,2}:\s{0,2}['\"]?(?P<n>\d{1,6})['\"]?(?=\s{0,4}[,}])", re.IGNORECASE
)
"""A field of a logfmt or JSON record, or of a Python dictionary."""

_OTHER_COUNTS = re.compile(
    r"(?:\b(?:tp|pp|dp|cp|ep|sp|mp|node|group|parallel|pipeline|tensor|data|expert|model|stage|lora|low|full|matrix"
    r"|array|adapter|loader|loader worker|thread|shard|expected|got|has|input|output|target|page"
    r"|search|dataloader)[ _.-]{0,2})$",
    re.IGNORECASE,
)
OTHER_COUNTS = TextBefore(
    _OTHER_COUNTS,
    "tp pp dp cp ep sp mp node group parallel pipeline tensor data expert model stage lora low full matrix"
    " array adapter loader worker thread shard expected got has input output target page search dataloader",
)
"""Text before a word whose number counts something else: `tp rank 3`, `LoRA rank 8`."""
NOT_OF_A_JOB = re.compile(
    r"\s?-?(?:tensors?|matri(?:x|ces)|arrays?|adapters?|approx\w*|dimension\w*)\b", re.IGNORECASE
)

_PEER = re.compile(
    r"(?:\b(?:from|to|with|for|peer|remote|neighbou?r|between|dst|src|source|target|root|towards?|via"
    r"|wait(?:s|ed|ing)? (?:on|for|until)|blocked (?:on|by)|closed by|refused by|reset by|depends? on)"
    r"[\s:=]{1,3}(?:global |the |process |peer |worker )?[\[(]?)$",
    re.IGNORECASE,
)
PEER = TextBefore(
    _PEER,
    "from to with for peer remote neighbor neighbour between dst src source target root toward towards via on"
    " until by global the process worker",
)
"""Text before another rank's number: `waits for rank 5`, `recv from rank 2`."""

_FROM = re.compile(
    r"\b(?:error|exception|failure|traceback|abort|signal)s?\s(?:was |raised |received |reported )?from "
    r"(?:the |global |process |worker )?[\[(]?$"
    r"|\b(?:exited|killed|crashed|died|failed|aborted): $"
    r"|\b(?:due to|because of) (?:the |global |process |worker ){0,2}$",
    re.IGNORECASE,
)
FROM = TextBefore(
    _FROM,
    "from the global process worker exited killed crashed died failed aborted to of",
)
"""Text before the rank that an error came from."""

ENDED = re.compile(
    r"(?:\s?(?:\u51fa\u9519|\u5d29\u6e83|\u9000\u51fa|\u88ab\u6740|\u5931\u8d25|\u5f02\u5e38|\u6302\u6389)"
    r"|(?: ?\([^()]{0,80}\))?(?:,? (?:on|at) (?:host |node )?[\w.-]{1,80})?,?:? (?:\w{1,12} ){0,2}?"
    r"(?:(?:has |was |is |had )?(?:died|errored|dead|exit(?:ed|s|ing)?|fail(?:ed|s|ure)|crash(?:ed|es)"
    r"|abort(?:ed|s|ing)?|killed|terminated|lost"
    r"|gone|missing|unresponsive|hung|stuck|stopped|evicted|unhealthy)"
    r"|says|reports|raised|threw|hit an?|caught|bailed|gave up"
    r"|ran out|runs? out|out of memory|cannot|could not|unable"
    r"|received signal|got signal|segfault\w*|encountered|with PID|in (?:job|comm)\b|heartbeat timeout"
    r"|not responding|did not|PID \d{1,10} RUNNING AT"
    r"|fall(?:\u00f3|ito)|muri\u00f3|abort\u00f3|a \u00e9chou\u00e9"
    r"|plant\u00e9e?|abgest\u00fcrzt|fehlgeschlagen"
    r"|\u0443\u043f\u0430\u043b|\u0437\u0430\u0432\u0435\u0440\u0448\w{1,8})\b)",
    re.IGNORECASE,
)
"""Text after a rank that has failed; `rank 2 waits` does not match."""

_AT = re.compile(
    r"(?:\b(?:on|in|at|process|raised by|caused by|reported by|thrown by|invoked on)"
    r"\s(?:the |global |MPI |process |world |distributed )?[\[(]?)$",
    re.IGNORECASE,
)
AT = TextBefore(
    _AT,
    "on in at process by the global mpi world distributed",
)
"""Text before the rank where something happened: `CUDA error on rank 3`, `process rank 2`."""

TASK_PATH = re.compile(
    r"/job:(?!tpu_)(?:[a-z]{1,12}_)?(?:worker|localservice)/replica:\d{1,4}/task:(?P<n>\d{1,6})\b"
)
"""A process in TensorFlow's and JAX's notation; the number is its process index.

`tpu_worker` is the server of a host, which runs the work of several processes.
"""
MPI_NAME = re.compile(r"Process name: \[(?:\[\d{1,9},\d{1,4}\]|[\w.-]{1,120}@\d{1,4}),(?P<n>\d{1,6})\]")
SRUN_TASK = re.compile(r"\bsrun: error: [\w.-]{1,120}: task (?P<n>\d{1,6}): ")
SUFFIX = re.compile(r"(?:[,;@|]|\s[-\u2013])\s{0,2}(?:on |for )?$")
"""Text before the writer's rank at the end of a line: `..., rank 3`, `... @ rank 3`."""
OTHERS = re.compile(r"\b(?:ranks|peer|remote)\b", re.IGNORECASE)
"""Words of lines in which the last rank may be another rank than the writer."""
LAST_IN_LINE = re.compile(r"[\s\]),.;]{0,3}(?:$|[, ]{1,2}[A-Za-z_]{1,20}=)")
"""Text that may follow a rank at the end of a line."""
BARE = re.compile(r"\[(?P<n>\d{1,4})(?: ?/ ?(?P<world>\d{1,5}))?\](?=:? )(?! ?NCCL)")
