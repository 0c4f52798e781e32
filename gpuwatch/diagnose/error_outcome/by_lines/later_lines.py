"""Decide from lines without training steps whether a program worked on, or finished, below an error.

Pure functions over the lines around an error. Work is repetition: lines of one form (numbers left out) that
stand above and below the error, or whose counter rises below it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from gpuwatch.agent.logs.lines.levels import own_level
from gpuwatch.agent.logs.lines.splitter import is_bar
from gpuwatch.agent.patterns.module_pattern import pattern_of
from gpuwatch.diagnose.error_outcome.recovery_by_steps import TRACEBACK
from gpuwatch.runs.files.excerpts.around import Around

MIN_LINES_BELOW = 5
"""Least lines of one form below an error that show that work continues; closing lines repeat less."""
MIN_LINES_ABOVE = 2
"""Least lines of the same form above the error, for work that was already in progress."""
MIN_LINES_OF_SURVIVOR = 2
"""Least lines below an error for a program that has outlived others."""
MIN_COUNTED_LINES = 3
"""Least lines of a counter that reached its total (`epoch 40/40`)."""
END_LINES = 10
"""Number of lines at the end of a log in which a program reports that it is done."""
NOTICE_LINES = 3
"""Number of lines right above and below an error in which a program announces how it continues."""
FORM_CHARS = 120
RECENT_LINES = 10
"""Number of lines directly above an error that show the work in progress."""
MAX_TRACEBACK_LINES = 80
"""Longest traceback, in lines."""
PLAIN = (None, "info", "debug")
"""Log levels of lines about regular work."""

_FALLBACK = pattern_of(
    r"(?i)\b(?:fall(?:s|ing)? ?back (?:to|on)|fell back (?:to|on)|using .{1,60} instead"
    r"|(?:will not be|won't be) (?:enabled|available|used)|will be (?:disabled|unavailable)"
    r"|(?:continuing|proceeding|going on) (?:without|with|anyway|on))\b"
)
"""Matches a fallback: the program goes on without something, or with a substitute."""
_TWO_LETTERS = pattern_of(r"[^\W\d_]{2}")
_FRAME = pattern_of(r"File \"|^\s{2}|[\]|:] {3,}\S|\^\^|~~|^During handling|^The above exception|^$")
_GAP = pattern_of(r"[\s,;|\"{}]+")
_DIGIT = pattern_of(r"\d")
_CLOCK = pattern_of(r"\d\d:\d\d|\d{2,4}[-/]\d\d[-/]\d\d|^\D?\d{10}(?:\.\d{1,9})?\D?$")
"""Matches a word that is a time of day or a date."""
_NUMBER = pattern_of(r"\d[\d,]*(?:\.\d+)?")
_TOTAL = pattern_of(r"(?<![\d./-])(\d{1,9}) ?(?:/|of) ?(\d{1,9})(?![\d./-])")
_MARK = pattern_of(r"\d ?(?:/|of ?\d)")
_RANK = pattern_of(r"(?i)\brank[ _:=]{0,2}(\d{1,6})\b|^\[(?:1,)?(\d{1,6})\]<std")
"""Matches a rank prefix, also as Horovod and Open MPI write it: `[3]<stdout>`, `[1,3]<stderr>`."""
_NO_WORK = pattern_of(
    r"(?i)\b(?:errors?|exception|fail\w*|retr(?:y|ies|ying)|attempts?|wait\w*|time(?:d|s)?[ _-]?out\w*"
    r"|abort\w*|kill\w*|signal|heartbeat\w*|terminat\w*|exit\w*|watchdog|stall\w*|h[au]ng|stuck|nccl|frame|dump\w*"
    r"|back ?trace|traceback|stack|shut\w*|stopp\w*|destroy\w*|unavailable|unreachable|lost|keep-?alive|ping"
    r"|metrics|util\w*|idle|no response|skipp\w*|bad|corrupt\w*|crash\w*|defunct)\b"
    r"|^\s{0,12}(?:File \"|at |#\d|\^)|\(\S{1,200}:\d{1,6}\)\s*$|0x[0-9a-f]{6}|[a-z](?:error|exception)\b"
    r"|generation throughput: 0\.0 "
)
"""Matches lines that failures, hangs and call stacks print as well, and that thus show no work."""
_COMMAND = pattern_of(
    r"(?:[\w.@:~/()\[\] -]{0,80}[$%>#]|\+{1,3}) (?:[A-Z_]{1,40}=\S{1,80} ){0,6}"
    r"(?:python[\d.]{0,5}|torchrun|accelerate|deepspeed|mpirun|mpiexec|srun|bash|sh|\./\S{1,80}) \S"
)
"""Matches a command after a shell prompt, or as `set -x` prints it."""
_FINISHED = pattern_of(
    r"(?i)\b(?:all|everything)\b.{0,40}\b(?:done|finished|completed?|succeeded|processed)\b"
    r"|\b(?:benchmark|training|run|job|evaluation|sweep|search) (?:is |has )?"
    r"(?:complete|completed|finished|done)\b"
    r"|\b(?:done|finished|completed)(?: successfully)?(?: in \d|\W{0,3}$)"
    r"|\bclosed \(finished\)"
    r"|\b(?:state|status)\W{1,4}(?:done|success\w*|succeeded|completed)\b|\bas success\b"
    r"|\bwrote \d[\d,.]*\W{1,2}[a-z]|\b\d[\d,]{0,30} [a-z]{3,20} (?:written|exported|converted|processed)\b"
    r"|\b(?:export|upload|written|sav)(?:ed)? .{0,80}\bfinal\b|\btotal (?:run ?time|wall)|\bfailed[=:] ?0\b"
)
_FINAL_SCORES = pattern_of(r"(?i)\bfinal (?:validation|test|eval\w*) (?:metrics|results?|scores?|accuracy)\b")
"""Matches a report that a training prints only at its end."""
FINAL_REPORT = pattern_of(
    r"(?i)\b(?:report|results?|scores?|metrics|predictions|summary) "
    r"(?:(?:is|are|was|were|has been|have been) )?"
    r"(?:written|saved|stored|dumped|exported) (?:to|in|at|under)\b"
    r"|\b(?:wrote|saved|writing|saving) (?:the )?(?:final )?(?:report|results?|scores?|summary)\b"
    r"|\ball (?:instances|problems|tasks|tests|items) (?:were |have been )?(?:run|evaluated|graded|scored)\b"
)
"""Matches the closing report of an evaluation or test harness."""
_NOTHING_WRONG = pattern_of(
    r"(?i)\b(?:0|no) (?:errors?|fail(?:ed|ures?)|tests failed|warnings?)\b|\b(?:failed|errors?)[=:] ?0\b"
)
_TALLY = pattern_of(
    r"(?i)\b\d{1,9} (?:errors?|failed|failures|skipped|retries|bad|corrupt)\b"
    r"|\b(?:errors?|failed|failures|skipped|retries|bad)[=:] ?\d{1,9}\b"
    r"|\b(?:waiting|pending|queued?|idle): ?\d{1,9} (?:req|seq|request|job|task)s?\b"
)
"""Matches a count of rejected records or of queued requests in a progress line."""
_TRIAL_FAILED = pattern_of(
    r"(?i)\btrial (?:task failed for trial )?#?([\w.:-]{1,60})(?: (?:has )?(?:failed|errored|crashed)\b|\s*$)"
)
_TRIAL_DONE = pattern_of(r"(?i)\btrial #?([\w.:-]{1,60}) (?:has )?(?:finished|completed?|succeeded)\b")
"""Matches a finished trial of a hyperparameter search (Optuna, Ray Tune, Keras Tuner), with its name."""
_HANDLER = pattern_of(
    r"(?i)\bException (?:in ASGI application|on \S{1,200} \[[A-Z]{3,7}\]|calling application|while serving)"
    r"|\bError (?:handling|processing|in) (?:the |preprocessing |generating |parsing )?"
    r"(?:request|prompt|inputs?|response)\b|\bInternal Server Error: /"
    r"|\b(?:unhandled|uncaught) exception (?:in (?:the )?(?:request|handler)|[A-Z]{3,7} /|while handling)"
)
"""Matches a server's record of a failed request handler."""
_OF_CLIENT = pattern_of(
    r"(?i)\b(?:maximum (?:context|sequence|prompt|model) length|you requested \d|bad request|unprocessable"
    r"|invalid (?:json|prompt|parameter|request)|model .{1,80} does not exist|validation error)\b"
)
"""Matches the report of a request that the server rightly refuses."""
_SERVED = pattern_of(
    r"\"(?:GET|POST|PUT|HEAD|DELETE|PATCH|OPTIONS) (?!/(?:health|ping|ready|live|metrics))\S{1,300}"
    r"(?: HTTP/[\d.]{1,3})?\" (?:- )?[23]\d\d\b|\bgeneration throughput: [1-9]"
)
"""Matches the report of a request that the server answered."""
_SUCCEEDED = pattern_of(
    r"(?i)\b(?:attempt|try|retry) #?\d{1,4}(?: ?(?:/|of) ?\d{1,4})?:? (?:has |was )?"
    r"(?:succeeded|successful|ok|passed)\b"
    r"|\bsucceeded (?:on|at|after|in) (?:the )?(?:(?:\d{1,4}|second|third|next|last)[a-z]{0,2} )?"
    r"(?:attempts?|try|tries|retry|retries)\b"
)
_FAILED_AGAIN = pattern_of(
    r"(?i)\b(?:attempt|try|retry) #?\d{1,4}.{0,20} (?:failed|errored|timed out)\b|\bgiving up\b"
)
_NOT_FINISHED = pattern_of(
    r"(?i)\b(?:not|never|fail\w*|errors?|abort\w*|incomplete|unsuccessful\w*|partial\w*|interrupted|killed"
    r"|before|until)\b|n't\b"
)


def uncaught(around: Around) -> str | None:
    """Return the text before `Traceback` in the line that begins the traceback above an error.

    None: there is no traceback, or a logger wrote it.
    """
    lines = around.above[-MAX_TRACEBACK_LINES:]
    for number, line in reversed(list(enumerate(lines))):
        if TRACEBACK in line:
            logged = number > 0 and own_level(lines[number - 1]) in ("error", "warning")
            return None if logged else line.partition(TRACEBACK)[0]
        if not _FRAME.search(line):
            return None
    return None


def from_main(around: Around) -> bool:
    """Return True if an unlogged traceback begins in the main program: the exception ended the process."""
    lines = around.above[-MAX_TRACEBACK_LINES:]
    heads = [number for number, line in enumerate(lines) if TRACEBACK in line]
    return (
        bool(heads) and uncaught(around) is not None and "in <module>" in "".join(lines[heads[-1] + 1 :][:1])
    )


def is_glued(around: Around) -> bool:
    """Return True if a traceback starts in the middle of a line: older, buffered output follows it."""
    head = _form(uncaught(around) or "")
    frames = [line for line in around.above[-MAX_TRACEBACK_LINES:] if 'File "' in line]
    return bool(head) and not (frames and _form(frames[-1]).startswith(head))


def works_on(around: Around, rank: int | None = None, least: int = MIN_LINES_BELOW) -> bool:
    """Return True if at least `least` lines below an error have a form of the regular lines just above it.

    `rank`: only lines of this rank; None: all.
    """
    above = _forms(_own(around.above, rank))
    recent = _recent(_own(around.above, rank), above)
    return any(
        len(below) >= least and len(above.get(form, ())) >= MIN_LINES_ABOVE and form in recent
        for form, below in _forms(_own(around.below, rank)).items()
    )


def breaks_off(around: Around, rank: int | None = None) -> bool:
    """Return True if the work directly above an error does not continue below it.

    Lines below it are then other work. `rank`: only lines of this rank; None: all.
    """
    above = _own(around.above, rank)
    below = _forms(_own(around.below, rank))
    recent = _recent(above, _forms(above))
    return any(recent.count(form) >= MIN_COUNTED_LINES and form not in below for form in recent)


def starts_anew(around: Around) -> bool:
    """Return True if a command below an error starts a program again, and regular lines of work follow."""
    commands = [number for number, line in enumerate(around.below) if _COMMAND.match(line)]
    if not commands:
        return False
    return any(len(lines) >= MIN_LINES_BELOW for lines in _forms(around.below[commands[0] + 1 :]).values())


def announces_fallback(around: Around) -> bool:
    """Return True if lines next to an error announce that the program continues without the failed part."""
    lines = list(around.above[-MAX_TRACEBACK_LINES:])
    heads = [number for number, line in enumerate(lines) if TRACEBACK in line]
    if heads and uncaught(around) is not None:
        lines = lines[: heads[-1]]
    beside = (*lines[-NOTICE_LINES:], *around.below[:NOTICE_LINES])
    return any(_FALLBACK.search(line) for line in beside)


def searches_on(around: Around, error: str) -> bool:
    """Return True if `error` ended one trial of a hyperparameter search, and a later trial finished."""
    beside = (*around.above[-MAX_TRACEBACK_LINES:], error, *around.below[:NOTICE_LINES])
    failed = {found[1] for line in beside if (found := _TRIAL_FAILED.search(line))}
    done = {found[1] for line in around.below if (found := _TRIAL_DONE.search(line))}
    return bool(failed) and bool(done - failed)


def serves_on(around: Around, error: str) -> bool:
    """Return True if `error` comes from a server's request handler and the server answered later requests.

    One answer is enough after a mistake of the client, which is no evidence about the server.
    """
    lines = list(around.above[-MAX_TRACEBACK_LINES:])
    heads = [number for number, line in enumerate(lines) if TRACEBACK in line]
    beside = [*lines[max(0, heads[-1] - 1) : heads[-1]], error] if heads else [*lines[-1:], error]
    served = [line for line in around.below if _SERVED.search(line)]
    least = 1 if _OF_CLIENT.search(error) else MIN_LINES_OF_SURVIVOR
    return len(served) >= least and any(_HANDLER.search(line) for line in beside)


def succeeds_later(around: Around) -> bool:
    """Return True if the last attempt that is reported below an error succeeded."""
    outcomes = [
        _SUCCEEDED.search(line) is not None
        for line in around.below
        if _SUCCEEDED.search(line) or _FAILED_AGAIN.search(line)
    ]
    return bool(outcomes) and outcomes[-1]


def counts_on(around: Around, rank: int | None = None, least: int = MIN_LINES_BELOW) -> bool:
    """Return True if a counter rises over at least `least` lines below an error. `rank`: only its lines."""
    return any(
        len(lines) >= least and _rises([_numbers(line) for line in lines])
        for lines in _forms(_own(around.below, rank)).values()
    )


def reaches_total(around: Around) -> bool:
    """Return True if a counter that rises through the log has reached its total (`40/40`) at its end."""
    counted: dict[tuple[str, int], list[int]] = defaultdict(list)
    for line in (*around.above, *around.below, *around.last):
        for place, found in enumerate(_totals(line)):
            counted[_form(line), place].append(found[0])
    for line in around.last[-END_LINES:]:
        for place, (count, total) in enumerate(_totals(line)):
            values = sorted(set(counted[_form(line), place]))
            if count == total >= MIN_COUNTED_LINES and len(values) >= MIN_COUNTED_LINES:
                return True
    return False


def finishes(around: Around) -> bool:
    """Return True if lines of work stand below an error and the end of the file reports that all is done."""
    worked = any(len(lines) >= MIN_COUNTED_LINES for lines in _forms(around.below).values())
    return worked and any(has_finished(line) for line in around.last[-END_LINES:])


def reports_end(around: Around) -> bool:
    """Return True if a line above or below an error states that the work is done.

    The failure is then in the teardown.
    """
    return any(has_finished(line) or _FINAL_SCORES.search(line) for line in (*around.above, *around.below))


def has_finished(line: str) -> bool:
    """Return True if a line states that the work is done."""
    return _FINISHED.search(line) is not None and is_good(line)


def is_good(line: str) -> bool:
    """Return True if a line reports no failure; counts of zero (`0 errors`) are none."""
    return _NOT_FINISHED.search(_NOTHING_WRONG.sub(" ", line)) is None


def _is_work(line: str) -> bool:
    return _NO_WORK.search(_TALLY.sub(" ", line)) is None


def _own(lines: Iterable[str], rank: int | None) -> list[str]:
    """Return the lines with the number of this rank; all lines if `rank` is None."""
    if rank is None:
        return list(lines)
    return [line for line in lines if any(str(rank) in found for found in _RANK.findall(line))]


def _forms(lines: Iterable[str]) -> dict[str, list[str]]:
    """Return form -> the lines of that form; only lines of regular work, without duplicates."""
    found: dict[str, dict[str, None]] = defaultdict(dict)
    for line in lines:
        found[_form(line)][line] = None
    return {form: list(each) for form, each in found.items() if _is_regular(form, next(iter(each)))}


def _recent(lines: Sequence[str], forms: Mapping[str, object]) -> list[str]:
    """Return the forms (`_form`) of the last RECENT_LINES lines of regular work, oldest first."""
    return [form for line in lines if (form := _form(line)) in forms][-RECENT_LINES:]


def _is_regular(form: str, line: str) -> bool:
    """Return True if a line of this form reports work: a number, words, a plain log level, no failure."""
    return (
        "#" in form and _TWO_LETTERS.search(form) is not None and own_level(line) in PLAIN and _is_work(line)
    )


def _form(line: str) -> str:
    """Return the form of a line: words that contain digits become `#`; at most FORM_CHARS characters."""
    return " ".join("#" if _DIGIT.search(word) else word for word in _GAP.split(line))[:FORM_CHARS]


def _numbers(line: str) -> list[float]:
    """Return the numbers in a line, without times and dates."""
    return [float(each.replace(",", "")) for each in _NUMBER.findall(_without_clock(line))]


def _without_clock(line: str) -> str:
    return " ".join(word for word in line.split() if not _CLOCK.search(word))


def _rises(rows: Sequence[Sequence[float]]) -> bool:
    """Return True if some number grows from each row to the next.

    An inner counter may restart where the number before it (an epoch) grows. False if the rows differ in
    length.
    """
    if len({len(row) for row in rows}) != 1:
        return False
    return any(
        all(list(low[place : place + 2]) < list(high[place : place + 2]) for low, high in pairwise(rows))
        for place in range(len(rows[0]))
    ) or any(all(low < high for low, high in pairwise(column)) for column in zip(*rows, strict=True))


def _totals(line: str) -> list[tuple[int, int]]:
    """Return (count, total) of each counter in a line (`40/50`); empty for a progress bar or no work."""
    found = _TOTAL.findall(_without_clock(line)) if _MARK.search(line) else []
    if not found or is_bar(line) or not _is_work(line):
        return []
    return [(int(count), int(total)) for count, total in found]
