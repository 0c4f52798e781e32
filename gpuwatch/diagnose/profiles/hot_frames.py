"""Time of a thread by function, and the functions in which two ranks differ."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from gpuwatch.diagnose.profiles.call_tree import CodeLine, ThreadTree

MIN_DIFFERENCE_PCT = 3.0
"""Smallest reported difference in percentage points.

1,000 samples (10 s at 100 per second) of 50 % have a standard error of 1.6 points.
"""


class HotFrame(Struct, frozen=True):
    """The time that a thread spent in one function, summed over all callers."""

    code: CodeLine
    """The function, with the line in it that was most often executed."""
    own_pct: float
    """Percent of the thread's samples in which the function was the innermost Python frame."""
    total_pct: float
    """Percent of the samples in which the function was anywhere on the stack."""
    caller: CodeLine | None
    """The nearest user code that called the function most often.

    None: it is user code itself, or none called it.
    """


class FrameDifference(Struct, frozen=True):
    """A function in which two threads spent different shares of their time."""

    code: CodeLine
    caller: CodeLine | None
    own_pct: float
    other_pct: float

    @property
    def points(self) -> float:
        """Return the difference of the own times (first minus second) in percentage points."""
        return self.own_pct - self.other_pct


def hot_frames(tree: ThreadTree) -> list[HotFrame]:
    """Return the functions by own time, largest first."""
    whole = tree.samples
    if not whole:
        return []
    own: dict[tuple[str, str], int] = {}
    total: dict[tuple[str, str], int] = {}
    lines: dict[tuple[str, str], dict[CodeLine, int]] = {}
    callers: dict[tuple[str, str], dict[CodeLine | None, int]] = {}
    for call, above in tree.walk():
        key = (call.code.function, call.code.file)
        if key not in {
            (each.function, each.file) for each in above
        }:  # in a recursion, the outermost call counts
            total[key] = total.get(key, 0) + call.samples
        own[key] = own.get(key, 0) + call.own_samples
        seen = lines.setdefault(key, {})
        seen[call.code] = seen.get(call.code, 0) + call.own_samples
        caller = None if call.code.own else next((each for each in reversed(above) if each.own), None)
        led = callers.setdefault(key, {})
        led[caller] = led.get(caller, 0) + call.samples
    found = [
        HotFrame(
            max(lines[key], key=lambda code: lines[key][code]),
            100.0 * own[key] / whole,
            100.0 * total[key] / whole,
            max(callers[key], key=lambda code: callers[key][code]),
        )
        for key in own
    ]
    return sorted(found, key=lambda each: (-each.own_pct, -each.total_pct, each.code.short))


def differences(mine: Sequence[HotFrame], other: Sequence[HotFrame]) -> list[FrameDifference]:
    """Return the functions whose own times differ by MIN_DIFFERENCE_PCT or more, largest difference first."""
    known = {(each.code.function, each.code.file): each for each in other}
    found = []
    for each in mine:
        match = known.pop((each.code.function, each.code.file), None)
        other_pct = 0.0 if match is None else match.own_pct
        found.append(FrameDifference(each.code, each.caller, each.own_pct, other_pct))
    found += [FrameDifference(each.code, each.caller, 0.0, each.own_pct) for each in known.values()]
    differing = [each for each in found if abs(each.points) >= MIN_DIFFERENCE_PCT]
    return sorted(differing, key=lambda each: (-abs(each.points), each.code.short))
