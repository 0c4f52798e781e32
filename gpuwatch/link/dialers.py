"""Creates the dialer of each node by its kind of link."""

from __future__ import annotations

import contextlib
import resource
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from gpuwatch.hosts.plan import NodeSpec, Plan
from gpuwatch.link.child_process import ChildCarrier
from gpuwatch.link.command import CommandDialer
from gpuwatch.link.start.bundle import loader_argv
from gpuwatch.link.stream.carrier import Carrier, Dialer
from gpuwatch.link.stream.options import Ask, LinkOptions

if TYPE_CHECKING:
    from gpuwatch.link.ssh.dialing import SshDialing
    from gpuwatch.link.ssh.on_demand import OnDemandDialer

PER_LINK = 8
"""Open files per link.

Six for a child process, its pidfd and its wake-up pipe, some only during the start.
"""
OWN_DESCRIPTORS = 256


class Dialers:
    """A dialer for every node of a plan that is reached by a connection: not for demo or Prometheus nodes."""

    def __init__(self, plan: Plan, options: LinkOptions, ask: Ask | None = None) -> None:
        """Create the dialers. All prompts to the user happen here.

        Raises:
            CarrierError: A requested option cannot be used.
        """
        real = [spec for spec in plan.nodes if spec.link not in ("demo", "prometheus")]
        make_room(len(real))
        self._ssh: SshDialing | None = None
        self._of: dict[str, Dialer] = {}
        self._options = options
        self._on_demand: dict[str, OnDemandDialer] = {}
        over_ssh = [spec for spec in real if spec.link == "ssh"]
        if over_ssh:
            from gpuwatch.link.ssh.dialing import SshDialing  # noqa: PLC0415 - paramiko is 100 ms

            self._ssh = SshDialing(over_ssh, options, ask)
            self._of = {spec.name: self._ssh.dialer(spec) for spec in over_ssh}
        for spec in real:
            if spec.link in BY_CHILD_PROCESS:
                self._of[spec.name] = BY_CHILD_PROCESS[spec.link](spec)

    def of(self, node: str) -> Dialer | None:
        """Return the dialer of this node; None for a node of the demo or Prometheus, or an unknown one."""
        return self._of.get(node)

    def on_demand(self, spec: NodeSpec) -> Dialer:
        """Return a dialer over ssh for a node that had none; `of` returns it from now on."""
        from gpuwatch.link.ssh.on_demand import OnDemandDialer  # noqa: PLC0415 - paramiko is 100 ms

        found = self._on_demand.get(spec.name)
        if found is None:
            found = self._of[spec.name] = self._on_demand[spec.name] = OnDemandDialer(spec, self._options)
        return found

    def close(self) -> None:
        """Abort connections in progress."""
        for each in list(self._on_demand.values()):
            each.close()
        if self._ssh is not None:
            self._ssh.close()


def dial_local(command: str) -> Carrier:  # noqa: ARG001 - dialers are given the shell line; no shell here
    """Start the agent of this machine with gpuwatch's own interpreter; `command` is not used."""
    return ChildCarrier(loader_argv(sys.executable))


BY_CHILD_PROCESS: Mapping[str, Callable[[NodeSpec], Dialer]] = {
    "command": CommandDialer,
    "local": lambda _spec: dial_local,
}
"""Kind of link -> its dialer, for links over a child process."""


def make_room(links: int) -> None:
    """Raise this process's soft limit of open files so that `links` links fit, as far as allowed."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = OWN_DESCRIPTORS + PER_LINK * links
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return
    allowed = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    with contextlib.suppress(
        OSError, ValueError
    ):  # refused (macOS has its own limit): a dial then reports it
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
