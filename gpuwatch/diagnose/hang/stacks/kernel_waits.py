"""Describe what a thread does from its kernel state, in terms that are comparable between ranks."""

from __future__ import annotations

from gpuwatch.wire import KernelThread

BUSY_PCT = 50.0
"""CPU use in percent of a core above which a thread counts as busy.

A spinning rank uses a whole core, a rank that waits for a lock none.
"""
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
"""Pairs: part of a kernel function's name, and the system call that it belongs to."""
SLEEPS = ("clock_nanosleep", "nanosleep")
STOPPED = ("T", "t")
"""Process states: stopped by SIGSTOP (T) or by a debugger (t)."""
HELD_STATES = ("D", "Z", *STOPPED)
"""Process states in which a process cannot run at all."""
_POLLS = ("poll", "ppoll", "select", "pselect6", "epoll_wait", "epoll_pwait")
SOCKET_CALLS = frozenset((*_POLLS, "recvfrom", "recvmsg", "accept", "accept4", "connect"))
FOR_OTHERS = ("futex",)
"""System calls in which gloo's ranks wait for their threads, which wait for other ranks."""


def kernel_wait(thread: KernelThread) -> tuple[str, bool]:
    """Return text on what a thread does, and True if a rank that waits for others can look like this.

    With NCCL such a rank spins on the CPU, with gloo it waits for a lock.
    """
    call = _call(thread)
    if thread.state == "Z":
        return "dead, not yet reaped by its parent (a zombie)", False
    if thread.state in STOPPED:
        return "stopped (a debugger or SIGSTOP)", False
    if thread.state == "D":
        where = f" in {thread.wchan}" if thread.wchan else ""
        return f"stuck in the kernel{where} (state D: it waits for a disk, a mount or the driver)", False
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
    """Return True if the thread may wait for another process over the network, as clients of a store do."""
    return thread.state == "S" and _call(thread) in SOCKET_CALLS


def _call(thread: KernelThread) -> str | None:
    if thread.syscall is not None and thread.syscall != "running":
        return thread.syscall
    wchan = thread.wchan or ""
    return next((call for part, call in CALLS if part in wchan), thread.wchan)
