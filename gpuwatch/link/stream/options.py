"""The user's connection options from the command line, and the prompt callback."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct

if TYPE_CHECKING:
    from gpuwatch.hosts.prometheus_target import PrometheusTarget

Ask: TypeAlias = Callable[[str, bool], str]
"""(prompt, secret) -> answer. Called only before a screen starts, never from a link's thread."""


class LinkOptions(Struct, frozen=True):
    """The user's connection options, which hold for every node."""

    accept_new_host_keys: bool = False
    """Record an unknown host key instead of refusing it. A changed key is always refused."""
    ask_password: bool = False
    """Ask for one password before the screen starts, for hosts where keys do not suffice."""
    connect_workers: int = 16
    """Concurrent logins; 8-32 suffice, more only add latency."""
    connect_timeout_s: float = 10.0
    redial_timeout_s: float = 4.0
    """Limit of the TCP connect of every attempt except the first, in seconds.

    Linux sends a SYN at 0, 1, 3 and 7 s. With an attempt that ends 1 s after the SYN of 3 s, and 8 s at most
    between attempts (`RetryPace.most_s`), a rebooted node is found within 9 s of its sshd's return.
    """
    prometheus: PrometheusTarget | None = None
    """Source of the nodes whose link is `prometheus`."""
    enter_nodes: bool = True
    """Connect over ssh to a node of `prometheus` whose screen is opened."""
    history: PrometheusTarget | None = None
    """Source of the GPUs' history from before gpuwatch started."""
    ssh_config: str | None = None
    """An ssh_config that replaces the user's and the system's (`ssh -F`)."""
    waits_for_demo: bool = True
    """The session's clock waits for simulated nodes that are late; False: for viewers elsewhere."""
