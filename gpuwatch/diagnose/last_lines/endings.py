"""Decides whether a line below the last training step states a good end, or is ordinary there. Pure.

Example: `job done, 30 of 30 steps` and `pod llm-2 ended with 0` state a good end; `all-reduce did not finish,
leaving with 74` contains the same words, denied and with a failure code, and states none.
"""

from __future__ import annotations

import re

from gpuwatch.agent.patterns.module_pattern import pattern_of
from gpuwatch.diagnose.last_lines.trouble_words import has_trouble_words

GOOD_END = pattern_of(
    r"(?i)\b(?:done|finish(?:ed|ing)?|complet(?:e|ed|ion)|success(?:ful(?:ly)?)?|succe(?:ss|eded|eds)|passed"
    r"|normally|converged|reached|achieved|all [\w ]{1,40}\bok|ok|bye|goodbye|farewell|the end"
    r"|end of (?:\w{1,20} ){0,2}\w+"
    r"|ended(?= (?:normally|well|regularly|at |after |on |with 0))|ende?|fertig|terminado|termin[eé]e?"
    r"|exit(?:ed|ing|s)?|quit(?:ting)?|leaving|return(?:ed|ing)? (?:with )?0)\b"
    r"|\b(?:exit|return)? ?(?:code|status|rc)[ =:]{1,3}0\b|\bexit 0\b"
    r"|\N{WHITE HEAVY CHECK MARK}|\N{CHECK MARK}|\N{HEAVY CHECK MARK}"
    r"|完成|完了|終了|结束|成功|완료|종료|завершен|готово|закончен"
)
"""Matches words with which programs state that they completed."""
WORK = pattern_of(
    r"(?i)(?:\b|_)(?:run|job|training|train(?:er)?|loop|steps?|iter\w{0,6}|epochs?|updates?|rounds?|workers?|ranks?"
    r"|process(?:es)?|script|program|experiment|benchmark|tr(?:y|ies)|attempts?|trials?|fit|everything|all|batches)\b"
)
"""Matches what has ended, in a line that states the end of the job."""
PUT_AWAY = pattern_of(
    r"(?i)\b(?:saved?|saving|wr(?:ote|ites?)|written|writing|stor(?:ed|ing)|upload(?:ed|ing)?|export(?:ed|ing)?"
    r"|push(?:ed|ing)?|sync(?:ed|ing|hroni[sz]ed)?|flush(?:ed|ing)?|dump(?:ed|ing)?"
    r"|log(?:s|ged)? (?:saved|at|in)"
    r"|commit(?:ted|ting)?|copied|copying|archiv(?:ed|ing)|clos(?:ed|ing)|releas(?:ed|ing)|free(?:d|ing)"
    r"|clean(?:ed|ing)?[ -]?up|teardown|tearing down loggers|shut(?:ting)? ?down|shutdown|destroy\w*"
    r"|stopp(?:ed|ing)|deregister\w*|merg(?:ed|ing)|best|final|view run|see you|thank)\b"
)
"""Matches words about what a program does once its work is over."""
REPORT = pattern_of(
    r"(?i)\b(?:total|elapsed|took|run ?time|wall|duration|spent|mean|avg|average|median|p\d\d|summary|report"
    r"|results?|scores?|acc(?:uracy)?|eval\w*|valid\w*|val|test|metrics?|perplexity|ppl|bleu|rouge|f1|auc"
    r"|loss|throughput|tok(?:ens)?/s|samples|peak|memory|utilization|seconds|minutes|hours)\b"
)
"""Matches words of a closing report."""
DENIED = pattern_of(r"(?i)\b(?:never|no|without|neither|nor|nobody|nothing|none|too|limit|half|only|reset)\b")
"""Matches words that deny an end, and are no sign of trouble by themselves."""
INTENDED = pattern_of(
    r"(?i)\b(?:early[ -]?stop\w*|no improvement|patience|KeyboardInterrupt|ctrl[- ]?c|sig(?:int|term|usr1)"
    r"|cancel\w*|time[ -]?limit|wall ?time|requeu\w*|by (?:the )?(?:user|operator|owner|admin)"
    r"|on request|as requested)\b|\^C"
)
"""Matches wording for an end that a person wanted, or that was planned."""
FORCED = pattern_of(r"(?i)\b(?:due to|because of|after)\b.{0,40}\b(?:fail\w*|errors?|lost|crash\w*|down)\b")
"""Matches the reason that forced a cancellation."""
PART = pattern_of(
    r"(?i)\b(?:ok|bye|goodbye|farewell|leaving|HTTP|GET|POST|NCCL|batch|epoch|warm-?up|eval\w*|validation"
    r"|upload|checkpoint|ckpt|snapshot|shard|all[-_ ]?reduce|all[-_ ]?gather|all[-_ ]?to[-_ ]?all|gather"
    r"|reduce[-_ ]?scatter|scatter|broadcast|barrier|collectives?|forward|backward|communicat\w*|connect\w*"
    r"|rendezvous|init\w*|set ?up|start\w*|load\w*|download\w*|compil\w*|tokeni[sz]\w*"
    r"|prepar\w*|build\w*|cach\w*)\b"
)
"""Matches things that end in the course of a job, and words that state no end of its work."""
SHORT_WORDS = 3
"""Most words of a line that states an end and nothing else: `INFO done`."""
NUMBER = pattern_of(r"[-+]?\d[\d,_.]*(?:e[-+]?\d+)?%?", re.IGNORECASE)
WORD = pattern_of(r"[^\W\d_]{2,}")
VALUE = pattern_of(r"(?i)[\w./@-]{1,40}['\"]?(?:\s?=\s?|\s?:\s)['\"]?[-+]?\d")
"""A name and its value."""
RULE = pattern_of(r"\W*$|[-=*#~_ ]{3}.{0,60}[-=*#~_ ]{3}$|.{0,80}[$#>%]$")
"""Matches a line of punctuation, a heading between such lines, or a shell's prompt."""
TABLE = pattern_of(r"\W{0,2}[|+\u2502\u251c\u2514\u2500]|.{0,80}\S {2,}[:|]|.{0,80} {3,}\S")
"""A row of a table."""


def is_intended(line: str) -> bool:
    """Return True if a line states an end that a person asked for, or that was planned."""
    return INTENDED.search(line) is not None and FORCED.search(line) is None


def states_good_end(line: str) -> bool:
    """Return True if a line has words of a good end (`done`, `exited`), not denied, and states no trouble."""
    return bool(GOOD_END.search(line) and not DENIED.search(line) and not has_trouble_words(line))


def states_job_end(line: str) -> bool:
    """Return True if a line states a good end of the whole work: `job done`, `success after 2 tries`."""
    short = len(WORD.findall(line)) <= SHORT_WORDS
    return (short or WORK.search(line) is not None) and states_good_end(line) and not PART.search(line)


def is_ordinary(line: str) -> bool:
    """Return True if a line is what programs print once their work is over: saves, reports, clean-up."""
    if RULE.match(line) or TABLE.match(line) or not WORD.search(line):
        return True
    if has_trouble_words(line):
        return False
    return bool(PUT_AWAY.search(line) or REPORT.search(line) or len(VALUE.findall(line)) > 1)


def form(line: str) -> str:
    """Return the line with `#` in place of its numbers."""
    return NUMBER.sub("#", line)
