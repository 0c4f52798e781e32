"""Last log lines and written files by which a rank does something that the others wait for. Pure.

Example: rank 0 logs `evaluating on rank 0` and sleeps in `main`, rank 1 waits in all_reduce. No function name
shows the evaluation; the last line does, and the rank will go on by itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec.structs import replace

from gpuwatch.agent.patterns.module_pattern import pattern_of
from gpuwatch.diagnose.model.last_activity import without_bar
from gpuwatch.diagnose.model.verdict import Verdict

MAX_LINES = 20
"""Number of last lines of a file among which the announcement is looked for."""
_BEGINS = pattern_of(
    r"(?i)\b(?:saving|evaluating|validating|compiling|tokeni[sz]ing|preprocessing|uploading|exporting|serializing"
    r"|pushing to|warming up|(?:running|starting|begin(?:ning)?) (?:the )?(?:model )?"
    r"(?:eval(?:uation)?|validation|test|tokeni[sz]er|checkpoint|compilation|export|upload|generation)"
    r"|writing (?:the )?(?:model )?checkpoint"
    r"|(?:eval(?:uation)?|validation) (?:starts|started|begins|loop))\b"
)
_ENDS = pattern_of(
    r"(?i)\b(?:saved|done|finished|completed?|took|written|uploaded|exported|failed|error)\b|\b100 ?%"
)
_STEPS = pattern_of(r"(?i)\b(?:step|iter|iteration|epoch|loss|it/s)\b")
_RANK = pattern_of(r"(?i)\brank[ :_=#]{0,2}(\d{1,6})\b")
_LEAD = pattern_of(r"^(?:job \S+: )?ranks? [0-9, -]+(?: \([^)]{1,200}\))? (?:is |are )")


def pausing_line(lines: Sequence[str]) -> str | None:
    """Return the line of the last MAX_LINES that announces a pause without a step or end below; else None."""
    for line in reversed(lines[-MAX_LINES:]):
        if _ENDS.search(line) is not None:
            return None
        if _BEGINS.search(line) is not None:
            return without_bar(line)
        if _STEPS.search(line) is not None:
            return None
    return None


def pausing_by_lines(files: Iterable[tuple[Sequence[int], Sequence[str]]]) -> dict[int, str]:
    """Return rank -> the announcement of its pause. `files`: the ranks that write a log, its last lines.

    In a file of several ranks the line may name its rank; else it counts for each of them.
    """
    found: dict[int, str] = {}
    for writers, lines in files:
        line = pausing_line(lines)
        if line is None:
            continue
        named = _RANK.search(line)
        rank = None if named is None else int(named.group(1))
        found.update(dict.fromkeys((rank,) if rank in writers and rank is not None else writers, line))
    return found


def with_pause(stated: Verdict, doing: Mapping[int, str], writing: Mapping[int, str]) -> Verdict:
    """Return the verdict; if all its culprits pause, it says so with low confidence.

    Args:
        stated: The verdict.
        doing: Rank -> the last line by which it announced a pause.
        writing: Rank -> the file that it writes, and how much in how long.
    """
    if (
        not stated.wrong
        or not stated.culprits
        or any(r not in doing and r not in writing for r in stated.culprits)
    ):
        return stated
    first = stated.culprits[0]
    if first in writing:
        what, more = f"writing {writing[first]}", f"it writes {writing[first]}"
    else:
        what, more = f'at "{doing[first]}" by its last line', f"its last line: {doing[first]}"
    lead = _LEAD.search(stated.sentence)
    rest = stated.sentence.partition(", while ")[2]
    sentence = f"{stated.sentence}; {more}"
    if lead is not None:
        sentence = f"{lead.group(0)}{what}" + (f", while {rest}" if rest else "")
    settle = ("its next lines: an evaluation or a checkpoint ends by itself", *stated.settle)
    also = f"{stated.source}: {stated.sentence}"
    return replace(
        stated, sentence=sentence, confidence="low", evidence=(also, *stated.evidence), settle=settle
    )
