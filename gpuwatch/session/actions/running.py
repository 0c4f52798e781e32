"""Checks and starts a session's confirmed actions, and adds their results to the incidents as notes."""

from __future__ import annotations

from collections.abc import Callable

from gpuwatch.diagnose.actions.action import Action, ActionOutcome, ActionTarget, SignalledProcess
from gpuwatch.diagnose.actions.offers import possible_actions
from gpuwatch.fleet.fleet import Fleet
from gpuwatch.link.stream.carrier import CarrierError, Dialer
from gpuwatch.session.actions.execution import ActionRun, run_of

MAX_NOTED_CHARS = 600
"""Most characters of a command's output in a note."""
Note = Callable[[str, str], str | None]
"""A function (incident id, text) that adds a note; returns None, or why other cockpits cannot see it."""


class RefusedActionError(Exception):
    """The action was refused; the message is one sentence."""


class RunningActions:
    """The running actions of a session. `begin` starts one.

    `update` after every poll and `close` add notes.
    """

    def __init__(self, note: Note, dialer: Callable[[str], Dialer | None]) -> None:
        """Create the set of running actions, empty.

        Args:
            note: Adds a note to an incident: incident id, text.
            dialer: Returns what opens a carrier to the node of this name; None: no carrier.
        """
        self._note, self._dialer = note, dialer
        self._under_way: list[tuple[ActionRun, str | None]] = []

    def begin(self, action: Action, target: ActionTarget, fleet: Fleet) -> ActionRun:
        """Start a confirmed action without blocking, and return its run.

        Raises:
            RefusedActionError: the action is not or no longer possible, or cannot be started.
        """
        refuse_unless_possible(action, target, fleet)
        spec = None if action.node is None else fleet.nodes[action.node].spec
        try:
            run = run_of(action, spec, self._dialer(action.node) if action.node is not None else None)
        except CarrierError as error:
            raise RefusedActionError(str(error)) from error
        self._under_way.append((run, target.incident))
        run.start()
        return run

    def update(self) -> bool:
        """Add notes for the actions that have ended; return True if any has."""
        ended = [each for each in self._under_way if each[0].outcome is not None]
        self._under_way = [each for each in self._under_way if each not in ended]
        for run, incident in ended:
            if incident is not None and run.outcome is not None:
                self._note(incident, noted(run.action, run.outcome))
        return bool(ended)

    def close(self) -> None:
        """Add notes for the ended actions, and for those that still run: their result is unknown."""
        self.update()
        for run, incident in self._under_way:
            if incident is not None:
                unknown = ActionOutcome(None, problem="gpuwatch ended before the action did")
                self._note(incident, noted(run.action, unknown))
        self._under_way = []


def refuse_unless_possible(action: Action, target: ActionTarget, fleet: Fleet) -> None:
    """Check after the confirmation that the action is still possible: ranks end and pids are reused.

    Raises:
        RefusedActionError: with the reason.
    """
    links = {spec.link for spec in fleet.plan.nodes}
    if "demo" in links:
        raise RefusedActionError("this is the demo: nothing is run")
    if not fleet.plan.actions:
        raise RefusedActionError("the hosts file has actions: off")
    if action.process is not None:
        _refuse_another_process(action.process, fleet)
    now = {each.argv: each for each in possible_actions(target, fleet)}
    same = now.get(action.argv)
    compared = (action.confirm, action.process, action.node, action.hits)
    if same is None or (same.confirm, same.process, same.node, same.hits) != compared:
        raise RefusedActionError("what this action affects has changed: check it again")


def _refuse_another_process(process: SignalledProcess, fleet: Fleet) -> None:
    node = fleet.nodes.get(process.node)
    if node is None or node.link.phase != "live":
        raise RefusedActionError(
            f"{process.node} is not connected: whether the process is the same is not known"
        )
    if node.agent_since is None or node.processes_at is None or node.processes_at < node.agent_since:
        raise RefusedActionError(f"{process.node} has listed no processes since it was connected")
    if process.start is None:
        raise RefusedActionError(
            f"{process.node} does not state when process {process.pid} started: it may be another one"
        )
    if not any((each.pid, each.start) == (process.pid, process.start) for each in node.processes):
        raise RefusedActionError(f"process {process.pid} on {process.node} has ended")


def noted(action: Action, outcome: ActionOutcome) -> str:
    """Return the text of a note: command, result, and the end of the output."""
    output = outcome.output.replace("\n", " | ")
    if len(output) > MAX_NOTED_CHARS:
        output = "... " + output[-MAX_NOTED_CHARS:]
    words = f"ran {action.where}: {action.command} -> {outcome.sentence}"
    return f"{words}; output: {output}" if output else words
