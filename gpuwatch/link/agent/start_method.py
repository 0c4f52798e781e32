"""The two ways to learn about a node: an agent, or nvidia-smi where there is no Python for one."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gpuwatch import __version__
from gpuwatch.link.start.bundle import bundle, loader_command
from gpuwatch.link.stream.carrier import CarrierError
from gpuwatch.link.stream.frame_stream import FrameStream, ItemStream
from gpuwatch.link.stream.limits import TokenBucket


@dataclass(frozen=True)
class StartMethod:
    """What one call starts on a node, and how it understands what comes back."""

    command: str
    first: bytes
    """What the command reads before the pings and requests."""
    stream: ItemStream
    requests: bool
    """Whether other requests than pings are answered."""
    ping_every_s: float | None = None
    """None: as often as the heartbeat needs."""


def agent_start(
    python: str | None,
    settings: Mapping[str, Any],
    modules: Mapping[str, str] | None,
    kept: TokenBucket | None = None,
) -> StartMethod:
    """The agent, shipped and started by an interpreter of the node.

    Args:
        python: The interpreter; None: the first that is found.
        settings: Of the agent's config: `interval_s`, `ping_deadline_s`, `host`, and what `LogConfig` states.
        modules: As for `bundle`.
        kept: Of bytes of the node that are kept, over all its connections.

    Raises:
        CarrierError: `python` is no safe path.
    """
    nonce = secrets.token_hex(8)
    config = {"nonce": nonce, "version": __version__, **settings}
    try:
        command = loader_command(python)
    except ValueError as error:
        raise CarrierError(str(error), final=True) from error
    return StartMethod(command, bundle(config, modules), FrameStream(nonce, kept=kept), requests=True)


def smi_start(python: str | None, interval_s: float) -> StartMethod:
    """nvidia-smi and /proc through /bin/sh; every ping brings the host's figures, so there is one a tick."""
    from gpuwatch.link.smi.shell_script import COMMAND, first_line  # noqa: PLC0415 - only such a node pays for it
    from gpuwatch.link.smi.stream import SmiStream  # noqa: PLC0415 - loaded when it is needed

    nonce = secrets.token_hex(8)
    stream = SmiStream(nonce, interval_s, python)
    return StartMethod(
        COMMAND, first_line(nonce, interval_s), stream, requests=False, ping_every_s=interval_s
    )
