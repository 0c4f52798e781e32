"""What the person chose on the command line about connecting, and how to ask them something."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from gpuwatch.hosts.prometheus_target import PrometheusTarget

Ask: TypeAlias = Callable[[str, bool], str]
"""(prompt, secret) -> answer. Called only before a screen starts, never from a link's thread."""


@dataclass(frozen=True)
class LinkOptions:
    """Connection options that hold for every node."""

    accept_new_host_keys: bool = False
    """Record an unknown host key instead of refusing it. A changed key is refused all the same."""
    ask_password: bool = False
    """Ask for one password before the screen starts and use it where keys are not enough."""
    connect_workers: int = 16
    """Logins under way at once; 8-32 is enough, more only adds latency."""
    connect_timeout_s: float = 10.0
    redial_timeout_s: float = 4.0
    """Longest wait for the TCP connection of every dial of a node but the first.

    Linux sends a SYN at 0, 1, 3 and 7 s. With a dial that ends 1 s after the SYN of 3 s, and 8 s at most
    between dials (`RetryPace.most_s`), a rebooted node is found within 9 s of its sshd's return.
    """
    prometheus: PrometheusTarget | None = None
    """Where the nodes whose link is `prometheus` are read from."""
    history: PrometheusTarget | None = None
    """What is asked for the past of the GPUs before gpuwatch was started."""
    ssh_config: str | None = None
    """An ssh_config to read instead of the user's and the system's (`ssh -F`)."""
