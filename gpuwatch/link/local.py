"""The `local` link: an agent on this machine, run by the interpreter that runs gpuwatch."""

from __future__ import annotations

import sys

from gpuwatch.link.child_process import ChildCarrier
from gpuwatch.link.start.bundle import loader_argv
from gpuwatch.link.stream.carrier import Carrier


def dial_local(command: str) -> Carrier:  # noqa: ARG001 - dialers are given the shell line; no shell here
    """Start the loader directly: the interpreter is known, so nothing has to be looked for."""
    return ChildCarrier(loader_argv(sys.executable))
