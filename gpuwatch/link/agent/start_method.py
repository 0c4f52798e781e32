"""The two ways to monitor a node: an agent, or nvidia-smi if it has no Python."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from msgspec import Struct

from gpuwatch import __version__
from gpuwatch.link.start.bundle import agent_body, framed, loader_command
from gpuwatch.link.stream.carrier import CarrierError
from gpuwatch.link.stream.frame_stream import FrameStream, ItemStream
from gpuwatch.link.stream.limits import TokenBucket


class StartMethod(Struct, frozen=True):
    """The command that a call runs on a node, and the parser of its output."""

    command: str
    first: Callable[[], bytes]
    """Makes the bytes that the command reads before pings and requests: 370 kB for an agent, not kept."""
    stream: ItemStream
    requests: bool
    """True if requests other than pings are answered."""
    ping_every_s: float | None = None
    """Seconds between pings; None: as the heartbeat needs."""


def agent_start(
    python: str | None,
    settings: Mapping[str, Any],
    modules: Mapping[str, str] | None,
    kept: TokenBucket | None = None,
) -> StartMethod:
    """Return the start method of the agent.

    Args:
        python: The interpreter on the node; None: the first that is found.
        settings: Of the agent's config: `interval_s`, `ping_deadline_s`, `host`, and what `LogConfig` states.
        modules: As for `bundle`.
        kept: Bucket for the node's stored bytes, shared by all its connections.

    Raises:
        CarrierError: `python` contains characters that a shell may interpret.
    """
    nonce = secrets.token_hex(8)
    config = {"nonce": nonce, "version": __version__, **settings}
    try:
        command = loader_command(python)
    except ValueError as error:
        raise CarrierError(str(error), final=True) from error
    first = partial(framed, agent_body(modules), config)
    return StartMethod(command, first, FrameStream(nonce, kept=kept), requests=True)


def smi_start(python: str | None, interval_s: float) -> StartMethod:
    """Return the start method that runs nvidia-smi and reads /proc through /bin/sh.

    Every ping returns the host's values, so one is sent per tick (`interval_s`).
    """
    from gpuwatch.link.smi.shell_script import COMMAND, first_line  # noqa: PLC0415 - only such a node pays for it
    from gpuwatch.link.smi.stream import SmiStream  # noqa: PLC0415 - loaded when it is needed

    nonce = secrets.token_hex(8)
    stream = SmiStream(nonce, interval_s, python)
    return StartMethod(
        COMMAND, partial(first_line, nonce, interval_s), stream, requests=False, ping_every_s=interval_s
    )
