"""Runs slow requests of the cockpit in threads beside the emitter, one of a kind at a time."""

import threading
from collections import deque
from importlib import import_module

from .hang_evidence.uploaded_pyspy import UploadedProgram

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    from .base.settings import Settings


class BackgroundRequests(object):
    """Runs each slow request in a separate thread; the emitter takes the replies when they are ready.

    `handlers`: command -> function that makes the reply's data. A request that does not return (a dead mount,
    a process in the kernel) blocks only its kind.
    """

    def __init__(self, settings: "Settings", wake: "Callable[[], None]") -> None:
        proc, uploaded = settings.proc, UploadedProgram()
        self.handlers: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
            "lend": uploaded.take,
            "stacks": lambda request: _called("hang_evidence.stacks", "stacks", request, proc, uploaded.path),
            "profile": lambda request: _called(
                "hang_evidence.profile", "profile", request, proc, uploaded.path
            ),
            "kernels": lambda request: _called("hang_evidence.kineto", "kernels", request, proc),
            "dumps": lambda request: _called("hang_evidence.flight_pipe", "trigger", request, proc),
            "dump_files": lambda request: _called("hang_evidence.flight_files", "dump_files", request, proc),
            "dump_piece": lambda request: _called("hang_evidence.flight_files", "dump_piece", request, proc),
            "job_files": lambda request: _called("hang_evidence.job_files", "job_files", request),
            "job_piece": lambda request: _called("hang_evidence.job_files", "job_piece", request),
            "ras": lambda request: _called("hang_evidence.ras", "ras", request, proc),
            "particulars": lambda request: _called(
                "processes.settings_report", "settings_report", request, proc
            ),
            "system": lambda _: {"values": _called("host.system_settings", "system_settings", proc)},
        }
        self._wake = wake
        self._busy: set[str] = set()
        self._replies: deque[dict[str, Any]] = deque()

    def begin(self, command: str, request: "dict[str, Any]", number: int) -> "str | None":
        """Start a request; return why it cannot be started now, or None."""
        if command in self._busy:
            return "the same request is still running"
        self._busy.add(command)
        thread = threading.Thread(
            target=self._run, args=(command, request, number), name="request " + command
        )
        thread.daemon = True
        thread.start()
        return None

    def take(self) -> "list[dict[str, Any]]":
        """Remove the replies that are ready, and return them."""
        found = []
        while self._replies:
            found.append(self._replies.popleft())
        return found

    def _run(self, command: str, request: "dict[str, Any]", number: int) -> None:
        reply: dict[str, Any] = {"kind": "reply", "id": number}
        try:
            reply["data"] = self.handlers[command](request)
        except Exception as error:  # reported, because an exception in a daemon thread is invisible
            reply["error"] = "{}: {}".format(type(error).__name__, str(error)[:300])
        self._busy.discard(command)
        self._replies.append(reply)
        self._wake()


def _called(module: str, name: str, *values: "Any") -> "Any":
    """Import a module, call its function `name` and return the result; most agents never need it."""
    return getattr(import_module("." + module, __package__), name)(*values)
