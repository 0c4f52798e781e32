"""Reads the severity that a line states: a level in its head, or an error form of some language.

A level word counts where a logger puts it: before the message, after nothing but times, names and brackets.
The same word inside a sentence, a name or a value (`errors=0`, `ErrorHandler`) is no level.
"""

from functools import lru_cache
from itertools import islice

from ...patterns.module_pattern import pattern_of
from ...patterns.quick_checks import has_one, is_ascii

LEVEL_CHARS = 240
"""Characters of a line that are searched for a level."""
MAX_WORDS = 6
"""Most words examined in a line's head."""
MAX_NAMES = 4
"""Most words (month, host, logger, thread) before a level."""
GRAVE = ("error", "critical")
MILD = ("info", "debug")

LEVELS = {
    "fatal": "critical", "critical": "critical", "crit": "critical", "panic": "critical", "emerg": "critical",
    "emergency": "critical",
    "error": "error", "erro": "error", "err": "error", "eror": "error", "severe": "error", "alert": "error",
    "warning": "warning", "warn": "warning", "info": "info", "notice": "info", "debug": "debug",
    "trace": "debug", "verbose": "debug", "60": "critical", "50": "error", "40": "warning", "30": "info",
    "20": "debug", "13": "warning", "17": "error", "21": "critical",
}  # fmt: skip
_FOREIGN = {
    "critical": "严重|致命|嚴重|重大|치명적|심각|KRITISCH|CRITIQUE|КРИТИЧЕСКАЯ|CRITICO|CRÍTICO",
    "error": "错误|錯誤|エラー|오류|FEHLER|ERREUR|ОШИБКА|ERRORE",
    "warning": "警告|경고|WARNUNG|AVERTISSEMENT|ПРЕДУПРЕЖДЕНИЕ|AVVISO|ADVERTENCIA",
    "info": "信息|資訊|情報|정보|HINWEIS|ИНФО",
    "debug": "调试|調試|デバッグ|디버그|ОТЛАДКА",
}
FOREIGN_LEVELS = {word: name for name, words in _FOREIGN.items() for word in words.split("|")}
_FOREIGN_IN_ASCII = tuple(word for word in sorted(FOREIGN_LEVELS) if max(word) < "\x7f")
_FOREIGN_HEAD = pattern_of(
    r"(?:\d|[\dZ\]]\]?)\s{0,3}[\[(<|【]?\s?(" + "|".join(_FOREIGN.values()) + r")[\])>|】:：]{0,2}\s"
)
"""A level in another language behind a time or a bracket, as loggers print it."""
_PARTS = (
    "err", "fatal", "crit", "panic", "emerg", "severe", "alert", "warn", "info", "notice", "debug", "trace",
    "verbose",
)  # fmt: skip
"""Substrings of the level words: each level word contains at least one."""
_LETTERS = {"F": "critical", "C": "critical", "E": "error", "W": "warning", "I": "info", "D": "debug"}

_VALUE = r"\s?[:=]? ?[-+]?[\d.]+(?:e[-+]?\d+)?\s?%?\s*(?:$|[|,;)]|[A-Z]{3,8}:)"
"""A number after a word, which makes the word a name."""
_WORD = pattern_of(
    r"(?:(?<![\w.=/'\"-])|(?<=\w\.)(?=[A-Z]{3,8}: ))(?:FATAL|CRITICAL(?! \*\*:)"
    r"|CRIT|PANIC|EMERG|ERROR|ERRO|ERR|SEVERE"
    r"|ALERT|WARNING|WARN"
    r"|(?<!CCL )INFO|NOTICE|DEBUG"
    r"|TRACE|VERBOSE)(?![\w.=/(-])(?!\s*(?:$|,)|" + _VALUE + r")"
    r"|(?<=[\[|<])(?i:(?P<pad>\s{0,8})(?:fatal|critical|crit|panic|error|err|severe|warning|warn|info"
    r"|notice|debug"
    r"|trace))(?=\s{0,8}[\]|>])"
)
FIELD = pattern_of(
    r"(?:\"(?:[Ll]evel|lvl|severity(?:Text)?|levelname|level_name|log_level|loglevel|log\.level|L)\"\s?:\s?\""
    r"|(?:^|\s)(?:level|lvl|severity)=\"?)([A-Za-z]{3,9})\b|\"(?:level|severity(?:Number)?)\"\s?:\s?([2-6]0|1[37]|21)\b"
)
_MESSAGE = pattern_of(
    r"\"(?:[Mm]essage|msg|log|event|body|error|textPayload|line|M)\"\s?:|(?:^|\s)(?:msg|message|event|error|err)="
)
LETTER = pattern_of(
    r"(?:^|[\[\s:])([FEWICD])\d{3,8} \d\d:\d\d:\d\d|\[([FEWICD])(?= \w+\.\w{1,4}:\d+\])"
    r"|(?:^|\s)\[([FEWI])\] (?=\w)|\d: ([FEWI]) (?=[\w./-]{1,160}:\d+\])"
)
_STAMP = pattern_of(r"\d\d:\d\d:\d\d|\d{4}-\d\d-\d\dT\d")
_GROUP = pattern_of(r"\b[Rr](?:ank|ANK)[ _-]?\d{1,6}\b:?|\[[^\[\]]{0,80}\]|\([^()]{0,80}\)|<[^<>]{0,80}>")
_NUMBER = pattern_of(r"(?<![\w.])[+-]?\d[\d:.,TZ/+_-]*(?![\w.])")
_TITLE = pattern_of(r" [A-Z_ ]{2,30}:")
_BEHIND = pattern_of(r"\s?(?:[\]\[:|>)!-]|\W{2,})|\s(?:\S+\s+){2,}\S")
"""Text after a level word in a record without a time: a delimiter, or at least a short sentence."""
_DELIMITERS = frozenset(("-", "--", "|", ":", "::", ">", ">>", "#", "*"))

_NAME = r"(?:[A-Za-z_]\w{0,60}\.){0,8}[A-Z]\w{0,60}"
FORMS = (
    (
        "critical",
        pattern_of(
            r"(?:[\w./-]{1,60}: )?[Ff]atal(?: Python)? error\b|panic: \S"
            r"|thread '[^']{0,80}' (?:\(\d+\) )?panicked at"
            r"|terminate called |forrtl: severe|Fortran runtime error|ERROR STOP\b|Exception in thread \""
            r"|fatal: (?!not a git)|libc\+\+abi: |Unhandled\w* ?(?:exception|Promise)\w*[.:]"
        ),
    ),
    (
        "error",
        pattern_of(
            r"Traceback \(most|" + _NAME + r"(?:Error|Exception|Fault)(?::|$)"
            r"|(?:[\w./ -]{1,60}: ){0,2}[Ee]rror:(?!" + _VALUE + r") \S|\W{0,2}┌ Error: "
            r"|Error in .{1,80}:|Uncaught \w|Error using \S|Error in \S{1,80} \(line \d|Execution halted$"
            r"|\S{1,200}\.rb:\d{1,6}:in |.{1,200} at \S{1,120}\.p[lm] line \d{1,6}\.$"
            r"|(?:错误|錯誤|エラー|오류|Fehler|Erreur|Ошибка) ?[:：](?!" + _VALUE + r") ?\S"
            r"|[Rr]ank \d{1,6}: [Ee]rror\b|(?:lua[\d.jit]{0,6}|th): \S{1,200}:\d+: "
            r"|(?:[\w./-]{1,80}: )(?:line )?\d{1,6}: .{1,120}: (?:command not found|not found"
            r"|[A-Z][a-z]+ (?:denied|error)"
            r"|unbound variable|No such file or directory)|.{0,120}: Assertion .{1,200} failed\b"
            r"|Assertion failed: "
        ),
    ),
    (
        "warning",
        pattern_of(
            r"(?:\S{1,200}:\d{1,6}: )?" + _NAME + r"Warning:|[Ww]arning: |\W{0,2}┌ Warning: "
            r"|\S{1,120}:\d{1,10}:\d{1,10} \[\d{1,4}\] (?:\S{1,160}:\d{1,6} )?NCCL WARN "
        ),
    ),
)

_LOCAL = pattern_of(r"thread '(?!main')|fatal: |Exception in thread \"(?!main\")")
"""Critical forms of a single thread, or of a tool (git, Ansible) whose caller may go on."""


def level(text: str, raw: "str | None" = None, of_record: "str | None" = None) -> "str | None":
    """Return the severity that a line states: critical, error or warning; None: none, or a lower one.

    `of_record`: the level of the JSON record whose message the text is, for a text without its own.
    """
    found = own_level(text, raw) or of_record
    return None if found in MILD else found


@lru_cache(maxsize=64)  # each error line is asked four times
def own_level(text: str, raw: "str | None" = None) -> "str | None":
    """Return the level that a line states: critical, error, warning, info or debug; None: none.

    `text` is the message after known prefixes, `raw` the whole line: its prefixes may show that a logger
    wrote it.
    """
    found = _in_head(text) or (None if raw is None or raw == text else _in_head(raw))
    found = found or _in_foreign_head(text if raw is None else raw)
    if found is not None:
        return found
    text = text.lstrip()
    return next((name for name, form in FORMS if form.match(text)), None)


def _in_foreign_head(text: str) -> "str | None":
    """Return the level that a line with a time states in a language other than English, or None."""
    if not _may_be_foreign(text):
        return None
    found = _FOREIGN_HEAD.search(text, 0, LEVEL_CHARS)
    if found is None or _STAMP.search(text, 0, found.start() + 1) is None:
        return None
    return FOREIGN_LEVELS[found.group(1)]


def _may_be_foreign(text: str) -> bool:
    return not is_ascii(text) or has_one(text, _FOREIGN_IN_ASCII)


def is_fatal(text: str, raw: str, of_record: "str | None" = None) -> bool:
    """Return True if a line has the level critical, as at a program's end; not if one thread panics.

    `of_record`: as in `level`.
    """
    return (own_level(text, raw) or of_record) == "critical" and _LOCAL.match(text.lstrip()) is None


def has_stamp(text: str) -> bool:
    """Return True if the beginning of a line contains a time, as loggers and collectors write it."""
    return _STAMP.search(text, 0, LEVEL_CHARS) is not None


def _in_head(text: str) -> "str | None":
    head = text[:LEVEL_CHARS]
    letter = LETTER.search(head) if head[:1] in _LETTERS or "] " in head else None
    if letter is not None and not head[: letter.start()].strip():
        return _LETTERS[letter.group(letter.lastindex or 0)]
    lowered = head.lower()
    for found in islice(_WORD.finditer(head), MAX_WORDS) if has_one(lowered, _PARTS) else ():
        if letter is not None and found.start() > letter.start():
            break
        if _is_head(head[: found.start()], head[found.end() :]):
            return LEVELS[found.group().strip().lower()]
    if letter is not None:
        return _LETTERS[letter.group(letter.lastindex or 0)]
    field = FIELD.search(text, 0, 4096) if "{" in head or "=" in head else None
    if field is not None and _MESSAGE.search(text, 0, 4096):
        return LEVELS.get((field.group(1) or field.group(2)).lower())
    return None


def _is_head(before: str, behind: str) -> bool:
    """Return True if the text around a level word is a logger's head, not a sentence, name or table."""
    stamped = _STAMP.search(before) is not None or _STAMP.search(behind, 0, 40) is not None
    if not before.strip():
        return _TITLE.match(behind) is None
    if not stamped and not _BEHIND.match(behind):
        return False
    words = _NUMBER.sub(" ", _GROUP.sub(" : ", before)).split()
    bare = 0
    for index, word in enumerate(words):
        if _is_delimiter(word):
            continue
        if word[-1] in ",;!?" or (word[-1] == "." and len(word) > 4 and index + 1 < len(words)):
            return False
        following = words[index + 1] if index + 1 < len(words) else ""
        bare += following != "-" and (not stamped or following not in _DELIMITERS)
    if not words or _is_delimiter(words[-1]):
        return bare <= (MAX_NAMES if stamped else 0)
    return words[-1].endswith(".") or (bare <= 1 and stamped)


def _is_delimiter(word: str) -> bool:
    return word in _DELIMITERS or word[-1] in ":|[<" or not any(each.isalnum() for each in word)
