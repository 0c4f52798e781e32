"""What is wrong with a source of nodes: all at once, in the order of the file."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

SHOWN_LENGTH = 60
NAMES_IN_A_SOURCE = 200_000


class HostsError(Exception):
    """A source of nodes that cannot be used.

    `problems` are whole lines: `hosts.yaml:14:5: text` where a place is known, else `source: text`.
    """

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = tuple(problems)


@dataclass(frozen=True, order=True)
class TextPosition:
    """A place in a text; line and column count from 1."""

    line: int
    column: int

    def right(self, columns: int) -> TextPosition:
        """The place so many columns further on the same line."""
        return TextPosition(self.line, self.column + columns)


class Problems:
    """Collects what is wrong with one source, so that a person mends everything in one go.

    It also knows how many node names the source may still name, repetitions and members of groups included:
    many large ranges in a small file would otherwise take hours.
    """

    def __init__(self, source: str) -> None:
        self.source = source
        self._found: dict[
            tuple[TextPosition, str], None
        ] = {}  # a mistake under an alias is met more than once
        self._subject = "the file"
        self.names_left = NAMES_IN_A_SOURCE

    def add(self, place: TextPosition, text: str) -> None:
        """Note a problem; its text has passed every foreign string through `shown`."""
        self._found[place, text] = None

    def refuse(self, place: TextPosition, text: str) -> None:
        """Note that the value now being read `must be ...`; the message begins with its key."""
        self.add(place, f"{self._subject} {text}")

    @contextmanager
    def about(self, key: str) -> Iterator[None]:
        """What is refused meanwhile is the value of `key`."""
        before, self._subject = self._subject, shown(key)
        yield
        self._subject = before

    def __len__(self) -> int:
        return len(self._found)

    def raise_any(self) -> None:
        """Raise what was found, sorted by place.

        Raises:
            HostsError: when there is at least one problem.
        """
        if self._found:
            source = escaped(self.source)
            lines = [f"{source}:{at.line}:{at.column}: {text}" for at, text in sorted(self._found)]
            raise HostsError(lines)


def escaped(text: str) -> str:
    """`text` with everything that could steer a terminal written as an escape."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def shown(text: str) -> str:
    """A foreign string in quotes, harmless, without secrets and not too long, for use in a message."""
    from gpuwatch.agent.base.secret_masking import masked  # noqa: PLC0415 - messages alone need its patterns

    text = masked(text)
    cut = text if len(text) <= SHOWN_LENGTH else text[:SHOWN_LENGTH] + "..."
    return f"'{escaped(cut)}'"


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """`, did you mean 'x'?` when a known word is close, else nothing."""
    close = difflib.get_close_matches(word[:SHOWN_LENGTH], list(known), n=1)
    return f", did you mean '{escaped(close[0])}'?" if close else ""
