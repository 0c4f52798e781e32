"""The frames of a pod whose logs alone can be read: those of an agent on this machine over their copy."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from gpuwatch.hosts.plan import NodeSpec, Plan
from gpuwatch.link.agent.agent_link import AgentLink, LinkContext
from gpuwatch.link.kube.log_copy import LogCopy
from gpuwatch.link.start.log_settings import LogConfig
from gpuwatch.link.stream.carrier import Dialer
from gpuwatch.link.stream.inbox import Arrival, ArrivalSink, Content, LinkStatus
from gpuwatch.wire import (
    AnyRequest,
    Cancel,
    Event,
    GpuInfo,
    Hello,
    Notice,
    Ping,
    Ranks,
    ReadLines,
    Sample,
    Search,
    SetInterval,
    Tail,
)

ABOUT_LOGS = (Tail, ReadLines, Search, Cancel, Ping, SetInterval)
"""Requests that concern the copied log only; any other would be about this machine."""
REMEDY = "Allow `create` on `pods/exec` in the namespace to see GPUs, ranks and processes."


class CopiedLogConfig(LogConfig):
    """The log settings of an agent that reads only the copied log, and nothing else of this machine."""

    def __init__(self, plan: Plan, folder: Path) -> None:
        super().__init__(replace(plan, logs=(f"{folder}/*.log",), log_options=(), discover=False))
        self._nothing = str(folder / "nothing")

    def config(self, node: str) -> dict[str, Any]:
        """Return the log settings of the agent, with empty folders in place of /proc and /sys."""
        nothing = {"proc": self._nothing, "sys": self._nothing, "kmsg": "/dev/null"}
        return {**super().config(node), **nothing}


class PodFrames:
    """The inbox of an agent that reads a copied log: passes on only what is about the log."""

    def __init__(self, node: str, reason: str, gpus: Sequence[GpuInfo], inbox: ArrivalSink) -> None:
        """Create the inbox.

        Args:
            node: The pod.
            reason: Why it cannot be entered.
            gpus: Those that it reported while it could be entered.
            inbox: Of the session.
        """
        self._node, self._reason, self._inbox = node, reason, inbox
        self._gpus = list(gpus)

    def put(self, arrival: Arrival) -> None:
        """Put an item into the inbox without what it reports about this machine; an `Event` is dropped."""
        what: Content = arrival.what
        match what:
            case LinkStatus():
                reason = "; ".join(part for part in (self._reason, what.reason) if part)
                what = replace(what, reason=f"logs only: {reason}")
            case Hello():
                notice = Notice("logs_only", f"logs only, by kubectl logs: {self._reason}", "warning", REMEDY)
                what = Hello(
                    t=what.t, seq=what.seq, host=self._node, agent=what.agent, python=what.python,
                    pid=what.pid, interval_s=what.interval_s, gpus=self._gpus, notices=[notice],
                )  # fmt: skip
            case Sample():
                what = Sample(t=what.t, seq=what.seq)
            case Ranks():
                what = Ranks(t=what.t, seq=what.seq)
            case Event():
                return
        self._inbox.put(replace(arrival, what=what))


class LogsOnlyLink:
    """The link to a pod by `kubectl logs`. Nothing is written but the copy, in a private folder."""

    def __init__(
        self, spec: NodeSpec, plan: Plan, local: Dialer, board: LinkContext, sink: ArrivalSink
    ) -> None:
        """Create the link and its private folder.

        Args:
            spec: The pod; its `command` is that of `kubectl exec`.
            plan: The session's.
            local: Starts an agent on this machine.
            board: Shared by all links.
            sink: Takes the frames (`PodFrames`).
        """
        self.node = spec.name
        self._folder = Path(tempfile.mkdtemp(prefix="gpuwatch-pod-"))
        (self._folder / "nothing").mkdir()
        self._copy = LogCopy(logs_command(spec), self._folder / f"{spec.name}.log", self._copying)
        self._sink = sink
        self._following = self._interrupted = False
        context = replace(board, inbox=sink, logs=CopiedLogConfig(plan, self._folder))
        self._agent = AgentLink(NodeSpec(spec.name, link="local"), local, context)

    def start(self) -> None:
        """Start kubectl, and the agent once kubectl runs."""
        self._copy.start()

    def _copying(self, problem: str, retry_at: float) -> None:
        if problem:
            self._interrupted = True
            status = LinkStatus("lost", f"kubectl logs: {problem}", retry_at)
            self._sink.put(Arrival(self.node, time.monotonic(), status))
        elif not self._following:
            self._following, self._interrupted = True, False
            self._agent.start()
        elif self._interrupted:
            self._interrupted = False
            self._agent.hang_up("kubectl logs runs again")

    def send(self, request: AnyRequest) -> bool:
        """Send a request about the log; return False for any other, and if the agent is not live."""
        return isinstance(request, ABOUT_LOGS) and self._agent.send(request)

    def retry(self) -> None:
        """Start the agent now, if it waits for its next attempt."""
        self._agent.retry()

    def hang_up(self, reason: str) -> None:
        """Close the connection to the agent for a reason; it is started again."""
        self._agent.hang_up(reason)

    def close(self) -> None:
        """End kubectl and the agent, and remove the copy."""
        self._copy.close()
        self._agent.close()
        shutil.rmtree(self._folder, ignore_errors=True)


def logs_command(spec: NodeSpec) -> tuple[str, ...]:
    """Return the `kubectl logs` command for the pod and container of a spec's `kubectl exec` command."""
    words = [word for word in spec.command if word not in ("-i", "--")]
    return ("kubectl", "logs", *words[words.index("exec") + 1 :])
