"""RUNS ON THE NODES (Python 3.8 and later): imports torch once, forks one rank per slot, passes lines on.

It is the only file that imports torch. The launcher sends it the `PrepareFields`, `Step` and `Stop` lines; it
returns the lines of its ranks. It exits on order, or when its stdin ends; the ranks never outlive it.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import time
from functools import partial
from typing import Any, BinaryIO, Dict, List, Optional

from gpuwatch.probe.ranks.launcher_watchdog import LauncherWatchdog
from gpuwatch.probe.ranks.rank import enter
from gpuwatch.probe.ranks.rank_environment import settle
from gpuwatch.probe.ranks.rank_supervisor import RankSupervisor
from gpuwatch.probe.ranks.shared import store_server, words
from gpuwatch.probe.ranks.shared.orders import PrepareFields, Raw, read

_STOP_WITHIN_S = 1.5
"""Seconds until a rank is killed: one that is stuck on its GPU does not end by itself."""


def run(config: Dict[str, Any], stdin: BinaryIO, stdout: BinaryIO) -> int:
    """Run the ranks of this node until `Stop` or the end of stdin.

    Args:
        config: `store_fd`, the listening socket for the store or None; `deadline_s`, after which this process
            and its ranks are killed; `silence_s`, after which it kills its process group if not even an empty
            line was received (0 or missing: never).
        stdin: Orders, a JSON object per line.
        stdout: Where the lines go; see `protocol`.

    Returns:
        0 after `Stop` or without a `Prepare`; 1 if torch cannot be imported, the store cannot be started, or
        stdin ended.
    """
    began = time.monotonic()
    if config.get("deadline_s"):
        signal.alarm(max(1, int(config["deadline_s"])))
    line = next((each for each in stdin if each.strip()), b"")
    if not line or json.loads(line)["do"] != "prepare":
        return 0
    prepare = read(PrepareFields, json.loads(line))
    settle(os.environ, prepare.iface)
    fd = config.get("store_fd")
    stdout.write(b"\n")  # ends what a sitecustomize or an activation has printed without an end of line
    process_group = RankSupervisor(stdout, _foreign(stdin, stdout, fd))
    start = time.perf_counter()
    try:
        import torch  # noqa: PLC0415 - the environment had to be there before
        import torch.distributed  # noqa: PLC0415 - torch is loaded once, in the worker
    except Exception as error:  # a broken installation fails in many ways
        process_group.emit({"kind": "died", "reason": f"torch cannot be imported: {words.first_line(error)}"})
        return 1
    import_s = time.perf_counter() - start
    gc.freeze()  # a collection in a rank would copy every page of the import
    for slot in prepare.places():
        process_group.fork(slot, partial(enter, torch, prepare, slot, import_s=import_s))
    process_group.listen()
    try:
        # Held here and not in a rank: a rank that dies must not take the meeting place of the others with it.
        if prepare.store_here and fd is not None:
            store_server.host(fd, prepare.secret)
    except OSError as error:
        process_group.emit(
            {"kind": "died", "reason": f"the store cannot be started: {words.first_line(error)}"}
        )
        process_group.leave(0.0)
        return 1
    status = _follow(process_group, stdin, _silence(config, began))
    process_group.leave(_STOP_WITHIN_S if status == 0 else 0.0)
    return status


def _silence(config: Dict[str, Any], began: float) -> Optional[LauncherWatchdog]:
    if not config.get("silence_s"):
        return None
    deadline_s = config.get("deadline_s")
    left_s = None if not deadline_s else began + float(deadline_s) - time.monotonic()
    return LauncherWatchdog(float(config["silence_s"]), left_s)


def _follow(process_group: RankSupervisor, stdin: BinaryIO, silence: Optional[LauncherWatchdog]) -> int:
    if silence is not None:
        silence.begin()
    for line in stdin:
        if silence is not None:
            silence.received()
        if not line.strip():
            continue  # the launcher is alive
        order: Raw = json.loads(line)
        process_group.send(order)
        if order["do"] == "stop":
            return 0
    return 1


def _foreign(stdin: BinaryIO, stdout: BinaryIO, store_fd: Optional[int]) -> List[int]:
    return [fd for fd in (stdin.fileno(), stdout.fileno(), store_fd) if fd is not None and fd > 2]
