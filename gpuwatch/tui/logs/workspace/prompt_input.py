"""Processes the text in the logs screen's field, while it is typed and when it is entered."""

from __future__ import annotations

from typing import Literal, TypeAlias

from gpuwatch.rules.compiling.check import PatternError
from gpuwatch.rules.compiling.typed_pattern import TypedPattern
from gpuwatch.tui.logs.data.sources import RANK, ChoiceError, choose
from gpuwatch.tui.logs.workspace.workspace import LogWorkspace
from gpuwatch.tui.toolkit.time_input import TimeError, time_typed

Purpose: TypeAlias = Literal["choose", "search", "filter", "time"]
AHEAD_S = 60.0
"""Seconds after now from which on a time leads to now: the clocks of nodes differ by less."""
WRONG = (PatternError, ChoiceError, TimeError)
"""Exceptions that `try_out` and `enter` raise; the message explains what is wrong with the text."""


def try_out(workspace: LogWorkspace, purpose: Purpose, text: str) -> str:
    """Check a text that is being typed; return what to show about it, or "". A filter is applied at once.

    Raises:
        WRONG: The text is invalid as it is.
    """
    if purpose == "filter":
        workspace.opened.set_filter(text)
        return workspace.opened.filter_note
    if purpose == "search":
        TypedPattern(text)
        if names_rank(text):
            return "shows this rank's logs"
    elif text.strip() and purpose == "choose":
        found = choose(text, workspace.view_state.fleet, workspace.special)
        return f"{len(found)} log{'s' * (len(found) != 1)}"
    elif text.strip() and _time(workspace, text) > workspace.view_state.wall() + AHEAD_S:
        return "not yet: the newest lines"
    return ""


def enter(workspace: LogWorkspace, purpose: Purpose, text: str) -> None:
    """Execute an entered text; an empty search ends the current one, and `rank=85` selects logs.

    Raises:
        WRONG: The text is invalid.
    """
    match purpose:
        case "choose":
            workspace.choose(text)
        case "filter":
            workspace.opened.set_filter(text)
        case "time":
            at, wall = _time(workspace, text), workspace.view_state.wall()
            workspace.opened.go_to_time(wall if at > wall + AHEAD_S else at)
        case "search" if names_rank(text):
            workspace.choose(text)
        case "search" if text:
            workspace.searching.start_search(text)
        case "search":
            workspace.searching.end_search()


def names_rank(text: str) -> bool:
    """Return True for `rank=85`, which selects this rank's logs, as it selects the rank in the fleet view."""
    return RANK.match(text.strip()) is not None


def _time(workspace: LogWorkspace, text: str) -> float:
    wall = workspace.view_state.wall()
    return time_typed(text, wall if workspace.opened.time is None else workspace.opened.time, wall)
