"""A kernel log in place of the machine's, so that no old error of this machine counts in a test or figure."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from tests.workers.isolation import DRIVER_PIDS

VARIABLE = "GPUWATCH_KERNEL_LOG"
"""What agents read instead of /dev/kmsg."""


@contextlib.contextmanager
def empty_kernel_log(folder: Path) -> Iterator[str]:
    """The path of a log without records, open as long as the context: agents read it and find nothing."""
    path = folder / "kmsg"
    os.mkfifo(path)
    held = os.open(path, os.O_RDWR | os.O_NONBLOCK)
    try:
        yield str(path)
    finally:
        os.close(held)


def for_nodes() -> dict[str, str]:
    """The variables for the sessions of a test's sshd, which inherit nothing."""
    return {name: os.environ[name] for name in (VARIABLE, DRIVER_PIDS) if name in os.environ}
