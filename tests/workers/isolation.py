"""Processes, /proc and network of its own for each test process, where the kernel permits that."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from functools import cache

from tests.packages import path_of

ISOLATED = "GPUWATCH_TESTS_ISOLATED"
"""Set where each test process sees no process of another."""
DRIVER_PIDS = "GPUWATCH_DRIVER_PIDS"
"""`own`: the driver's pids are those of the agent's pid namespace, as the fake driver's are."""


@cache
def own_processes() -> tuple[str, ...]:
    """The command that gives another one its own processes and /proc; empty where that fails."""
    user = () if os.geteuid() == 0 else ("--user", "--map-root-user")
    return _if_permitted("unshare", *user, "--pid", "--fork", "--mount-proc", "--kill-child")


def isolated_python() -> str | None:
    """The command line of a Python that sees only what it starts; None where that is not permitted.

    Root alone: in a user namespace the tests of other users' files and processes have no meaning.
    """
    prefix = (*own_processes(), "--net")
    ip = path_of("ip")
    if os.geteuid() != 0 or ip is None or not _if_permitted(*prefix):
        return None
    # Named networks of its own, too: their names hold process ids, which other test processes have as well.
    # The shell stays as the first process of the namespace, where it reaps orphans.
    # Names of hosts resolve where an address other than 127.0.0.1 is there (AI_ADDRCONFIG): Slurm needs that.
    network = f"{ip} link set lo up; {ip} address add 127.0.0.2/8 dev lo"
    script = f'mkdir -p /run/netns && mount -t tmpfs none /run/netns; {network}; "$@"; exit $?'
    return shlex.join([*prefix, "sh", "-c", script, "sh", sys.executable])


def _if_permitted(*prefix: str) -> tuple[str, ...]:
    try:
        tried = subprocess.run([*prefix, "true"], capture_output=True, check=False)
    except FileNotFoundError:
        return ()
    return prefix if tried.returncode == 0 else ()
