"""Training progress of one log file: what its newest lines tell, a frame a voice and tick."""

from .finding import whose
from .newest import Newest
from .normalise import messages
from .split import shown
from .stamps import HEAD, time_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable  # noqa: F401 - used in type comments

    from .dialect import Reading  # noqa: F401 - used in type comments
    from .prefixes import Speaker  # noqa: F401 - used in type comments
    from .search import Search  # noqa: F401 - used in type comments
    from .sieve import Sieve  # noqa: F401 - used in type comments

TOLD_AT_ONCE = 64
"""Frames of one file and tick; who has not been told waits for the next one, with newer values then."""
MAX_VOICES = 1024


class Progress(object):
    """Reads the lines that `newest` keeps, and remembers what has not been told."""

    def __init__(self, file, search, sieve, speaker):
        # type: (str, Search, Sieve, Callable[[], dict[str, Any]] | None) -> None
        self.newest = Newest()
        self._file = file
        self._search = search
        self._sieve = sieve
        self._speaker = speaker
        self._untold = {}  # type: dict[tuple[Any, ...], dict[str, Any]]

    def frames(self, local_ranks):
        # type: (bool) -> list[dict[str, Any]]
        """What is new since the last call: dicts with the keys of `wire.Progress` that say something.

        `local_ranks`: a lone `[rankN]:` of this file is a local rank.
        """
        for offset, arrived, backlog, line, shape, dialects in self.newest.drain():
            known = False
            # of what is live the arrival is as exact, and right whatever time zone the line is of
            own = time_of(shown(line[:HEAD]), arrived) if backlog else None
            said = {}  # type: dict[Any, set[str]]
            for text, by in messages(line, local_ranks)[0]:
                reading = self._search.reading(dialects, text)
                if reading is not None:
                    known = True
                    self._take(reading, by, offset, arrived, own, backlog, said)
            if not known and all(dialect.steady for dialect in dialects):
                self._sieve.no_progress(shape)
        told = list(self._untold)[:TOLD_AT_ONCE]
        return [self._untold.pop(key) for key in told]

    def _take(self, reading, by, offset, arrived, own, backlog, said):
        # type: (Reading, Speaker, int, float, float | None, bool, dict[Any, set[str]]) -> None
        fields = reading.fields
        who = whose(by, fields, self._speaker() if self._speaker is not None else {})
        key = tuple(who.get(name) for name in ("rank", "local_rank", "pid", "host")) + (by.task,)
        # a record glued to a bar adds to it: the bar's step is the one that its total and speed are of
        known = said.setdefault(key, set())
        fields = {name: value for name, value in fields.items() if name not in known}
        known.update(fields)
        frame = self._untold.get(key)
        if frame is None:
            if len(self._untold) >= MAX_VOICES:
                return
            frame = self._untold[key] = {"file": self._file, "fields": {}}
        fields.pop("rank", None)
        frame.update(who, offset=offset, at=arrived if own is None else own, timed=own is not None)
        frame["fields"].update(fields)
        if reading.phases:
            frame.setdefault("phases_s", {}).update(reading.phases)
        if "step" in fields or "dialect" not in frame:
            frame["dialect"] = reading.dialect.id
            frame["per_epoch"] = reading.dialect.per_epoch
        frame["backlog"] = backlog
