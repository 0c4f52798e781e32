"""Holds lines of which only the last one of a file matters, so that the others are not searched.

A rule with `newest` keeps one finding per writer: the newest. A training log reports each of a thousand
checkpoints in the same words. Once a line of a form gave only such a finding, its later lines are held
instead of searched, each replacing the one before, until the file ends.

Lines have the same form if they differ only in digits, and a number 0 is 0 in both: `0 failed` is no failure.
"""

import re

from ...ranks.learned_tags import TAGS
from ..lines.levels import has_stamp
from ..lines.line_ranks import may_name_process
from ..matching.prefilter import form_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..matching.candidate import CandidateLine
    from ..matching.chunk import Chunk
    from ..matching.ruleset import CompiledRule, Phrase

    Held = tuple[Chunk, tuple[int, int], list[tuple[int, Phrase]]]
    """A line of a chunk: its span, and the phrases in it with their offsets."""

MAX_HELD = 8
"""Most lines that are held; each keeps its chunk of half a megabyte in memory."""
MAX_FORMS = 256
_ZERO = re.compile(rb"(?<![0-9.])0(?![0-9.])")


class NewestLines(object):
    """The forms of lines that give only findings of `newest` rules, and the last line of each so far."""

    def __init__(self) -> None:
        self._forms: set[int] = set()
        self._held: dict[int, Held] = {}

    def note(
        self,
        raw: bytes,
        line: "CandidateLine",
        matched: "list[tuple[CompiledRule, str]]",
        found: "list[tuple[CompiledRule, dict[str, Any]]]",
    ) -> None:
        """Learn the form of a searched line, if a later line with it supersedes the line's findings.

        `matched`: the rules that matched, accepted or not, with the text; `found`: those accepted, with their
        findings.
        """
        is_newest = bool(found) and all(rule.newest and not finding["fields"] for rule, finding in found)
        is_steady = all(rule.after is None for rule, _ in matched)
        if is_newest and is_steady and len(self._forms) < MAX_FORMS and _is_anonymous(line):
            self._forms.add(_form(raw))

    def hold(self, raw: bytes, held: "Held") -> bool:
        """Hold a line instead of the last one of its form; return False if it has to be searched."""
        form = _form(raw) if self._forms else None
        if form is None or form not in self._forms:
            return False
        self._held[form] = held
        return True

    @property
    def is_full(self) -> bool:
        """Return True if so many lines are held that they should be taken and searched."""
        return len(self._held) >= MAX_HELD

    def take(self) -> "list[Held]":
        """Remove the held lines and return them, in file order; the next line of each form is searched."""
        held = sorted(self._held.values(), key=_offset)
        self._held.clear()
        self._forms.clear()
        return held


def _form(raw: bytes) -> int:
    return form_of(_ZERO.sub(b"\0", raw))


def _offset(held: "Held") -> int:
    chunk, span, _ = held
    return chunk.offset_of(span[0])


def _is_anonymous(line: "CandidateLine") -> bool:
    """Return True if a line is a record by itself that names no process, whatever its digits."""
    if len(line.stated) != 1 or line.parts or line.left_out or TAGS or b'{"' in line.data:
        return False
    text, by = line.stated[0]
    named = (by.rank, by.local_rank, by.host, by.pid, by.task)
    is_apart = has_stamp(line.text) and line.text[:2] != "> "  # then the lines around it do not change it
    return is_apart and not any(each is not None for each in named) and not may_name_process(text)
