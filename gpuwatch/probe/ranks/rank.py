"""Runs one rank: it joins, executes its steps, reports each result, and exits."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from queue import Queue
from typing import BinaryIO, Iterator, Optional

from gpuwatch.probe.ranks.joining import CannotJoinError, JoinedRank, NotConnectedError, join, ready
from gpuwatch.probe.ranks.measures import gpu_checks
from gpuwatch.probe.ranks.measures.clocks import GpuStuckError
from gpuwatch.probe.ranks.shared import words
from gpuwatch.probe.ranks.shared.orders import PrepareFields, Raw, SlotFields, StepFields, read
from gpuwatch.probe.ranks.shared.store_barrier import roll_call
from gpuwatch.probe.ranks.shared.torch_types import Torch

OWN_REASON, NOT_CONNECTED = 70, 71
"""Exit statuses of a rank whose last line on stderr is the reason: its own, or of the connections."""


class ProbeRank:
    """One rank of the probe: it joins the process group and measures until the stop order.

    Args:
        torch: The module, as the worker imported it; CUDA not yet used.
        prepare: The order to all ranks.
        slot: Of this rank.
        orders_fd: A descriptor with the orders for this rank; it exits at their end.
        message: Called with each message of this rank.
    """

    def __init__(
        self, torch: Torch, prepare: PrepareFields, slot: SlotFields, orders_fd: int, message: BinaryIO
    ) -> None:
        self._torch, self._prepare, self._slot = torch, prepare, slot
        self._orders_fd, self._message = orders_fd, message
        self._stuck = ""
        """Why the GPU is stuck, or ""."""

    def live(self, import_s: float) -> int:
        """Take part until the stop order; return the exit status."""
        began = time.perf_counter()
        try:
            member = join(self._torch, self._prepare, self._slot, self._arrived)
        except CannotJoinError as error:
            sys.stderr.write(f"{error}\n")
            return NOT_CONNECTED if isinstance(error, NotConnectedError) else OWN_REASON
        for note in member.notes:
            self._emit({"kind": "note", "text": note, "rank": self._slot.rank})
        self._emit(ready(self._torch, member, self._prepare, self._slot, import_s, began))
        orders = self._obey()
        while True:
            order = orders.get()
            if order["do"] == "stop":
                break
            for message in self._answers(member, read(StepFields, order)):
                self._emit(message)
        if self._torch.distributed.is_initialized() and not self._stuck:
            self._torch.distributed.destroy_process_group()
        return 0

    def _arrived(self) -> None:
        self._emit({"kind": "arrived", "rank": self._slot.rank})

    def _obey(self) -> "Queue[Raw]":
        """Return a queue of orders, which a thread fills.

        The end of the orders means that the worker is gone; this rank then exits.
        """
        orders: "Queue[Raw]" = Queue()

        def read_on() -> None:
            with os.fdopen(self._orders_fd, "rb") as lines:
                for line in lines:
                    orders.put(json.loads(line))
            os._exit(0)

        threading.Thread(target=read_on, daemon=True).start()
        return orders

    def _answers(self, member: JoinedRank, step: StepFields) -> Iterator[Raw]:
        """Yield the messages for one step, `done` last.

        An exception becomes the answer of the rank, which then continues to read orders.
        """
        try:
            done: Raw = {"error": self._stuck} if self._stuck else self._do(member, step)
        except GpuStuckError as error:
            done = {"error": words.first_line(error)}
            self._stuck = f"step {step.id} is still on the GPU: {error}"
        except Exception as error:  # in words to the one who asked
            done = {"error": words.first_line(error)}
        note: Optional[str] = done.pop("note", None)
        if note is not None:
            yield {"kind": "note", "text": note, "rank": self._slot.rank}
        yield dict(done, kind="done", step=step.id, rank=self._slot.rank, **self._peer(step))

    def _peer(self, step: StepFields) -> Raw:
        others = [rank for rank in (step.pairs[0] if step.pairs else ()) if rank != self._slot.rank]
        return {"peer": others[0]} if others else {}

    def _do(self, member: JoinedRank, step: StepFields) -> Raw:
        if step.what == "collective":
            return self._collective(member, step)
        if step.what in ("bandwidth", "latency"):
            return member.pairs.measure(step, *step.pairs[0])
        if self._slot.gpu is None:
            return {"error": "no GPU"}
        return gpu_checks.measure(self._torch, step)

    @staticmethod
    def _collective(member: JoinedRank, step: StepFields) -> Raw:
        absent = roll_call(member.store, f"step/{step.id}", member.rank, member.world_size, step.timeout_s)
        if absent:
            error = f"{words.ranks(absent)} did not arrive within {words.seconds(step.timeout_s)}"
            return {"absent": absent, "error": error}
        if member.collectives is None:
            return {"error": "there is no group of all ranks: some cannot connect to each other"}
        return member.collectives.measure(step)

    def _emit(self, message: Raw) -> None:
        self._message.write(json.dumps(message).encode() + b"\n")
        self._message.flush()


def enter(
    torch: Torch, prepare: PrepareFields, slot: SlotFields, orders_fd: int, output_fd: int, import_s: float
) -> int:
    """Act as a rank, in a process that was just forked; return the exit status."""
    if slot.gpu is not None:
        os.environ["CUDA_VISIBLE_DEVICES"] = (
            slot.gpu
        )  # before CUDA starts: this rank sees one GPU, as number 0
    with os.fdopen(output_fd, "wb") as message:
        return ProbeRank(torch, prepare, slot, orders_fd, message).live(import_s)
