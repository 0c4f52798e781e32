"""Sends the launcher to a node and starts it: the loader's command line, and what it reads first.

The modules keep their own names, so that the launcher can import the agent's modules. The worker's modules
are sent along, for the interpreter that has torch.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from msgspec import Struct

import gpuwatch
from gpuwatch.link.start.bundle import framed, loader_command, packed, pynvml_source, sources
from gpuwatch.link.stream.carrier import CarrierError
from gpuwatch.probe.launcher.connection.lines import START_MARK

ENTRY = "gpuwatch.probe.launcher.launcher"

_HOUSE = Path(gpuwatch.__file__).parent
_PROBE = Path(__file__).parents[2]
_LOG_READER = "gpuwatch.agent.logs"


class ProbeWay(Struct, frozen=True):
    """How the launcher is started on a node: its command, the first input, and a nonce for its start."""

    command: str
    first: bytes
    """The bytes that the command reads before the orders."""
    nonce: str
    mark: str = START_MARK


def probe_way(
    python: str | None,
    activate: str | None,
    deadline_s: float,
    *,
    silence_s: float | None = None,
    modules: Mapping[str, str] | None = None,
) -> ProbeWay:
    """Return the command that starts the launcher on one node, and its input.

    Args:
        python: The node's interpreter in the hosts file; None: the first that is found.
        activate: The shell line in the hosts file that makes torch's Python available.
        deadline_s: Everything on the node is killed after this many seconds.
        silence_s: Everything is also killed after this many seconds without any line, even an empty one;
            None: never.
        modules: Module name -> source text that is sent instead of or beside the installed one (tests).

    Raises:
        CarrierError: `python` contains characters that a shell may interpret.
    """
    nonce = secrets.token_hex(8)
    config = {
        "role": "probe",
        "nonce": nonce,
        "version": gpuwatch.__version__,
        "python": python,
        "activate": activate,
        "deadline_s": deadline_s,
        "silence_s": silence_s,
    }
    try:
        command = loader_command(python)
    except ValueError as error:
        raise CarrierError(str(error), final=True) from error
    return ProbeWay(command, probe_bundle(config, modules), nonce)


def probe_bundle(config: Mapping[str, Any], modules: Mapping[str, str] | None = None) -> bytes:
    """Return the bytes that the loader reads from stdin before the orders.

    Args:
        config: The config of `launcher.run`.
        modules: Module name -> source text that is sent instead of or beside the installed one (tests).
    """
    return framed(
        _installed_body() if modules is None else packed({**_installed(), **modules}, ENTRY), config
    )


@cache
def _installed_body() -> bytes:
    return packed(_installed(), ENTRY)


@cache
def _installed() -> Mapping[str, str]:
    """Return module name -> source of the agent (without log reader), the launcher, the worker and pynvml."""
    agent = sources(_HOUSE / "agent", "gpuwatch.agent")
    return {
        "gpuwatch": _text(_HOUSE / "__init__.py"),
        **{name: text for name, text in agent.items() if not name.startswith(_LOG_READER)},
        "gpuwatch.probe": _text(_PROBE / "__init__.py"),
        **sources(_PROBE / "launcher", "gpuwatch.probe.launcher"),
        **_worker(),
        "pynvml": pynvml_source(),
    }


def _worker() -> Mapping[str, str]:
    files = {f"gpuwatch.probe.{file.stem}": _text(file) for file in sorted(_PROBE.glob("worker*.py"))}
    return {**files, **sources(_PROBE / "ranks", "gpuwatch.probe.ranks")}


def _text(file: Path) -> str:
    return file.read_text("utf-8")
