"""Counts the lines about requests of an inference server: all of them, not only the newest."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .dialect import CompiledDialect
    from .quantities import Fields

MAX_LINES = 512
"""Maximum lines parsed in one tick; further lines are counted like the parsed ones."""
REQUEST_FIELDS = ("requests", "requests_failed", "request_s")
"""Fields that are summed over lines, or listed, instead of the newest value."""


class CountedLines(object):
    """The lines about requests of one tick, all of which are counted, not only the newest."""

    def __init__(self) -> None:
        self._lines: list[tuple[bytes, list[CompiledDialect]]] = []
        self._more = 0

    def take(
        self, lines: "list[bytes]", shapes: "list[bytes]", paced: "dict[bytes, list[CompiledDialect]]"
    ) -> None:
        """Add the lines whose shapes are in `paced` and have dialects that count lines.

        `shapes`: those of all `lines`.
        """
        counted = {
            shape for shape in set(shapes) if shape in paced and any(each.counts for each in paced[shape])
        }
        for index, shape in enumerate(shapes) if counted else ():
            if shape not in counted:
                continue
            if len(self._lines) < MAX_LINES:
                self._lines.append((lines[index], paced[shape]))
            else:
                self._more += 1

    def drain(self) -> "tuple[list[tuple[bytes, list[CompiledDialect]]], float]":
        """Remove the lines and return them: ((line, its dialects) pairs, log lines that each stands for)."""
        lines, more = self._lines, self._more
        self._lines, self._more = [], 0
        return lines, 1.0 + more / float(max(1, len(lines)))


class RequestCounts(object):
    """The counts of requests of one writer that were not reported yet."""

    def __init__(self) -> None:
        self._ended = 0.0
        self._failed = 0.0
        self._latencies_s: list[float] = []

    def add(self, fields: "Fields", weight: float) -> None:
        """Add the request values of a line, which stands for `weight` lines."""
        self._ended += weight
        if "requests_failed" in fields:
            self._failed += weight
        if "request_s" in fields:
            self._latencies_s.append(float(fields["request_s"]))

    def put(self, frame: "dict[str, Any]") -> None:
        """Add the counts to a progress frame (keys of `wire.Progress`)."""
        fields = frame["fields"]
        for name, count in (("requests", self._ended), ("requests_failed", self._failed)):
            if count:
                fields[name] = fields.get(name, 0) + int(round(count))
        if self._latencies_s:
            frame["latencies_s"] = (frame.get("latencies_s", []) + self._latencies_s)[-MAX_LINES:]
