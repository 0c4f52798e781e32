"""Room for the descriptors of many links."""

from __future__ import annotations

import contextlib
import resource

PER_LINK = 8
"""Six for a child process, its pidfd and its wake-up pipe, some while it is being started."""
OWN_DESCRIPTORS = 256


def make_room(links: int) -> None:
    """Raise this process's soft limit of open files towards what `links` links need; never lowers it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = OWN_DESCRIPTORS + PER_LINK * links
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return
    allowed = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    with contextlib.suppress(
        OSError, ValueError
    ):  # refused (macOS has a limit of its own): a dial will state it
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
