"""A stand-in for NCCL's RAS on a real socket: the protocol of NCCL 2.24 (text) and 2.28.7 (JSON)."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

COLLECTIVES = ("Broadcast", "Reduce", "AllGather", "ReduceScatter", "AllReduce")


def rank(number: int, all_reduces: int, **more: Any) -> dict[str, Any]:
    """A rank of the JSON; eight a host."""
    status = {"init_state": 0, "async_error": 0, "finalize_called": False, "destroy_flag": False}
    status |= {"abort_flag": False}
    return {
        "rank": number,
        "host": f"10.0.0.{number // 8 + 1}",
        "pid": 1000 + number,
        "cuda_dev": number % 8,
        "nvml_dev": number % 8,
        "status": {**status, **more},
        "collective_counts": {name: all_reduces if name == "AllReduce" else 3 for name in COLLECTIVES},
    }


def missing(number: int, *, dead: bool = False, unresponsive: bool = True) -> dict[str, Any]:
    """A rank of which RAS has no data."""
    reported = {key: value for key, value in rank(number, 0).items() if key != "collective_counts"}
    return {**reported, "status": {"unresponsive": unresponsive, "considered_dead": dead}}


def answer(
    ranks: Sequence[Mapping[str, Any]], gone: Sequence[Mapping[str, Any]] = (), *, timeouts: int = 0
) -> str:
    """RAS's JSON of one communicator."""
    communicator = {
        "hash": "0xcf264af53edbe986",
        "secondary_hash": "0x1:0x2",
        "size": len(ranks) + len(gone),
        "ranks_count": len(ranks),
        "missing_ranks_count": len(gone),
        "ranks": list(ranks),
        "missing_ranks": list(gone),
    }
    return json.dumps(
        {
            "nccl_version": "2.28.9",
            "cuda_runtime_version": 13000,
            "communicators_count": 1,
            "communicators": [communicator],
            "ras": {"collection_time_sec": 0.1, "timeouts_count": timeouts},
        },
        indent=2,
    )


HEAD = """NCCL version 2.24.3 compiled with CUDA 12.6
CUDA runtime version 12060, driver version 12080

Job summary
===========

  Nodes  Processes         GPUs  Processes     GPUs
(total)   per node  per process    (total)  (total)
      2          8            1         16       16

Communicators... (0.34s)
=============

Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors
    #  in group  per comm  per node  per comm  in group
    0         1         2         8        16        16   RUNNING  {errors}

"""
"""What the text begins with, of 16 ranks on two nodes."""


def text(errors: str = "", warnings: str = "", word: str = "OK") -> str:
    """RAS's text."""
    return (
        HEAD.format(errors=word)
        + "Errors\n======\n\n"
        + errors
        + "\nWarnings\n========\n\n"
        + warnings
        + "\n"
    )


@contextlib.contextmanager
def ras_server(stated: str, *, speaks_json: bool, hangs: bool = False) -> Iterator[str]:
    """Listen on a port of its own; its address. `hangs` never answers the last command."""
    listener = socket.create_server(("127.0.0.1", 0))
    ended = threading.Event()

    def serve(connection: socket.socket) -> None:
        with connection, connection.makefile("rwb") as lines, contextlib.suppress(OSError):
            for line in lines:
                reply = _reply(line.decode().strip(), speaks_json=speaks_json)
                if reply is not None:
                    lines.write(reply.encode() + b"\n")
                    lines.flush()
                elif hangs:
                    ended.wait(60)
                    return
                else:
                    lines.write(stated.encode())
                    return

    thread = threading.Thread(target=_accept, args=(listener, serve), daemon=True)
    thread.start()
    try:
        yield f"127.0.0.1:{listener.getsockname()[1]}"
    finally:
        ended.set()
        listener.close()


def _accept(listener: socket.socket, serve: Callable[[socket.socket], None]) -> None:
    with contextlib.suppress(OSError):
        while True:
            connection, _ = listener.accept()
            threading.Thread(target=serve, args=(connection,), daemon=True).start()


def _reply(command: str, *, speaks_json: bool) -> str | None:
    """Return the answer of a RAS server to a command line; None: the answer ends the connection."""
    word = command.upper()
    if word.startswith("CLIENT PROTOCOL "):
        return "SERVER PROTOCOL 2"
    if word.startswith("TIMEOUT "):
        return "OK"
    if word == "SET FORMAT JSON" and speaks_json:
        return "OK"
    if word in ("STATUS", "VERBOSE STATUS"):
        return None
    return f"ERROR: Unknown command {command}"
