"""An action: one command that a person may have run, with what it hits. Pure data."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from gpuwatch.plain import plain

ActionKind: TypeAlias = Literal[
    "drain", "cordon", "requeue", "cancel", "delete_pod", "end_rank", "kill_rank", "reset_gpu"
]
Confirmed: TypeAlias = Literal["node", "job", "rank", "pod"]
"""What a person types to confirm: the name of a node or pod, the id of a job, the number of a rank."""
NOT_IN_REASON: Final = re.compile(r"[^A-Za-z0-9 ,.:_/-]")
MAX_REASON_CHARS = 120
OWN_REASON = "gpuwatch"


@dataclass(frozen=True)
class ActionTarget:
    """What the cursor is on; what is not known or not meant is None."""

    node: str | None = None
    gpu: int | None = None
    """Index on the node."""
    rank: int | None = None
    job: str | None = None
    """As the fleet names it."""
    incident: str | None = None
    """The id of the incident that this is about, in whose notes the result is written."""
    about: str = ""
    """Class and place of the incident, for the reason of a drain."""


@dataclass(frozen=True)
class SignalledProcess:
    """The process that an action ends; before it runs, the node must still list the very same one."""

    node: str
    pid: int
    start: float | None
    """Unix seconds of the node's clock, as its agent reports it."""


@dataclass(frozen=True)
class Action:
    """One command, not run yet."""

    kind: ActionKind
    title: str
    argv: tuple[str, ...]
    """What runs, as it is given to the operating system or quoted for the node's login shell."""
    command: str
    """The line that does the same when it is pasted into a shell on this machine."""
    confirm: str
    """What must be typed."""
    confirm_what: Confirmed
    node: str | None = None
    """Where it runs, over the node's link; None: on this machine."""
    hits: tuple[str, ...] = ()
    """What it does to ranks, jobs, GPUs and nodes, a line each."""
    undo: str = ""
    """The command that takes it back; empty: nothing does."""
    process: SignalledProcess | None = None

    @property
    def where(self) -> str:
        """Where it runs, in words."""
        return "on this machine" if self.node is None else f"on {self.node}, over its link"


@dataclass(frozen=True)
class ActionOutcome:
    """How a command ended."""

    exit_status: int | None
    """None: not known; then `problem` states why."""
    output: str = ""
    """What it printed, without control characters, its last lines."""
    problem: str = ""

    @property
    def sentence(self) -> str:
        """The outcome in one line, without the output."""
        if self.exit_status is None:
            return self.problem or "its exit status is not known"
        ended = f"exit status {self.exit_status}"
        return f"{ended}; {self.problem}" if self.problem else ended


def safe_reason(text: str) -> str:
    """A reason that every shell and Slurm's own parser take as one word: others than plain characters go."""
    kept = NOT_IN_REASON.sub(" ", plain(text))
    return " ".join(kept.split())[:MAX_REASON_CHARS].strip() or OWN_REASON
