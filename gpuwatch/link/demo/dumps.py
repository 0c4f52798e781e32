"""The demo's flight recorders: dumps exist only after they are triggered."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Sequence

import msgspec

from gpuwatch import wire
from gpuwatch.link.demo.hang import GUILTY, MINE
from gpuwatch.link.demo.scenario import FALL_AT, LAST_STEP, STEP_S, STEPS_BEFORE

PREFIX = "/home/demo-ada/helios/dumps/rank_"
PIPES = "/home/demo-ada/helios/dumps/ask_"
WRITE_S = 1.0
"""Seconds from the trigger to the file."""
DUMP_ENTRIES = 3
"""Entries of a dump; a real one has thousands."""

Request = wire.AskDumpFiles | wire.AskDumpPiece | wire.AskDumps


class DemoDumps:
    """The flight-recorder dumps of one demo node."""

    def __init__(self) -> None:
        self._written: dict[int, tuple[float, bytes]] = {}
        """Rank -> time on the node's clock, and content."""

    def answer(
        self, request: Request, processes: Sequence[wire.Process], second: float, t: float
    ) -> wire.Reply:
        """Return a node's reply to a request about dumps.

        `second`: of the scenario; `t`: unix time there.
        """
        ranks = {each.pid: each.rank for each in processes if each.rank is not None}
        reply = wire.Reply(t=t, seq=0, id=request.id)
        if isinstance(request, wire.AskDumps):
            asked = [pid for pid in request.pids if pid in ranks]
            world = next((each.world_size for each in processes if each.world_size), 0)
            for pid in asked:
                self._written[ranks[pid]] = (t + WRITE_S, _dump(ranks[pid], world, second, t))
            reported = [
                wire.DumpResult(pid=pid, pipe=f"{PIPES}{ranks[pid]}.pipe", dump=f"{PREFIX}{ranks[pid]}")
                for pid in asked
            ]
            return msgspec.structs.replace(
                reply, data=msgspec.to_builtins(wire.DumpResults(processes=reported))
            )
        if isinstance(request, wire.AskDumpFiles):
            places = self._places([pid for pid in request.pids if pid in ranks], t)
            return msgspec.structs.replace(reply, data=msgspec.to_builtins(places))
        return self._piece(request, reply)

    def _places(self, pids: list[int], t: float) -> wire.DumpPlaces:
        files = [
            wire.DumpFile(name=str(rank), rank=rank, size_bytes=len(data), age_s=t - at, mtime=at)
            for rank, (at, data) in sorted(self._written.items())
            if at <= t
        ]
        place = wire.DumpPlace(prefix=PREFIX, pids=pids, named=True, files=files)
        pipes = [wire.DumpPipe(pid=pid, there=True) for pid in pids]
        return wire.DumpPlaces(places=[place] if pids else [], pipes=pipes)

    def _piece(self, request: wire.AskDumpPiece, reply: wire.Reply) -> wire.Reply:
        written = self._written.get(int(request.name)) if request.name.isdecimal() else None
        if written is None:
            return msgspec.structs.replace(reply, error="no such file")
        at, data = written
        stream = zlib.compressobj(wbits=31)
        packed = base64.b64encode(stream.compress(data[request.offset :]) + stream.flush()).decode()
        piece = wire.DumpPiece(
            packed=packed, bytes=len(data) - request.offset, size_bytes=len(data), mtime=at
        )
        return msgspec.structs.replace(reply, data=msgspec.to_builtins(piece))


def _dump(rank: int, world: int, second: float, t: float) -> bytes:
    """Return a rank's dump in torch's JSON form, with the demo's names and numbers."""
    fell = second >= FALL_AT
    last = LAST_STEP + (rank != GUILTY) if fell else STEPS_BEFORE + int(second / STEP_S)
    moment = t - (second - FALL_AT) if fell else t
    entries = [
        {
            "record_id": step,
            "pg_id": 0,
            "process_group": ["0", "default_pg"],
            "collective_seq_id": step,
            "profiling_name": "nccl:all_reduce",
            "time_created_ns": int((moment - STEP_S * (LAST_STEP + 1 - step if fell else last - step)) * 1e9),
            "input_sizes": [[25_600_000]],
            "output_sizes": [[25_600_000]],
            "input_dtypes": ["BFloat16"],
            "output_dtypes": ["BFloat16"],
            "state": "started" if step > LAST_STEP else "completed",
            "frames": [{"name": "train_step", "filename": MINE, "line": 361}],
        }
        for step in range(last - DUMP_ENTRIES + 1, last + 1)
    ]
    group = {"name": "0", "desc": "default_pg", "ranks": str(list(range(world)))}
    return json.dumps({"version": "2.10", "pg_config": {"0": group}, "entries": entries}).encode()
