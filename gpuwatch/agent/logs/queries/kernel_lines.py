"""The kernel log as a log file: its records are searched by the rules, the newest stored for display."""

from collections import deque

from ...masking.secret_masking import masked
from ..lines.programs import KERNEL, is_about
from ..lines.rows import row
from ..lines.user_words import without_user_words
from ..scanning.scanner import Scanner

TYPE_CHECKING = False
if TYPE_CHECKING:
    import re
    from typing import Any, Callable, Iterable

    from ..files.tails import FollowedTail
    from ..matching.ruleset import RuleSet

NAME = "kernel log"
"""The display name of the kernel log, `wire.KERNEL_LOG`; offsets count records."""
KEPT_RECORDS = 4000


class KernelLines(object):
    """The kernel log as a log file: searches its records, and stores the newest for display.

    A record is (unix seconds, text). `source`: where they come from; None: unreadable.
    """

    def __init__(
        self,
        ruleset: "RuleSet",
        ids: "Callable[[], int]",
        began: float,
        count: int,
        skipped: "Iterable[list[int]]",
        enter: "Callable[[int], object]",
    ) -> None:
        """Create the log after `count` records, which earlier readers searched, for the rules of the kernel.

        `began`: unix seconds; older records were there before the agent. `skipped`: ranges of records on
        which earlier readers hung; `enter` is called with a record's number before it is searched.
        """
        self.source: str | None = None
        self.tails: list[FollowedTail] = []
        others = (rule.id for rule in ruleset.rules if not is_about(rule.programs, KERNEL))
        ruleset.off_in(NAME).update(others)
        self._scanner = Scanner(ruleset, NAME, ids)
        self._began = began
        self._count = count
        self._skipped = list(skipped)
        self._enter = enter
        self._lines = 0
        self._taken = False
        """True once the first records (perhaps none) were searched."""
        self._grown_at: float | None = None
        self._kept: deque[tuple[int, float, str]] = deque(maxlen=KEPT_RECORDS)

    def take(self, records: "Iterable[tuple[float, str]]", now: float) -> "list[dict[str, Any]]":
        """Search new records of the kernel log and return the findings. `now`: unix seconds."""
        found: list[dict[str, Any]] = []
        self._taken = True
        for t, text in records:
            line = masked(" ".join(without_user_words(text).splitlines()))
            old = t < self._began
            for one in self._search(line, t, old):
                one["timed"] = True  # a record's stamp is the kernel's own
                found.append(one)
            self._kept.append((self._count, t, line))
            self._count += 1
            self._lines += not old
            self._grown_at = t
            for tail in self.tails:
                tail.send([self._row(self._kept[-1], now)])
        return found

    def _search(self, line: str, t: float, old: bool) -> "list[dict[str, Any]]":
        if any(begin <= self._count < end for _, begin, end in self._skipped):
            self._scanner.seam()
            return []
        self._enter(self._count)
        return self._scanner.feed(line.encode("utf-8", "replace") + b"\n", self._count, t, backlog=old)

    def quiet(self, now: float) -> "list[dict[str, Any]]":
        """Return the findings that waited long enough for more lines, and those whose count has grown.

        See `Scanner.quiet`.
        """
        return self._scanner.quiet(now)

    def page(self, offset: "int | None", at: "float | None", before: int, after: int) -> "list[list[Any]]":
        """Return rows of the records around a record number, a time or the end, as far as they are stored.

        Args:
            offset: Number of the record; None: `at` or the end decides.
            at: Unix seconds; takes precedence.
            before: Rows before it.
            after: Rows from it on.
        """
        first = self._kept[0][0] if self._kept else 0
        if at is not None:
            offset = next((number for number, t, _ in self._kept if t >= at), self._count)
        place = (self._count if offset is None else offset) - first
        rows = [self._row(one, None) for one in self._kept]
        place = max(0, min(place, len(rows)))
        return rows[max(0, place - before) : place + after]

    @property
    def size(self) -> int:
        """Return the number of records so far."""
        return self._count

    def matching(self, pattern: "re.Pattern[str]", limit: int) -> "list[list[Any]]":
        """Return at most `limit` rows of the stored records that match a pattern."""
        return [self._row(one, None) for one in self._kept if pattern.search(one[2])][:limit]

    def row(self) -> "dict[str, Any] | None":
        """Return the kernel log as a dict with the keys of `wire.LogFile`; None if it is unreadable."""
        if self.source is None:
            return None
        row: dict[str, Any] = {"path": NAME, "source": "kernel", "size": self._count, "lines": self._lines}
        if self._taken and not self._skipped:
            row["searched_to"] = self._count
        if self._grown_at is not None:
            row["grown_at"] = self._grown_at
        return row

    def _row(self, record: "tuple[int, float, str]", arrived: "float | None") -> "list[Any]":
        number, t, text = record
        made = row(number, number + 1, text, arrived)
        made[3] = t
        return made
