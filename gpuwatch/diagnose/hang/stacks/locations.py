"""Describe the code location of a rank in the same words for all ranks that are there."""

from __future__ import annotations

from collections.abc import Sequence

from gpuwatch.runs.flight.dumps import NOT_THE_USERS
from gpuwatch.wire import StackFrame

COLLECTIVES = frozenset(
    (
        "all_reduce",
        "all_gather",
        "all_gather_into_tensor",
        "all_gather_object",
        "all_gather_single",
        "reduce_scatter",
        "reduce_scatter_tensor",
        "reduce_scatter_single",
        "broadcast",
        "broadcast_object_list",
        "reduce",
        "gather",
        "scatter",
        "all_to_all",
        "all_to_all_single",
        "barrier",
        "monitored_barrier",
        "send",
        "recv",
        "batch_isend_irecv",
        "gather_object",
        "scatter_object_list",
        "send_object_list",
        "recv_object_list",
        "init_process_group",
        "new_group",
        "destroy_process_group",
    )
)
"""Functions of torch.distributed in which a rank waits for others."""
ONE_TO_ONE = frozenset(("send", "recv", "batch_isend_irecv", "send_object_list", "recv_object_list"))
"""Functions among COLLECTIVES in which a rank waits for a single peer."""
OTHERS_WAIT = frozenset(("wait", "wait_tensor", "synchronize", "_engine_run_backward", "item"))
"""Functions in which a rank waits for a collective that runs on the GPU."""
DATA_LOADER = "waiting for its data loader"
KINDS_OF_WORK = (
    ("/torch/utils/data/dataloader.py", DATA_LOADER),
    ("/torch/serialization.py", "saving or loading a file"),
    ("/bdb.py", "at a breakpoint"),
    ("/pdb.py", "at a breakpoint"),
    ("/subprocess.py", "waiting for a program that it started"),
    ("/multiprocessing/", "waiting for one of its own processes"),
    ("/concurrent/futures/", "waiting for one of its own workers"),
    ("/threading.py", "waiting for a thread or a lock"),
    ("/urllib/", "waiting for the network"),
    ("/urllib3/", "waiting for the network"),
    ("/requests/", "waiting for the network"),
    ("/http/client.py", "waiting for the network"),
    ("/socket.py", "waiting for the network"),
    ("/ssl.py", "waiting for the network"),
)
"""Pairs: part of a library's file path, and what a rank does in that code (work of its own)."""


def place_of(frames: Sequence[StackFrame]) -> tuple[str, bool, str | None]:
    """Describe where a thread is: the innermost function, and the user's line that called it.

    Returns:
        The place as text; whether the rank waits for others there; the collective in which it waits, or None.
    """
    mine = next((n for n, frame in enumerate(frames) if not _foreign(frame)), None)
    if mine == 0:
        return f"in {line(frames[0])}", False, None
    called = _collective(frames[:mine])
    where = f", called by {line(frames[mine])}" if mine is not None else ""
    if called is not None:
        return f"in {called}{where}", True, called
    waits = any(_name(frame) in OTHERS_WAIT and "/torch/" in frame.file for frame in frames[:mine])
    work = None if waits else _kind_of_work(frames[:mine])
    if work is not None:
        return f"{work}{where}", False, None
    return f"in {_name(frames[0]) if where else line(frames[0])}{where}", waits, None


def line(frame: StackFrame) -> str:
    """Return a stack frame as text: `train_step (train.py:11)`."""
    return f"{frame.function} ({frame.file.rpartition('/')[2]}:{frame.line})"


def _collective(frames: Sequence[StackFrame]) -> str | None:
    """Return the name of the outermost torch function that is a collective, or None."""
    names = (frame.function for frame in reversed(frames) if "distributed" in frame.file)
    return next((name for name in names if name in COLLECTIVES), None)


def _kind_of_work(frames: Sequence[StackFrame]) -> str | None:
    """Return the work in which the outermost frame of `KINDS_OF_WORK` is, or None."""
    found = (words for frame in reversed(frames) for part, words in KINDS_OF_WORK if part in frame.file)
    return next(found, None)


def _name(frame: StackFrame) -> str:
    """Return the function's name without the class (newer interpreters include it)."""
    return frame.function.rpartition(".")[2]


def _foreign(frame: StackFrame) -> bool:
    return any(part in frame.file for part in NOT_THE_USERS)
