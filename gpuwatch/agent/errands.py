"""What the cockpit asks for that takes its time: done beside the emitter, one of a kind at a time."""

import threading
from collections import deque

from .flight_files import dump_files, dump_piece
from .flight_pipe import trigger
from .particulars import particulars
from .ras import ras
from .stacks import stacks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable  # noqa: F401 - used in type comments

    from .settings import Settings  # noqa: F401 - used in type comments


class Errands(object):
    """Runs what a request asks for in a thread of its own; the emitter takes the replies when they are there.

    `DOES` is request -> (request, settings) -> data of the reply. An errand that does not come back (a dead
    mount, a process in the kernel) keeps its kind busy and nothing else.
    """

    DOES = {
        "particulars": lambda request, settings: particulars(request, settings.proc),
        "stacks": lambda request, settings: stacks(request, settings.proc),
        "dumps": lambda request, settings: trigger(request, settings.proc),
        "dump_files": lambda request, settings: dump_files(request, settings.proc),
        "dump_piece": lambda request, settings: dump_piece(request, settings.proc),
        "ras": lambda request, settings: ras(request, settings.proc),
    }  # type: dict[str, Callable[[dict[str, Any], Settings], dict[str, Any]]]

    def __init__(self, settings, wake):
        # type: (Settings, Callable[[], None]) -> None
        self._settings = settings
        self._wake = wake
        self._busy = set()  # type: set[str]
        self._replies = deque()  # type: deque[dict[str, Any]]

    def begin(self, wish, request, number):
        # type: (str, dict[str, Any], int) -> str | None
        """Start; or why it cannot be started now."""
        if wish in self._busy:
            return "the same was asked before and is still being done"
        self._busy.add(wish)
        thread = threading.Thread(target=self._run, args=(wish, request, number), name="errand " + wish)
        thread.daemon = True
        thread.start()
        return None

    def take(self):
        # type: () -> list[dict[str, Any]]
        """The replies since the last time."""
        found = []
        while self._replies:
            found.append(self._replies.popleft())
        return found

    def _run(self, wish, request, number):
        # type: (str, dict[str, Any], int) -> None
        reply = {"kind": "reply", "id": number}  # type: dict[str, Any]
        try:
            reply["data"] = self.DOES[wish](request, self._settings)
        except Exception as error:  # told, because nobody sees a daemon thread die
            reply["error"] = "{}: {}".format(type(error).__name__, str(error)[:300])
        self._busy.discard(wish)
        self._replies.append(reply)
        self._wake()
