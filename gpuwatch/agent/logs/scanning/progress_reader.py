"""Reads training progress of one log file: its newest lines' values, one frame per writer and tick."""

import re
from math import isfinite

from ..lines.normalise import messages
from ..lines.splitter import line_text
from ..lines.timestamps import TIME_CHARS, time_of
from ..matching.finding import whose
from ..matching.record_rank import read_message
from ..progress.history_lines import Past, evenly
from ..progress.latest_lines import Newest
from ..progress.request_counts import REQUEST_FIELDS, RequestCounts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Iterator

    from ..lines.line_ranks import LineRanks as Ranks
    from ..lines.prefixes import Speaker
    from ..matching.matcher import LineMatcher
    from ..matching.prefilter import Prefilter
    from ..progress.dialect import CompiledDialect, ProgressReading
    from .table_prefilter import TablePrefilter

    Writer = tuple[tuple[Any, ...], dict[str, Any]]

MAX_REPORTED = 64
"""Frames of one file and tick; other writers wait for the next one, then with newer values."""
MAX_WRITERS = 1024
CURVES = ("loss", "grad_norm", "tokens_per_s", "samples_per_s", "step_time_s")
"""Fields of a past step, in the order of `wire.PastStep`."""
MAX_PAST_TIMERS, TIMERS_S = 64, 600.0
"""Newest past lines whose timers are reported, and their greatest age before the last one (seconds)."""
MAX_BAR_STATES = 4
"""States of a bar on one line that are tried."""

_BAR = re.compile(r"\[[\d:]+<[^\[\]]{0,2000}(?:\[[^\[\]]{0,200}\][^\[\]]{0,2000}){0,8}\]")
"""The end of a tqdm bar: times, speed and postfix."""
_RECORD = re.compile(r".{40,4000}[\])}]\s{0,4}(?=\d{1,3}(?:\.\d+)?%\s?\|)")
"""A record between two bars; shorter text may be a bar's label."""


class ProgressReader(object):
    """Reads the progress values of one file from the lines that `newest` stores, until they are reported."""

    def __init__(
        self,
        file: str,
        search: "LineMatcher",
        prefilter: "Prefilter | TablePrefilter",
        speaker: "Callable[[], dict[str, Any]] | None",
    ) -> None:
        self.newest = Newest()
        self._file = file
        self._search = search
        self._prefilter = prefilter
        self._speaker = speaker
        self._unreported: dict[tuple[Any, ...], dict[str, Any]] = {}
        self._turned: list[dict[str, Any]] = []
        """Frames at a loss's turn to NaN (last finite, first NaN), which newer ones must not replace."""
        self._odd: dict[tuple[Any, ...], bool] = {}
        """Writer -> whether its last loss was not finite."""
        self._first_odd: set[tuple[Any, ...]] = set()
        """Writers whose unreported frame is the first without a finite loss."""
        self._counts: dict[tuple[Any, ...], RequestCounts] = {}
        self._past: Past | None = None
        self._past_reported = False

    def take_from(self, backlog: bool) -> None:
        """Set whether the next lines are from the backlog (True) or live."""
        if backlog and self._past is None and not self._past_reported:
            self._past = Past()
        self.newest.past = self._past if backlog else None

    def frames(self, local_ranks: bool) -> "list[dict[str, Any]]":
        """Return the progress since the last call: dicts with the known keys of `wire.Progress`.

        `local_ranks`: a lone `[rankN]:` of this file is a local rank.
        """
        for offset, arrived, backlog, line, shape, dialects in self.newest.drain():
            known = False
            # for live lines the arrival time is as exact, and right in any time zone
            own = self.written_at(line, arrived) if backlog else None
            at = arrived if own is None else own
            place = {"offset": offset, "at": at, "timed": own is not None, "backlog": backlog}
            stated: dict[Any, set[str]] = {}
            for reading, by, text in self.readings(line, dialects, local_ranks):
                known = True
                writer = self._writer(reading.fields, by, read_message(text, by, line))
                self._take(reading, writer, place, stated)
            if not known and all(dialect.steady for dialect in dialects):
                self._prefilter.no_progress(shape)
        self._count(local_ranks)
        turned, self._turned = self._turned, []
        reported = list(self._unreported)[:MAX_REPORTED]
        self._first_odd.difference_update(reported)
        return turned + [self._unreported.pop(key) for key in reported]

    def _count(self, local_ranks: bool) -> None:
        """Add the counts of all lines about requests to the frames of their writers."""
        lines, weight = self.newest.counted.drain()
        for line, dialects in lines:
            for reading, by, text in self.readings(line, dialects, local_ranks):
                key, _ = self._writer(reading.fields, by, read_message(text, by, line))
                if reading.dialect.counts and (key in self._counts or len(self._counts) < MAX_WRITERS):
                    self._counts.setdefault(key, RequestCounts()).add(reading.fields, weight)
        for key in [key for key in self._counts if key in self._unreported]:
            self._counts.pop(key).put(self._unreported[key])

    def past(self, local_ranks: bool, arrived: float) -> "list[dict[str, Any]]":
        """Return the sampled steps of the backlog, one frame per writer, of at most `MAX_REPORTED` writers.

        Call once, after the backlog was read.
        """
        past, self._past, self.newest.past, self._past_reported = self._past, None, None, True
        writers: dict[tuple[Any, ...], Steps] = {}
        for row, dialects in past.lines() if past is not None else ():
            line = row.line
            own = self.written_at(line, arrived)
            for reading, by, text in self.readings(line, dialects, local_ranks):
                key, who = self._writer(reading.fields, by, read_message(text, by, line))
                if key not in writers and len(writers) < MAX_REPORTED:
                    writers[key] = Steps(who, reading.dialect)
                if key in writers:
                    writers[key].take(reading, own, row.offset)
                    writers[key].take_timers(reading, own)
        for row, dialects in past.latest() if past is not None else ():
            own = self.written_at(row.line, arrived)
            for reading, by, text in self.readings(row.line, dialects, local_ranks) if own else ():
                key, _ = self._writer(reading.fields, by, read_message(text, by, row.line))
                if key in writers:
                    writers[key].take_timers(reading, own)
        return [steps.frame(self._file, arrived) for steps in writers.values() if steps.points]

    def written_at(self, line: bytes, arrived: float) -> "float | None":
        """Return the line's own time (unix seconds); None: it has none."""
        return time_of(line_text(line[:TIME_CHARS]), arrived)

    def readings(
        self, line: bytes, dialects: "list[CompiledDialect]", local_ranks: bool
    ) -> "Iterator[tuple[ProgressReading, Speaker, str]]":
        """Yield the values, writer and text of each message of a line.

        Progress bars come first, their newest state first; once a state of a writer's bars has a step, the
        older ones are left out. `local_ranks`: read `[rankN]:` as a local rank.
        """
        stepped: set[tuple[Any, ...]] = set()
        for text, by, is_bar in newest_first(self._messages(line, dialects, local_ranks)):
            written_by = (by.rank, by.local_rank, by.pid, by.host, by.task)
            if is_bar and written_by in stepped:
                continue
            reading = self._search.reading(dialects, text)
            if reading is not None:
                if is_bar and "step" in reading.fields:
                    stepped.add(written_by)
                yield reading, by, text

    def _messages(
        self, line: bytes, dialects: "list[CompiledDialect]", local_ranks: bool
    ) -> "list[tuple[str, Speaker]]":
        """Return the (text, writer) pairs of a line.

        Of a JSON record without values of its own, those of its messages.
        """
        plain = messages(line, local_ranks, records=False)[0]
        if b"{" not in line or any(self._search.reading(dialects, text) for text, _ in plain):
            return plain
        return messages(line, local_ranks)[0]

    def _writer(self, fields: "dict[str, Any]", by: "Speaker", head: "Ranks") -> "Writer":
        """Return the writer of a line: (key, fields of `wire.Progress` that name it)."""
        who = self.whose(fields, by, head)
        return tuple(who.get(name) for name in ("rank", "local_rank", "pid", "host")) + (by.task,), who

    def whose(self, fields: "dict[str, Any]", by: "Speaker", head: "Ranks | None" = None) -> "dict[str, Any]":
        """Return the fields of `wire.Finding` that name the writer of a line.

        `head`: the ranks in its message.
        """
        return whose(by, fields, self._speaker() if self._speaker is not None else {}, head)

    def _take(
        self,
        reading: "ProgressReading",
        writer: "Writer",
        place: "dict[str, Any]",
        stated: "dict[Any, set[str]]",
    ) -> None:
        """Add the values of a message; `place`: offset and time of its line, as keys of `wire.Progress`."""
        fields = reading.fields
        key, who = writer
        # a record after a bar on its line adds values: the step is the bar's, as total and speed belong to it
        known = stated.setdefault(key, set())
        fields = {name: value for name, value in fields.items() if name not in known}
        known.update(fields)
        fields = {name: value for name, value in fields.items() if name not in REQUEST_FIELDS}
        self._keep_turn(key, fields)
        frame = self._unreported.get(key)
        if frame is None:
            if len(self._unreported) >= MAX_WRITERS:
                return
            frame = self._unreported[key] = {"file": self._file, "fields": {}}
        fields.pop("rank", None)
        frame.update(who, **place)
        if reading.phases:
            frame.setdefault("phases_s", {}).update(reading.phases)
        if "step" in fields or not frame["fields"]:
            frame["dialect"] = reading.dialect.id
            frame["per_epoch"] = reading.dialect.per_epoch
        frame["fields"].update(fields)

    def _keep_turn(self, key: "tuple[Any, ...]", fields: "dict[str, Any]") -> None:
        """Keep the frame of a writer whose loss turns to NaN, so that later frames do not replace it."""
        if "loss" not in fields or "step" not in fields:
            return
        odd = not isfinite(float(fields["loss"]))
        turns = odd and self._odd.get(key) is False
        if (turns or key in self._first_odd) and key in self._unreported and len(self._turned) < MAX_REPORTED:
            self._turned.append(self._unreported.pop(key))
        self._first_odd.discard(key)
        if turns:
            self._first_odd.add(key)
        if key in self._odd or len(self._odd) < MAX_WRITERS:
            self._odd[key] = odd


def newest_first(stated: "list[tuple[str, Speaker]]") -> "list[tuple[str, Speaker, bool]]":
    """Return (message, writer, whether it is a bar) for the parts of a line: newest bars first.

    Of the bars only the last `MAX_BAR_STATES` are included. They are split where no carriage return separates
    them.
    """
    bars: list[tuple[str, Speaker, bool]] = []
    others: list[tuple[str, Speaker, bool]] = []
    for text, by in stated:
        ends = [bar.end() for bar in _BAR.finditer(text)] if "<" in text else []
        if not ends:
            others.append((text, by, False))
            continue
        ends[-1] = len(text)
        begin = 0
        for end in ends:
            record = _RECORD.match(text, begin, end) if begin else None
            if record is not None:
                others.append((record.group(), by, False))
                begin = record.end()
            bars.append((text[begin:end], by, True))
            begin = end
    return bars[: -MAX_BAR_STATES - 1 : -1] + others


class Steps(object):
    """The past steps of one writer; a line without a step belongs to the previous step."""

    def __init__(self, who: "dict[str, Any]", dialect: "CompiledDialect") -> None:
        self._who = who
        self._dialect = dialect
        self._step: Any = None
        self._total: Any = None
        self.points: list[list[Any]] = []
        """[step, time, *CURVES, offset] each, None where missing."""
        self._timers: dict[float, dict[str, float]] = {}
        """Time of a line (unix seconds) -> its timers in seconds."""

    def take(self, reading: "ProgressReading", at: "float | None", offset: int) -> None:
        """Add the values of the line at `offset`, which was written at `at` (unix seconds)."""
        fields = reading.fields
        if "step" in fields:
            total = fields.get("total_steps", self._total)
            back = self._step is not None and fields["step"] < self._step
            if back and total != self._total and reading.dialect.id.endswith("bar"):
                return  # the bar of an evaluation
            self._step, self._total, self._dialect = fields["step"], total, reading.dialect
        reported = [fields.get(name) for name in CURVES]
        if self._step is None or reported == [None] * len(CURVES):
            return
        if not self.points or self.points[-1][0] != self._step:
            self.points.append([self._step, at] + reported + [offset])
            return
        point = self.points[-1]
        odd = point[2] is not None and not isfinite(float(point[2]))  # stays: other ranks may write the file
        for index, value in enumerate(reported, 2):
            if value is not None and (index > 2 or not odd):
                point[index] = value

    def take_timers(self, reading: "ProgressReading", at: "float | None") -> None:
        """Add the timers of a line that was written at `at` (unix seconds)."""
        if at is not None and reading.phases:
            self._timers.setdefault(at, {}).update(reading.phases)

    def _newest_timers(self) -> "list[list[Any]]":
        """Return [time, timers] of the newest lines with timers, oldest first.

        At most `MAX_PAST_TIMERS`, of the last `TIMERS_S` before the newest.
        """
        newest = sorted(self._timers)[-MAX_PAST_TIMERS:]
        return [[at, self._timers[at]] for at in newest if at >= newest[-1] - TIMERS_S]

    def frame(self, file: str, arrived: float) -> "dict[str, Any]":
        """Return the past steps as a dict with the keys of `wire.Progress`."""
        at = self.points[-1][1]
        return dict(
            self._who, file=file, offset=0, at=arrived if at is None else at, timed=at is not None,
            backlog=True, fields={}, past=evenly(self.points), dialect=self._dialect.id,
            per_epoch=self._dialect.per_epoch, past_timers=self._newest_timers(),
        )  # fmt: skip
