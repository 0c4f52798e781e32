"""An action: one command that the operator may run, and what it affects. Pure data."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

from msgspec import Struct

from gpuwatch.agent.patterns.module_pattern import pattern_of
from gpuwatch.plain import plain

ActionKind: TypeAlias = Literal[
    "drain", "cordon", "requeue", "cancel", "delete_pod", "end_rank", "kill_rank", "reset_gpu"
]
Confirmed: TypeAlias = Literal["node", "job", "rank", "pod"]
"""The kind of name that the operator types to confirm an action: of a node, job, rank or pod."""
NOT_IN_REASON: Final = pattern_of(r"[^A-Za-z0-9 ,.:_/-]")
MAX_REASON_CHARS = 120
OWN_REASON = "gpuwatch"


class ActionTarget(Struct, frozen=True):
    """The place under the cursor (node, GPU, rank, job), its incident, and the job's ranks that pause.

    None: unknown, or does not apply.
    """

    node: str | None = None
    gpu: int | None = None
    """Index on the node."""
    rank: int | None = None
    job: str | None = None
    """As the fleet names it."""
    incident: str | None = None
    """The id of the incident that the action is about; the result is added to its notes."""
    about: str = ""
    """Failure class and place of the incident, for the `reason` of a Slurm drain."""
    pausing: tuple[int, ...] = ()
    """Ranks of the job that save or evaluate, as their stacks showed: they continue by themselves."""


class SignalledProcess(Struct, frozen=True):
    """The process that an action ends.

    The action is refused unless the node still lists a process with this pid and start.
    """

    node: str
    pid: int
    start: float | None
    """Start of the process in unix seconds of the node's clock, as its agent reports it."""


class Action(Struct, frozen=True):
    """A command that the operator can run (argv, node), its effects, how to confirm it and how to undo it."""

    kind: ActionKind
    title: str
    argv: tuple[str, ...]
    """The arguments: run as they are on this machine, or quoted for the node's login shell."""
    command: str
    """The command line that does the same when it is pasted into a shell on this machine."""
    confirm: str
    """The text that the operator must type to confirm."""
    confirm_what: Confirmed
    node: str | None = None
    """The node on which the command runs, over the node's link; None: this machine."""
    hits: tuple[str, ...] = ()
    """What the command affects (ranks, jobs, GPUs, nodes), one line each."""
    undo: str = ""
    """The command that reverses the action; empty: the action cannot be reversed."""
    process: SignalledProcess | None = None

    @property
    def where(self) -> str:
        """Return `on this machine` or `on NODE, over its link`."""
        return "on this machine" if self.node is None else f"on {self.node}, over its link"


class ActionOutcome(Struct, frozen=True):
    """The outcome of a command: exit status, last lines of output, and what went wrong."""

    exit_status: int | None
    """Exit status of the command; None: unknown, and `problem` gives the reason."""
    output: str = ""
    """The last lines that the command printed, without control characters."""
    problem: str = ""

    @property
    def sentence(self) -> str:
        """Return the outcome in one line, without the output: `exit status 1; PROBLEM`, or only one of both.

        `its exit status is not known` if there is neither.
        """
        if self.exit_status is None:
            return self.problem or "its exit status is not known"
        ended = f"exit status {self.exit_status}"
        return f"{ended}; {self.problem}" if self.problem else ended


def safe_reason(text: str) -> str:
    """Return a reason that every shell and Slurm read as one word; special characters become spaces.

    At most MAX_REASON_CHARS characters; `gpuwatch` if none is left.
    """
    kept = NOT_IN_REASON.sub(" ", plain(text))
    return " ".join(kept.split())[:MAX_REASON_CHARS].strip() or OWN_REASON
