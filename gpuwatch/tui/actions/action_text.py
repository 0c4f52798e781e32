"""Formats an action for a dialog: the command, where it runs, what it affects, how to undo it."""

from __future__ import annotations

from gpuwatch.diagnose.actions.action import Action, ActionTarget
from gpuwatch.tui.toolkit.styles import clean

MAX_HITS = 12


def described(action: Action) -> str:
    """Return one string, safe for a terminal: the action's command, place, effects and undo, a line each.

    At most `MAX_HITS` effects are listed; a last line counts the others.
    """
    hits = [clean(each) for each in action.hits[:MAX_HITS]]
    if len(action.hits) > MAX_HITS:
        hits.append(f"and {len(action.hits) - MAX_HITS} more")
    lines = [clean(action.command), f"runs {clean(action.where)}", "", "What it affects:"]
    lines += [f"  {each}" for each in hits]
    lines += ["", f"To undo: {clean(action.undo)}"] if action.undo else ["", "It cannot be undone."]
    return "\n".join(lines)


def title_of(target: ActionTarget) -> str:
    """Return the title of a target, such as `gpu-003 GPU 5, rank 29`; `this place` for an empty one.

    The job is named only if the target has neither node nor rank.
    """
    node = target.node or ""
    place = node if target.gpu is None else f"{node} GPU {target.gpu}"
    rank = "" if target.rank is None else f"rank {target.rank}"
    job = f"job {target.job}" if target.job is not None and not (place or rank) else ""
    return clean(", ".join(each for each in (place, rank, job) if each) or "this place")
