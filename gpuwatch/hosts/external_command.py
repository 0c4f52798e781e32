"""Runs a scheduler's commands on this machine (scontrol, kubectl), with limits on time and size."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Sequence
from typing import TypeAlias

from gpuwatch.bounded_command import OutputTooLongError, run_bounded
from gpuwatch.hosts.validation.errors import HostsError
from gpuwatch.number_text import limit_text

ANSWER_S = 60.0
"""A busy controller or API server answers late; Ctrl-C ends the wait of a command."""
MAX_BYTES = 64 << 20
RunCommand: TypeAlias = Callable[[Sequence[str]], str]
"""Returns the output of a command; raises `HostsError` if it fails."""


def run_external(argv: Sequence[str]) -> str:
    """Return the standard output of a command as text.

    Raises:
        HostsError: It is not installed, cannot be started, exits with another status than 0, prints more than
            64 MB, or does not end within `ANSWER_S`.
    """
    if shutil.which(argv[0]) is None:
        raise HostsError(
            [f"{argv[0]} is not installed on this machine; run gpuwatch on a machine that has it"]
        )
    try:
        done = run_bounded(
            argv, ANSWER_S, MAX_BYTES, env={**os.environ, "LC_ALL": "C", "SLURM_TIME_FORMAT": "standard"}
        )
    except subprocess.TimeoutExpired:
        raise HostsError([f"{argv[0]} did not answer within {ANSWER_S:g} s"]) from None
    except OutputTooLongError:
        raise HostsError([f"{argv[0]}: printed more than {limit_text(MAX_BYTES)}"]) from None
    except OSError as error:
        raise HostsError([f"{argv[0]}: {error.strerror}"]) from None
    if done.status != 0:
        lines = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise HostsError([f"{argv[0]}: {lines[-1] if lines else f'exit status {done.status}'}"])
    return done.stdout.decode("utf-8", "replace")
