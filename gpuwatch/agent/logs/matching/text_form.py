"""Decides whether a line is a text about errors: source code, a row of data, a turn of a talk, or prose.

Such lines have no time, level or exception in their head. What they are is seen from their own form, or
from that of the lines around them: a sentence beside other sentences, a row between rows with the numbers
before and after it.

Example: `  echo "training crashed"` is code; `7 Segmentation fault` below `6 Bus error` is a row.
"""

import builtins

from ...patterns.module_pattern import pattern_of

IGNORED = "Exception ignored in"
"""How Python begins its report of an exception that it ignores, above a traceback or the exception alone."""
_OUTPUT = "name='<std"
"""Standard output or error in such a report: its terminal is gone."""
MAX_NEAR = 3
"""Lines above and below that are compared with a line."""
MIN_WORDS = 6
"""Least blanks in a sentence."""
MIN_SMALL_WORDS = 2
"""Least articles, pronouns and other small words of a sentence."""

_FORM = pattern_of(
    # pieces and numbers of tokens, templates
    r".{0,2000}(?:\u2581|<\*>|\{\{ [$.\w]|\bLIKE '|\w\(-?\d+, \d+\) \S{1,40}\(-?\d+, \d+\))"
    # subtitles, talks, rows of a corpus, cells of a table
    r"|\W{0,3}(?:\d\d:){1,2}\d\d[.,]\d{3} --> |(?:.{0,16}[\[ (])?\d\d:\d\d\]? <[\w.-]{1,30}> "
    r"|[STHPDA]-\d{1,9}\s"
    r"|\s{0,4}\u2502(?![ \u2771]*\d+ *\u2502)(?![ \u2771]*\d+ )[^\u2502]*\u2502[^\u2502]*\u2502"
    r"|\s*<(?:test\w*|summary|text)\b[^>]{0,200}\"|\d{1,9},\"[^\"]*\",\""
    # a sentence about a possible event
    r"|[-*>\d.) ]{0,8}(?:If|Whenever|Unless|In case) [a-z][^()\[\]{}=]*$"
    # statements of a program or shell, also numbered or added
    r"|(?:\s{0,6}\d{1,5}[:|]?\s{1,4})?(?:[-+]\s{0,20})?\s*(?:(?:el)?if\b.{1,200}(?:[:{};\\]|then)\s*$"
    r"|(?:except|case|class|def|for \w+ in) .{1,200}(?::|;;|\bin|\bdo)\s*$"
    r"|(?:throw|yield|echo|trap|raise|return(?! code| val| stat)) .{0,80}[\"']"
    r"|(?:std::)?f?print(?:f|ln)?!?\(|raise \w[\w.]{0,60}\(|(?:log(?:ger|ging)?|self|console)\.\w{1,20}\("
    r"|import \w[\w.]*$|(?:SELECT|FROM|WHERE|AND|OR) \w|#\d+ \[\d+/\d+\] RUN "
    r"|#define |static const |\S{1,20}\) echo |.{1,200}(?:\|\||&&) ?[{(]\s)"
    # entries of settings: a value in quotes
    r"|(?:\s+(?:- )?(?=\S+ [\"']\S)|(?=\S+ \"[^\"]*\"$))"
    r"(?!\S{0,20}(?:err|mess|msg|reason|stat|detail|cause|fail|exc|log|std|res|out|warn|event|crit|fatal))"
    r"[A-Za-z][\w.-]{0,40}: "
)
_LABEL = pattern_of(
    r"(?i)(?:^|[\s(])(?:hyp|ref|src|tgt|chosen|rejected|translation|transcript|utterance|caption|predicted|gold"
    r"|pred|sent|sampled \w{1,20}|generated|template)(?: ?[\[#]?\d{1,9}\]?)? {0,4}: (?!\d)"
    r"|^(?:prompt|response|completion|answer)(?: ?[\[#]?\d{1,9}\]?)? {0,4}: (?!\d)"
)
"""The name of a field of a corpus, or of a model's text."""
_HEADING = pattern_of(
    r"(?i)\W{0,8}(?:(?:observation|thought|action|conversation|transcript|paragraphs?|excerpts?|passage"
    r"|generation|translations?|predictions?|sample (?:paragraphs|sentences|texts|rows)"
    r"|examples of [\w ]{1,40}|(?:tail|end) of the log[\w ]{0,30}|(?:job )?script)\b[^:=]{0,40}[:=-]\W{0,8}$"
    r"|(?:release notes|change ?log|what's new)\b[^:=]{0,40}$"
    r"|(?:.{0,60}\b(?:dry[- ]run|drill|plan)\b).{0,60}:$)"
    r"|#{1,4} [A-Z]|(?:NAME|SYNOPSIS|DESCRIPTION|OPTIONS|DIAGNOSTICS|EXIT STATUS|NOTES)$|@@ -\d|diff --git "
)
_TAGGED = pattern_of(
    r"\s{0,4}(?:\[(?i:rank|default|trainer|worker) ?\d{1,6}\]|\[pod/[\w./-]{1,200}\] "
    r"|(?=[A-Za-z_.-]{1,60}\d)[A-Za-z][\w.-]{0,60}(?:: | {1,8}\| )"
    r"|\d{1,6}: |\[(?:[\w.@-]{1,80},)?\d{1,6}(?:,[\w.-]{1,80})?\]<std|\([\w.:-]{1,120} pid=\d|\{\")"
)
"""The tag that a launcher puts before each line of a process, or the beginning of a JSON record."""
_TURN = pattern_of(r"(?i)\W{0,8}(?:observation|tool (?:output|result)|execution result)\W{0,6}$")
_ENTRY = pattern_of(r"[-+>]|\s|\d{1,3}[.)] |\* ")
_COMMIT = pattern_of(r"(?=[a-f]*\d)[0-9a-f]{7,12} (?=[A-Z])")
_ROW = pattern_of(r"\s{0,6}(\d{1,9})(?: {2,}|,\"|[.)] )\S")
_SMALL_WORD = pattern_of(
    r"(?i)\b(?:a|an|the|and|was|were|is|are|of|to|that|which|who|had|has|in|it|its|we|you|my|your|because|by|on"
    r"|when|then|but|so|all|this|be)\b"
)
_HEAD = pattern_of(
    r"[\w.]{0,80}(?:Error|Exception)\b|.{0,40}?\w: \S|\[|\(|\S{0,200}:\d+:|.{0,12}(?:ERROR|FATAL)"
    r"|(?i:.*\b(?:please|try|consider|contact|(?:your|this|the) (?:job|run))\b)"
    r"|.*(?:\w_\w|0x[\da-f]|#\d|::|[a-z][A-Z]|\w/\w|\d:\d\d|[=|] ?-?\d|\w\()"
)
"""The head of a message, or a name, number or value that a program wrote."""
_FRAME = pattern_of(r"\s*(?:File \"|at |Traceback|what\(\))|-{20}|[\u2502\u2570]")


def is_text(text: str, start: int) -> bool:
    """Return True if a line's own form shows that it is text about errors, no message of a program.

    `start`: where the words of an error begin.
    """
    if _FORM.match(text) is not None:
        return True
    found = _LABEL.search(text, 0, start + 1 if start else 40)
    return found is not None and (start > 0 or found.start() < 6)


def is_in_text(text: str, above: "list[str]", below: "list[str]") -> bool:
    """Return True if the lines around a line show that it is part of a text, no message of a program.

    Args:
        text: Without a time, a level or the prefix of a launcher.
        above: The lines above it, nearest first.
        below: Up to MAX_NEAR lines below it.
    """
    near = above[:MAX_NEAR] + below
    if any(_FRAME.match(each) for each in above[:MAX_NEAR]):
        return False
    row = _ROW.match(text)
    if row is not None:
        number = int(row.group(1))
        rows = [_ROW.match(each) for each in above[:1] + below[:1]]
        if any(each is not None and abs(int(each.group(1)) - number) == 1 for each in rows):
            return True
    if above and _TURN.match(above[0]):
        return True
    commit = _COMMIT.match(text)
    if commit is not None:
        others = [_COMMIT.match(each) for each in near]
        return any(each is not None and each.group() != commit.group() for each in others)
    if text.startswith("##") and any(map(_is_prose, below)):
        return True
    if _ENTRY.match(text):
        for each in above:
            if _HEADING.match(each):
                return True
            if not _ENTRY.match(each):
                break
    if _is_prose(text):
        return bool(below) and any(_is_prose(each) or _HEADING.match(each) for each in near)
    return all(any(_FORM.match(each) for each in side) for side in (above[:MAX_NEAR], below))


def is_turn(line: str) -> bool:
    """Return True if a line is the heading above the output that a tool returned to a language model."""
    return _TURN.match(line) is not None


def is_of_python(text: str) -> bool:
    """Return True if a text begins with an exception of Python's own, but for those that libraries raise."""
    name = text.partition(":")[0].strip()
    return hasattr(builtins, name) and name not in ("RuntimeError", "MemoryError", "SystemError", "OSError")


def is_ignored(line: str) -> bool:
    """Return True for the head of Python's report of an ignored exception, but for one of its own output."""
    return line.startswith(IGNORED) and _OUTPUT not in line


def is_tagged(line: str) -> bool:
    """Return True if a tag names the writer of a line."""
    return _TAGGED.match(line) is not None


def _is_prose(text: str) -> bool:
    """Return True if a line is a sentence or part of one, not the message of a program."""
    small = len(_SMALL_WORD.findall(text))
    ends = text.rstrip()[-1:] in '.?!"'
    return (
        text.count(" ") >= MIN_WORDS and small >= MIN_SMALL_WORDS + (not ends) and _HEAD.match(text) is None
    )
