"""What a thread does by what the kernel states about it, in words that can be compared between ranks."""

from __future__ import annotations

from gpuwatch.wire import KernelThread

BUSY_PCT = 50.0
"""Of one core: a rank that spins uses all of it, one that waits for a lock nothing."""
CALLS = (
    ("futex", "futex"),
    ("nanosleep", "clock_nanosleep"),
    ("epoll", "epoll_wait"),
    ("poll", "poll"),
    ("pipe", "read of a pipe"),
    ("do_wait", "wait4"),
    ("sk_wait", "recvfrom"),
    ("skb_wait", "recvfrom"),
    ("select", "select"),
)
"""Part of the name of the kernel's function -> the system call that leads there."""
SLEEPS = ("clock_nanosleep", "nanosleep")
STOPPED = ("T", "t")
"""By SIGSTOP, or by a debugger."""
HELD_STATES = ("D", "Z", *STOPPED)
"""States in which a process does nothing at all, wherever in its program it is."""
_POLLS = ("poll", "ppoll", "select", "pselect6", "epoll_wait", "epoll_pwait")
SOCKET_CALLS = frozenset((*_POLLS, "recvfrom", "recvmsg", "accept", "accept4", "connect"))
FOR_OTHERS = ("futex",)
"""gloo's ranks wait so for their threads, which wait for the other ranks."""


def kernel_wait(thread: KernelThread) -> tuple[str, bool]:
    """What it does, and whether that is how ranks wait for each other (spinning is how NCCL's do)."""
    call = _call(thread)
    if thread.state == "Z":
        return "dead, not yet collected by its parent", False
    if thread.state in STOPPED:
        return "stopped (a debugger or SIGSTOP)", False
    if thread.state == "D":
        where = f" in {thread.wchan}" if thread.wchan else ""
        return f"stuck in the kernel{where} (state D: a disk, a mount or the driver)", False
    if (thread.cpu_pct or 0.0) >= BUSY_PCT:
        return "on-CPU, spinning", True
    if call is None and thread.state == "R":
        return "on-CPU", True
    if call in SLEEPS:
        return f"asleep ({call})", False
    if call is None:
        return "waiting, location not visible to this user", False
    return f"waiting ({call})", call in FOR_OTHERS


def waits_on_socket(thread: KernelThread) -> bool:
    """Whether it may wait for another process over the network, as clients and servers of a store do."""
    return thread.state == "S" and _call(thread) in SOCKET_CALLS


def _call(thread: KernelThread) -> str | None:
    if thread.syscall is not None and thread.syscall != "running":
        return thread.syscall
    wchan = thread.wchan or ""
    return next((call for part, call in CALLS if part in wchan), thread.wchan)
