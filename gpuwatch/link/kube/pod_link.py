"""The link to a pod: an agent in its container, or its logs alone where `kubectl exec` is refused."""

from __future__ import annotations

import re
import threading

from msgspec.structs import replace

from gpuwatch.hosts.plan import NodeSpec, Plan
from gpuwatch.link.agent.agent_link import AgentLink, LinkContext
from gpuwatch.link.kube.logs_only import LogsOnlyLink, PodFrames
from gpuwatch.link.stream.carrier import Dialer
from gpuwatch.link.stream.inbox import Arrival, LinkStatus
from gpuwatch.link.stream.link import Link
from gpuwatch.wire import AnyRequest, GpuInfo, Hello

REFUSED = re.compile(
    r"\(Forbidden\)|cannot create resource \S*pods/exec|denied the request"  # access rules of the API server
    r"|cannot exec into a container in a completed pod"
    r"|executable file not found|exec: \S*/bin/sh\S*: |stat /bin/sh"  # an image without a shell
)
"""Messages of kubectl for a container that cannot be entered, now or later."""


class PodLink:
    """The link to a pod: enters the pod or, once that is refused, follows its logs.

    `retry` tries to enter it again.
    """

    def __init__(self, spec: NodeSpec, dialer: Dialer, local: Dialer, plan: Plan, board: LinkContext) -> None:
        """Create the link; `start` connects.

        Args:
            spec: The pod.
            dialer: Runs a command by `kubectl exec`.
            local: Starts an agent on this machine.
            plan: The session's.
            board: Shared by all links.
        """
        self.node = spec.name
        self._spec, self._plan, self._board = spec, plan, board
        self._dialer, self._local = dialer, local
        self._gpus: list[GpuInfo] = []
        self._lock = threading.Lock()
        self._closed = False
        self._link: Link = self._entering()
        self._logs_only = False

    def _entering(self) -> AgentLink:
        return AgentLink(self._spec, self._dialer, replace(self._board, inbox=self))

    def put(self, arrival: Arrival) -> None:
        """Pass on what the agent in the container sends; if entry is refused, follow the pod's logs."""
        what = arrival.what
        if isinstance(what, Hello) and what.gpus:
            self._gpus = what.gpus
        if isinstance(what, LinkStatus) and what.phase == "lost" and REFUSED.search(what.reason):
            threading.Thread(target=self._change, args=(what.reason,), name="pod logs", daemon=True).start()
            return
        if not self._logs_only:
            self._board.inbox.put(arrival)

    def _change(self, reason: str) -> None:
        with self._lock:
            if self._closed or self._logs_only:
                return
            entering, self._logs_only = self._link, True
            sink = PodFrames(self.node, reason, self._gpus, self._board.inbox)
            self._link = LogsOnlyLink(self._spec, self._plan, self._local, self._board, sink)
            self._link.start()
        entering.close()

    def start(self) -> None:
        """Connect; does not block."""
        self._link.start()

    def send(self, request: AnyRequest) -> bool:
        """Send a request to the agent; return False if it cannot be answered now."""
        return self._link.send(request)

    def retry(self) -> None:
        """Connect now; a pod of which only the logs are followed is entered, if that is allowed by now."""
        with self._lock:
            if self._closed or not self._logs_only:
                self._link.retry()
                return
            following, self._logs_only = self._link, False
            self._link = self._entering()
            self._link.start()
        following.close()

    def hang_up(self, reason: str) -> None:
        """Close the connection for a reason; it is opened again."""
        self._link.hang_up(reason)

    def close(self) -> None:
        """End the agent in the pod and the processes here that serve the pod."""
        with self._lock:
            self._closed = True
            link = self._link
        link.close()
