"""Call tree from sampled stacks in py-spy's raw format; sizes are bounded, control characters removed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from msgspec import Struct

from gpuwatch.number_text import limit_text
from gpuwatch.plain import plain
from gpuwatch.wire import OverlongError, unpacked

MAX_TEXT_BYTES = 8 << 20
MAX_DEPTH = 250
MAX_NAME = 300
"""Most characters of a frame that are kept."""
MAIN = "MainThread"
THREAD = re.compile(r"thread \([^)]*\)(?:: (.*))?$")
LIBRARY = ("/site-packages/", "/dist-packages/", "/lib/python", "<frozen", "<string>")
"""Parts of the paths of library code, which distinguish it from the user's code."""


class ProfileError(ValueError):
    """Raised for a profile that cannot be read."""


class CodeLine(Struct, frozen=True):
    """A place in the code: function, file and line."""

    function: str
    file: str
    line: int | None

    @property
    def own(self) -> bool:
        """Return True if the line is in the user's own code, by its path."""
        return self.file.endswith(".py") and not any(part in self.file for part in LIBRARY)

    @property
    def short(self) -> str:
        """Return `all_reduce (distributed_c10d.py:2810)`."""
        place = self.file.rpartition("/")[2] or "?"
        return f"{self.function} ({place}{'' if self.line is None else f':{self.line}'})"


@dataclass(slots=True)
class StackCall:
    """A call in a tree: its code, its samples (with and without callees), and the calls below it."""

    code: CodeLine
    samples: int = 0
    """Number of samples in the call or in its callees."""
    own_samples: int = 0
    """Number of samples in the call alone (it was the innermost Python frame)."""
    calls: dict[CodeLine, StackCall] = field(default_factory=dict)

    def ordered(self) -> list[StackCall]:
        """Return the callees of the call in source order, so that graphs of two ranks have the same order."""
        return sorted(
            self.calls.values(), key=lambda each: (each.code.file, each.code.line or 0, each.code.function)
        )


@dataclass(slots=True)
class ThreadTree:
    """The call tree of one thread, with the samples of each call."""

    name: str
    root: StackCall

    @property
    def samples(self) -> int:
        """Return the number of samples of the thread."""
        return self.root.samples

    def walk(self) -> Iterator[tuple[StackCall, tuple[CodeLine, ...]]]:
        """Yield every call with its callers, outermost first."""
        open_ones: list[tuple[StackCall, tuple[CodeLine, ...]]] = [(call, ()) for call in self.root.ordered()]
        while open_ones:
            call, above = open_ones.pop()
            yield call, above
            open_ones += [(each, (*above, call.code)) for each in call.calls.values()]


ROOT = CodeLine("all", "", None)


def profile_text(packed: str) -> str:
    """Return the text of `wire.ProcessProfile.packed` (base64 of zlib data).

    Raises:
        ProfileError: The data is damaged, or longer than MAX_TEXT_BYTES.
    """
    try:
        text = unpacked(packed, MAX_TEXT_BYTES)
    except OverlongError as error:
        raise ProfileError(f"a profile of more than {limit_text(MAX_TEXT_BYTES)}") from error
    except ValueError as error:
        raise ProfileError(f"a profile that cannot be read: {error}") from error
    return text.decode("utf-8", "replace")


def threads_of(text: str) -> list[ThreadTree]:
    """Return the threads of a profile: main thread first, then by samples; malformed lines are skipped.

    Args:
        text: One stack per line: `thread (12): NAME;outer (file:1);inner (file:2) 17`.
    """
    found: dict[str, ThreadTree] = {}
    for line in text.split("\n"):
        stack, _, count = line.rpartition(" ")
        if not stack or not count.isascii() or not count.isdecimal() or len(count) > 12:
            continue
        head, *frames = stack.split(";")
        named = THREAD.match(head)
        if named is None:
            frames, name = [head, *frames], MAIN
        else:
            name = plain(named.group(1) or head)[:MAX_NAME]
        tree = found.setdefault(head if named else MAIN, ThreadTree(name, StackCall(ROOT)))
        _add(tree.root, frames[:MAX_DEPTH], int(count))
    return sorted(found.values(), key=lambda each: (each.name != MAIN, -each.samples, each.name))


def _add(root: StackCall, frames: list[str], count: int) -> None:
    root.samples += count
    call = root
    for frame in frames:
        code = _code(frame)
        call = call.calls.setdefault(code, StackCall(code))
        call.samples += count
    call.own_samples += count


def _code(frame: str) -> CodeLine:
    """Return the code of `function (file:line)`; the file and the line may be missing."""
    function, _, place = frame.rpartition(" (")
    if not function or not place.endswith(")"):
        return CodeLine(_name(frame), "", None)
    file, _, line = place[:-1].rpartition(":")
    if line.isascii() and line.isdecimal() and len(line) <= 9 and place[: len(file) + 1].endswith(":"):
        return CodeLine(_name(function), _name(file), int(line))
    return CodeLine(_name(function), _name(place[:-1]), None)


def _name(text: str) -> str:
    return plain(text[: 4 * MAX_NAME])[:MAX_NAME]
