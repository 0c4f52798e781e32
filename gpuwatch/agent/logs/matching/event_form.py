"""Decides whether words of a rule report an event, or are advice, data, a name or test output.

A list of possible causes, a prompt, a setting or the name of a test may contain every word of an error. They
are recognised by their form, for all rules alike.

Example: `  - NCCL timeout` three lines below `Possible causes:` is advice; `test_nccl_timeout PASSED` is test
output; `slow step detected: False` is a flag that denies its words.
"""

from functools import lru_cache

from ...patterns.module_pattern import pattern_of
from ..lines.levels import has_stamp, own_level
from ..lines.splitter import line_text
from .text_form import IGNORED, MAX_NEAR, is_ignored, is_in_text, is_of_python, is_tagged, is_text, is_turn

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .chunk import Chunk

MAX_LIST = 12
"""Most lines between a heading and an entry of its list."""
MAX_SAMPLE = 40
"""Most lines between the heading of a model-text sample and its last line."""
MAX_BEFORE = 1000
"""Characters before a match that are examined."""

_SENTENCE = pattern_of(r"(?<!e\.g)(?<!i\.e)(?<!etc)[.!?;](?:\s(?!\(\d\) )|$)|\)\s?[.:]\s")
_ADVICE = pattern_of(
    r"(?i)\b(?:"
    r"(?:may|might|could|can) (?:also |then |sometimes |often )?(?:be|have been|mean|indicate|happen"
    r"|occur|cause|lead"
    r"|result|fail|run|hit|trigger)\b"
    r"|(?:possible|common|likely|usual|typical|potential|known|frequent|probable)"
    r" (?:(?:root )?causes?|reasons?"
    r"|issues?|errors?"
    r"|explanations?|problems?)\b"
    r"|(?:such as|for example|for instance|including|in case of|in the event of)\b"
    r"|if (?:you|it|this|the|there|a|an|your|any|we|training|memory)\b"
    r"|whenever\b|when you\b|(?:TODO|FIXME)\b"
    r"|(?:to|will|can|should|helps?|help to|in order to) (?:avoid|prevent|reduce|mitigate|fix|handle"
    r"|debug|resolve"
    r"|troubleshoot|recover from|work around|protect against)\b"
    r"|(?:avoids|prevents|avoiding|preventing|how to (?:fix|solve|avoid|debug))\b"
    r"|expect(?:ed|ing|s)? (?:failures?|errors?|exceptions?|to (?:fail|raise|throw))\b|(?:simulat"
    r"|inject)(?:ed|ing)\b"
    r"|(?:ignor(?:e|es|ing)|catch(?:es|ing)?|watch(?:es|ing)? for|retry(?:ing)? on) (?:these |the )?"
    r"(?:errors?|exceptions?|failures?|patterns?)\b"
    r"|(?:prints|emits|matches|greps? for|searches for|looks for) [\"'`][^\"'`]{0,60}$"
    r"|(?:no|without|zero|instead of) (?:\w{1,20} )?$|(?<=[,;(] )0 $"
    r"|(?:will|would|regist(?:er|ers|ered|ering)|attach(?:es|ed|ing)?|install(?:s|ed|ing)?|enabl(?:es?|ed|ing)"
    r"|arm(?:ed|s)|configured|\w{0,20}(?:observer|hook|handler|callback|detector|listener|watcher|dumper)(?!\.))\b"
    r".{0,120}\b(?:on|upon|for|when|against) (?:an? |any |the |every |each |first )?$)"
    r"|\be\.g\.|\bi\.e\. if\b"
)
_ADVICE_HEADING = pattern_of(
    r"(?i)\b(?:(?:possible|common|likely|usual|typical|potential|known|frequent|probable)"
    r" (?:(?:root )?causes?"
    r"|reasons?|issues?"
    r"|errors?|fixes|solutions?|problems?|explanations?|limitations?)"
    r"|(?:may|might|could|can) (?:also )?(?:be|have been|happen|occur)\b.{0,60}"
    r"|troubleshooting|recommendations?|suggestions?|hints?|tips|faq|things to (?:try|check)"
    r"|what to (?:try|check)"
    r"|next steps|if you (?:see|get|hit|encounter|run into)\b.{0,80}|please (?:check|try|make sure)\b.{0,60})"
    r"[^:]{0,60}:?\s*$"
)
_ENTRY = pattern_of(r"\s{0,12}(?:[-*\u2022\u00b7+]|\d{1,2}[.)]|\([a-z\d]{1,2}\))\s|\s{2,}\S")

_QUOTED_ENTRY = pattern_of(r"\s{0,40}- [\"']")
_SETTING_HEADING = pattern_of(
    r"(?i)\s{0,40}[\w.-]{0,40}(?:retr|ignor|fatal|transient|allow|known|expect|recover|skip|filter|pattern|"
    r"catch|watch)[\w.-]{0,40}:\s{0,4}$"
)
"""The name of a setting above its list of texts in YAML."""

_RUNNER = pattern_of(
    r"^\s{2,12}\w{1,80}_test\.go:\d{1,6}: "
    r"|\b[Ee]xpected (?:failure|error|exception|crash)s? (?:was )?(?:seen|caught|raised|observed|received)\b"
    r"|^\s{1,10}(?:-\w, )?--[a-z][\w-]{1,60}.{0,60}\s{2,}\S"
    r"|^\s{0,10}[\u2713\u2714\u221a\u2715] .{1,200}\(\d{1,6} ?m?s\)"
    r"|^test_\w{1,100} \([\w.]{1,200}\) \.\.\. "
    r"|\.py::\w|\b(?:PASSED|SKIPPED|XFAIL|XPASS)\b|\[\s{1,9}(?:OK|RUN|PASSED|FAILED)\s{1,9}\]|\.\.\. (?:ok"
    r"|skipped)\b"
    r"|^(?:not )?ok \d+ |^=== RUN|^\s*--- (?:PASS|FAIL|SKIP)|^test [\w:]{1,200} \.\.\. |^E {3,8}\S"
    r"|^(?:FAILED|ERROR) tests?/"
    r"|\.(?:pyi?|jsx?|tsx?):\d{1,6}(?::\d{1,5})?: (?:(?:error|warning|note)(?:\[[\w-]{1,40}\])?: "
    r"|[A-Z]{1,4}\d{2,5}\b)"
    r"|\.\w{1,5}:\d{1,6}:\d{1,5}: (?:error|warning|note): .{1,400} "
    r"\[[a-z][\w.*]{1,40}-[\w.,*=-]{1,120}\]\s{0,4}$"
)
_NO_RUN = pattern_of(
    r"(?:^|[\]|:-] )[\[(<](?i:dry[-_ ]?run)[\])>]"
    r"|^[*|/\\ ]{0,12}(?:(?:commit )?[0-9a-f]{7,40} (?:\([^()]{1,80}\) )?|[-*] )"
    r"(?:fix|feat|docs|chore|refactor|perf|test|build|ci|style|revert)(?:\([\w ,./-]{1,40}\))?!?: "
    r"|^[*|/\\ ]{0,12}(?:commit )?(?=[a-f]{0,39}\d)[0-9a-f]{7,40} (?:\([^()]{1,80}\) )?"
    r"(?:[Aa]dd|[Hh]andle|[Ff]ix|[Rr]emove"
    r"|[Uu]pdate|[Rr]evert|[Mm]erge|[Bb]ump|[Aa]void|[Cc]atch|[Rr]etry|[Mm]ake|[Uu]se|[Ss]upport|[Ii]gnore"
    r"|[Rr]aise|[Rr]eport|[Ww]ork around|[Dd]etect|[Ii]mprove|[Rr]efactor|[Tt]est|[Dd]ocument)\b"
)
"""Output of a dry run, or the subject of a commit."""
_GOES_ON = pattern_of(
    r"(?i)\b(?:will (?:try again|retry|be retried|continue|reconnect)|retrying|trying again"
    r"|try again (?:in|at|later)"
    r"|falling back|fall back|(?:left|leaving) out|skipp(?:ed|ing)|ignor(?:ed|ing)|continuing"
    r"|recover(?:ed|ing))\b"
)
"""Wording in an error line which states that the program continues."""
GAVE_UP = pattern_of(
    r"(?i)\b(?:bail(?:ed|ing|s) out|(?:gave|giv(?:es|ing|en)) up|(?:has |have )?died|is dead"
    r"|went away|(?:worker|rank|process|peer|node) #?\d{1,6} is gone|crashed|abort(?:ed|ing)|cannot continue"
    r"|(?:exited|ended|left|leaving|quit) with (?:exit )?(?:code|status) [1-9])\b"
)
"""Wording of the end of a process, whatever the line's level: launchers log at their own."""
_DISMISSED = pattern_of(
    r"\((?:(?:ignored|ignoring|harmless|non-?fatal|not fatal|raised on purpose|on purpose"
    r"|injected|simulated|mocked|by the test)\b"
    r"|expected(?:\s?[),;.:]|\s(?:in|by|on|during|for|here|when|while|as|and|error|failure|exception|behaviou?r)\b))"
)
"""Words in parentheses that dismiss a problem; `(expected 2)` and `(expected str, got int)` do not."""
_ABSENT = pattern_of(r"\s?[:=]\s?(?:[Ff]alse|FALSE|[Nn]o|[Nn]one|[Oo]ff)\s{0,4}(?:$|[,;|)}\]])")
"""The value of a flag, after words for what did not happen."""
_COUNTED_NONE = pattern_of(
    r"(?:[ .\u2026\u00b7_-]{0,80}[.\u2026\u00b7_-]{2}| {2,80}|\s?[|:=])\s?(?:0|[Nn]one)\s{0,4}(?:$|[,;|)}\]])"
)
"""The count of a summary, after words for what did not happen."""
_NO_MATCHES = pattern_of(
    r"[^\"'`]{0,160}[\"'`](?: (?:in|of|matches|lines?|hits|times|occurrences|found"
    r"|(?=[\w-]{0,80}[./][\w./-])[\w./-]{2,160})){0,6}: 0\s{0,4}$"
)
"""The count behind quoted words that were searched for."""
_HANDLER = pattern_of(
    r"(?i)[ _-](?:observer|hook|handler|callback|detector|listener|watcher|monitor|guard|dumper)s?\b.{0,60}"
    r"\b(?:regist(?:ered|ering)|attach(?:ed|ing)|install(?:ed|ing)|enabl(?:ed|ing)|armed|active|ready|loaded)\b"
)
"""A handler of the error before it, which has not seen that error yet."""
_SEARCH = pattern_of(r"\b(?:[efz]?grep -\w{0,8}c\w{0,8} .{1,400}|wc -l.{0,80}): ?0\s{0,4}$")
"""A command that counts lines, and its result."""
_NUMBERED_THING = pattern_of(
    r"(?i)(?:gpu|device|rank|node|worker|process|code|status|pid|core|cpu|slot|link|port)$"
)
"""Words after which 0 is an index."""
_EXCEPTION = pattern_of(r"(?:Error|Exception)$")
_RAISED = pattern_of(r"\s{0,8}(?:\w{1,40}\.){0,8}\w{1,80}(?:Error|Exception)\b")
_TEXT_LABEL = pattern_of(
    r"(?i)<\|?(?:user|assistant|system|human)\|?>"
    r"|(?:^|[\s\]|:])(?:<{2,3}|>{2,3}|[-=]{1,3}>|<[-=]{1,3}|[\u00bb\u2192\u2190\u25b6\u276f])\s?"
    r"(?:the )?(?:prompt|model|user|assistant|human|bot|answer|reply|response|question|output|input|llm|gpt"
    r"|ai|q|a)"
    r"(?: ?[#(]?\d{1,9}\)?)?\s?[:>]\s"
    r"|(?:^|[\]|:-] )(?:sample|output|response|user|assistant|human|model|bot|text|story|input)s?"
    r" ?#?\d{0,9}>{1,3}\s|(?:^|[\s{,\[(|\"'<])(?:prompt|completion"
    r"|generated(?:[ _](?:text|output|sample))?|generation"
    r"|question|answer"
    r"|instruction|prediction|hypothesis|(?:sample|model|target|input|output|reference)[ _](?:text|output"
    r"|answer)"
    r"|(?:sample|example)[ _#]?\d{1,9})s?[\"'\])]?\s?[:=>]"
    r"|(?:^|[\s{,\[(|\"'])(?:text|content|input|output|response|sample|example|target|user|assistant"
    r"|human|ref|story"
    r"|document|query|caption|title)s?[\"']?\s?[:=]\s?[\"'`\u201c]"
)
_SAMPLE_HEADING = pattern_of(
    r"(?i)(?:^|[\]|>:-] |, )\W{0,8}(?:(?:generated|sampled?|example|model) )?(?:prompt|completion|generation"
    r"|generated"
    r"|sample|question|answer|response|reply|instruction|prediction|story"
    r"|(?:sample|model|generated) (?:text|output"
    r"|response)"
    r"|user|assistant|human)s?(?: \(\d{1,9} \w{1,12}\))?(?: (?:at|for|after|from|of) .{1,40}"
    r"| ?#?\[?\d{1,9}\]?(?: ?/ ?\d{1,9})?)?\s?\W{0,6}(?::|={2,}|-{3,}|$)"
)
_PASSED_TEST = pattern_of(r"(?i)[-=_ ]{3,}captured .{1,120}\bpassed\b|=+ PASSES =")
"""The heading of what a passed test logged; pytest prints such records without a time."""
_CAPTURED = pattern_of(r"[A-Z]{4,8} {1,5}\S{1,200}:\S{1,200}\.py:\d{1,6} ")
_SAMPLE_END = pattern_of(
    r"(?i)\W{2,40}end(?: of)?(?: the)? (?:sample|prompt|completion|generation|response|output|text)"
)
_MARKER = pattern_of(r"[-=*#<>~+_]{2,40}(?=\s?[A-Za-z])")
"""The mark at the beginning of a heading above a block of text; also the block's last line."""
_LIST_OF_TEXTS = pattern_of(
    r"(?P<name>\w{1,60})[\"']?\s?[=:]\s?(?:frozenset|set|tuple"
    r"|list)?[\[({]{1,3}(?:\s?(?:[rbf]?[\"'][^\"']{0,200}[\"']|[A-Za-z][\w.]{0,60})\s?,){0,40}"
    r"\s?[rbf]?[\"'][^\"']{0,200}$"
)
_KEY = pattern_of(r"[\"']([\w.@-]{1,60})[\"']\s?:\s?[\"'\[{]")
_EVENT_KEYS = frozenset(
    ("message", "msg", "log", "event", "body", "error", "err", "errors", "exception", "exc_info", "exc_text",
     "reason", "stack", "stack_trace", "stacktrace", "traceback", "detail", "details", "description",
     "cause", "args", "failure", "failures", "status", "state", "textpayload", "label", "loss", "grad_norm")
)  # fmt: skip
_FENCE = pattern_of(r"\s{0,8}(?:```|~{3,}(?![~^]))")
_SOURCE = pattern_of(
    r"\s*(?:except \(?[\w.]{1,80}(?:(?:, ?| )[\w.]{1,80}){0,7}\)?(?: as \w{1,40})?:|raise [\w.]{1,80}\("
    r"|(?:print|log(?:ger|ging)?\.\w{1,12}|fprintf|printf|console\.\w{1,8}|warnings\.warn)\([frb\"'s]"
    r"|assert .{1,200}, [f\"'])"
)
"""A program statement, whose words are no event."""
_STRONG = pattern_of(
    r"(?:srun|slurmstepd|mpirun|torchrun|bash|sh|python\d?): |[\w.-]{1,80}:\d+:\d+ \[\d+\] NCCL "
)


def is_event(text: str, start: int, advice: bool = False) -> bool:
    """Return True if the words from `start` on report an event.

    `advice`: also accept words within advice.
    """
    if _RUNNER.search(text) or _NO_RUN.search(text) or _DISMISSED.search(text, start) or _SOURCE.match(text):
        return False
    if is_text(text, start):
        return False
    before = text[max(0, start - MAX_BEFORE) : start]
    if not before.strip():
        return True
    if _is_setting(before) or (before.lstrip()[:1] != "{" and _TEXT_LABEL.search(before)):
        return False
    if before.count("`") % 2 and "`" in text[start:]:
        return False
    cut = 0
    for found in _SENTENCE.finditer(before):
        cut = found.end()
    return advice or _ADVICE.search(before, cut) is None


def is_absent(text: str, end: int) -> bool:
    """Return True if the words that end at `end` are denied, awaited, counted as none, or a handler."""
    before = text[max(0, end - 60) : end]
    denied = _ABSENT.match(text, end) is not None
    counted_none = _COUNTED_NONE.match(text, end) is not None and _NUMBERED_THING.search(before) is None
    if _NO_MATCHES.match(text, end) or _SEARCH.search(text) or _HANDLER.match(text, end):
        return True
    return (denied or counted_none) and _EXCEPTION.search(before) is None


def is_continuing(text: str) -> bool:
    """Return True if an error line states that the program retries, skips or continues without it."""
    return _GOES_ON.search(text) is not None


def has_given_up(text: str) -> bool:
    """Return True if a line states that a process ended or gave up, and not that it continues."""
    return GAVE_UP.search(text) is not None and not is_continuing(text)


def _is_setting(before: str) -> bool:
    """Return True if the text after `before` is a value: in a list of texts, or a field of no message."""
    found = _LIST_OF_TEXTS.search(before)
    if found is not None and found.group("name").lower() not in _EVENT_KEYS:
        return True
    if not before.lstrip().startswith("{"):
        return False
    keys = _KEY.findall(before)
    return bool(keys) and keys[-1].lower() not in _EVENT_KEYS


@lru_cache(maxsize=2 * MAX_SAMPLE)
def _as_above(line: bytes) -> "tuple[str, bool]":
    """Return (line as text, whether it is a record by itself).

    The last line of a traceback is none: samples quote such lines. Cached, since lines are above several
    findings.
    """
    text = line_text(line)
    return text, has_stamp(text) or (own_level(text) is not None and _RAISED.match(text) is None)


def is_quoted(chunk: "Chunk", start: int, text: str, raw: str, advice: bool = False) -> bool:
    """Return True if the lines around the line at `start` make it an entry of advice or part of a text.

    `advice`: also accept it within advice.
    """
    if has_stamp(raw) or text != raw or _STRONG.match(text) or own_level(text) == "critical":
        return raw[:2] == "> " and any(line[:2] == b"> " for line in chunk.above(start, 1))
    lines = _untagged(chunk.above(start, MAX_SAMPLE)[::-1])
    return _is_in_sample(chunk, start, lines) or _is_part(chunk, start, text, lines, advice)


def is_left_open(chunk: "Chunk", start: int, end: int, named: "str | None") -> bool:
    """Return True if the last line may be a quotation: below a heading, or ignored by Python (`named`)."""
    if chunk.below(end, 1):
        return False
    above = [_as_above(line)[0] for line in _untagged(chunk.above(start, MAX_SAMPLE))]
    if named is not None and not is_of_python(named) and any(map(is_ignored, above)):
        return True
    return any(is_turn(each) or (_SAMPLE_HEADING.search(each) and "Traceback" not in each) for each in above)


def _untagged(lines: "list[bytes]") -> "list[bytes]":
    """Return the lines without a tag of their writer; the others say nothing about a line without one."""
    return [line for line in lines if not is_tagged(_as_above(line)[0])]


def _is_part(chunk: "Chunk", start: int, text: str, lines: "list[bytes]", advice: bool) -> bool:
    """Return True if a line without a prefix is part of a quotation; `lines`: those above, nearest first."""
    entry = not advice and _ENTRY.match(text) is not None
    fences = 0
    raised = False
    for number, line in enumerate(lines):
        above, is_record = _as_above(line)
        if raised:
            sample = text[:1] == " " and _SAMPLE_HEADING.search(above) is not None
            return sample or above.startswith(IGNORED) or is_turn(above)
        if number == 0 and above.startswith(IGNORED):
            return True
        raised = "Traceback (most recent" in above and not fences
        if raised and is_text(above, above.index("Traceback")):
            return True
        if raised:
            continue
        if entry and number < MAX_LIST and not _ENTRY.match(above):
            if _ADVICE_HEADING.search(above) or (_QUOTED_ENTRY.match(text) and _SETTING_HEADING.match(above)):
                return True
            entry = False
        fences += _FENCE.match(above) is not None
        if _SAMPLE_HEADING.search(above) or _PASSED_TEST.match(above):
            return True
        if (is_record and not _CAPTURED.match(above)) or _SAMPLE_END.match(above):
            break
    if raised:
        return False
    below = _untagged(chunk.below(chunk.line_around(start)[1], MAX_SAMPLE if fences % 2 else MAX_NEAR))
    if fences % 2:  # a fence without an end may have been cut by the error
        return any(_FENCE.match(line_text(each)) for each in below)
    return is_in_text(text, [line_text(each) for each in lines], [line_text(each) for each in below])


def _is_in_sample(chunk: "Chunk", start: int, lines: "list[bytes]") -> bool:
    """Return True if a line is between the marked heading of a generated text and the text's end.

    A text without an end may have been cut by the error. `lines`: those above, nearest first.
    """
    passed = set()
    for line in lines:
        above, is_record = _as_above(line)
        marker = _MARKER.match(above)
        if (
            marker is not None
            and marker.group() not in passed
            and _SAMPLE_HEADING.match(above)
            and not _SAMPLE_END.match(above)
        ):
            below_it = _untagged(chunk.below(chunk.line_around(start)[1], MAX_SAMPLE))
            for below, ends in map(_as_above, below_it):
                if _SAMPLE_END.match(below) or below.strip() == marker.group():
                    return True
                if ends and "Traceback" not in below:
                    break
            return False
        if (is_record and "Traceback" not in above) or _SAMPLE_END.match(above):
            break
        passed.add(above.strip())
    return False
