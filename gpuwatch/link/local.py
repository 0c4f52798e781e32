"""The `local` link: an agent on this machine, run by the interpreter that runs gpuwatch."""

from __future__ import annotations

import sys

from gpuwatch.link.boot import loader_argv
from gpuwatch.link.carrier import Carrier
from gpuwatch.link.child import ChildCarrier


def dial_local(_command: str) -> Carrier:
    """Start the loader with no shell between: the interpreter is known, so nothing has to be looked for."""
    return ChildCarrier(loader_argv(sys.executable))
