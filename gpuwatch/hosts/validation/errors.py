"""The problems of a source of nodes: all at once, in the order of the file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from msgspec import Struct

from gpuwatch.hosts.validation.nearest_word import nearest

SHOWN_LENGTH = 60
NAMES_IN_A_SOURCE = 200_000


class HostsError(Exception):
    """Raised for a source of nodes that cannot be used.

    `problems` are whole lines: `hosts.yaml:14:5: text` if a position is known, else `source: text`.
    """

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = tuple(problems)


class TextPosition(Struct, frozen=True, order=True):
    """A position in a text; line and column count from 1."""

    line: int
    column: int

    def right(self, columns: int) -> TextPosition:
        """Return the position `columns` columns to the right on the same line."""
        return TextPosition(self.line, self.column + columns)


class Problems:
    """Collects all problems of one source, so that the user can fix them in one go.

    It also limits the number of node names that the source may contain, repetitions and members of groups
    included: many large ranges in a small file would otherwise take hours.
    """

    def __init__(self, source: str) -> None:
        self.source = source
        self._found: dict[
            tuple[TextPosition, str], None
        ] = {}  # a mistake under an alias is met more than once
        self._subject = "the file"
        self.names_left = NAMES_IN_A_SOURCE

    def add(self, place: TextPosition, text: str) -> None:
        """Add a problem; foreign strings in `text` must have passed through `shown` or `escaped`."""
        self._found[place, text] = None

    def refuse(self, place: TextPosition, text: str) -> None:
        """Add a problem of the value now being read: its key, then `text`, such as `must be a list`."""
        self.add(place, f"{self._subject} {text}")

    @contextmanager
    def about(self, key: str) -> Iterator[None]:
        """Make the messages of `refuse` begin with `key` within the `with` block."""
        before, self._subject = self._subject, shown(key)
        yield
        self._subject = before

    def __len__(self) -> int:
        return len(self._found)

    def raise_any(self) -> None:
        """Raise all collected problems, sorted by position; does nothing if there are none.

        Raises:
            HostsError: There is at least one problem.
        """
        if self._found:
            source = escaped(self.source)
            lines = [f"{source}:{at.line}:{at.column}: {text}" for at, text in sorted(self._found)]
            raise HostsError(lines)


def escaped(text: str) -> str:
    r"""Return the text with every unprintable character written as an escape such as `\x1b`."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def shown(text: str) -> str:
    """Return a foreign string for a message: secrets masked, cut to 60 characters, escaped and quoted."""
    from gpuwatch.agent.masking.secret_masking import masked  # noqa: PLC0415 - messages alone need its patterns

    text = masked(text)
    cut = text if len(text) <= SHOWN_LENGTH else text[:SHOWN_LENGTH] + "..."
    return f"'{escaped(cut)}'"


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return `, did you mean 'x'?` for the most similar known word, or "" if none is similar."""
    close = nearest(word, known)
    return f", did you mean '{escaped(close)}'?" if close else ""
