"""The collectives: the supported ones, their buffers, inputs and correct results.

Sizes count as in nccl-tests: `bytes` is the whole buffer, a rank's share is 1 / world size of it for
all_gather, reduce_scatter and all_to_all.
"""

from __future__ import annotations

import re
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple

from gpuwatch.probe.ranks.measures.checked_values import DataPattern
from gpuwatch.probe.ranks.measures.clocks import Clock
from gpuwatch.probe.ranks.shared.orders import StepFields
from gpuwatch.probe.ranks.shared.torch_types import Device, Torch

_TINY = 1024
_ELEMENT = 4
_CANNOT = re.compile(
    r"not? (?:been )?(?:implement|support)|unsupported|n't support|only supports|invalid backend",
    re.IGNORECASE,
)
"""Matches torch's message for an operation that a backend lacks; any other message is a fault of this run."""

CALLS: Dict[str, Tuple[str, ...]] = {
    "all_reduce": ("all_reduce",),
    "all_gather": ("all_gather_single", "all_gather_into_tensor", "all_gather"),
    "reduce_scatter": ("reduce_scatter_single", "reduce_scatter_tensor", "reduce_scatter"),
    "broadcast": ("broadcast",),
    "all_to_all": ("all_to_all_single",),
    "send_recv": ("batch_isend_irecv",),
}
"""Collective -> names of its functions in torch.distributed, the best first.

Newer ones accept single tensors, older ones warn or are missing.
"""


class CollectiveRun(NamedTuple):
    """One collective over one size, ready to run."""

    call: Callable[[], object]
    fill: Callable[[], None]
    """A function that writes the inputs of a check."""
    wrong: Callable[[], Tuple[int, Optional[int]]]
    """A function that checks the result: the number of wrong elements, and the position of the first."""


class Shares(NamedTuple):
    """Two views into the buffers of a rank: the elements that it sends, and those that it receives."""

    give: Any
    take: Any


class Buffers:
    """Two flat float32 tensors, grown to the largest size asked for and used by all steps."""

    def __init__(self, torch: Torch, device: Device) -> None:
        self._torch, self.device = torch, device
        self._flat = [torch.zeros(0, device=device), torch.zeros(0, device=device)]

    def shares(self, give: int, take: int) -> Shares:
        """Return views of `give` elements to send and `take` elements to receive.

        All their memory was written once: pages that were never touched would be read for free.
        """
        counts = (give, take)
        for i in range(2):
            if self._flat[i].numel() < counts[i]:
                self._flat[i] = self._torch.zeros(0, device=self.device)  # the old one goes first
                self._flat[i] = self._torch.empty(counts[i], device=self.device).zero_()
        return Shares(self._flat[0][:give], self._flat[1][:take])


class CollectiveRunner:
    """Runs the collectives of one rank in the group of all.

    Args:
        torch: The module, with `torch.distributed` initialized.
        buffers: Shared with the pairs.
        clock: Measures the iterations (`clocks`).
        rank: The rank of this process.
        world_size: Number of ranks in the group.
    """

    def __init__(self, torch: Torch, buffers: Buffers, clock: Clock, rank: int, world_size: int) -> None:
        self._dist = torch.distributed
        self._buffers, self._clock = buffers, clock
        self._rank, self._world = rank, world_size
        self._pattern = DataPattern(torch, buffers.device)
        self._names: Dict[str, str] = {}
        self.lacks: List[str] = []

    def learn(self, timeout_s: float) -> None:
        """Find the unsupported collectives by running each one with a tiny size; set `lacks`.

        The first one also connects the ranks.

        Raises:
            RuntimeError, TimeoutError: a collective failed for another reason than that it is not supported.
        """
        self._names, self.lacks = {}, []
        for op, names in CALLS.items():
            if self._world == 1 and op == "send_recv":
                self.lacks.append(op)
                continue
            for name in names:
                if hasattr(self._dist, name) and self._does(op, name, timeout_s):
                    self._names[op] = name
                    break
            else:
                self.lacks.append(op)

    def _does(self, op: str, name: str, timeout_s: float) -> bool:
        try:
            self._job(op, name, _TINY).call()
            self._clock.settle(timeout_s)
        except NotImplementedError:
            return False
        except RuntimeError as error:
            if _CANNOT.search(str(error)) is None:
                raise
            return False
        return True

    def measure(self, step: StepFields) -> Dict[str, Any]:
        """Return the fields of `protocol.Done` for one collective step.

        Raises:
            RuntimeError, TimeoutError: the collective failed.
        """
        op = step.collective or ""
        if op not in self._names:
            return {"error": f"{op} is not supported by this torch and backend"}
        job = self._job(op, self._names[op], step.bytes)
        message: Dict[str, Any] = {}
        shares = self._buffers.shares(*self._counts(op, step.bytes))
        if step.check:
            shares.take.zero_()  # else an earlier result could pass for this one
            job.fill()
            job.call()
            self._clock.settle(step.timeout_s)
            wrong, first = job.wrong()
            message["correct"] = not wrong
            if wrong:
                message["note"] = (
                    f"{op} of {step.bytes} bytes: {wrong} elements are wrong, the first at {first}"
                )
        for share in shares:
            share.zero_()  # sums of sums would grow without bounds
        message["times_s"] = self._clock.times(job.call, step.warmup, step.iterations, step.timeout_s)
        return message

    def _counts(self, op: str, size: int) -> Tuple[int, int]:
        """Return the number of elements that a rank sends and receives in a collective of `size` bytes."""
        whole, share = max(1, size // _ELEMENT), max(1, size // _ELEMENT // self._world)
        total = share * self._world
        return {
            "all_reduce": (whole, 0),
            "broadcast": (whole, 0),
            "send_recv": (whole, whole),
            "all_gather": (share, total),
            "reduce_scatter": (total, share),
            "all_to_all": (total, total),
        }[op]

    def _job(self, op: str, name: str, size: int) -> CollectiveRun:
        shares = self._buffers.shares(*self._counts(op, size))
        build: Callable[[Shares, str], CollectiveRun] = getattr(self, f"_{op}")
        return build(shares, name)

    def _all_reduce(self, shares: Shares, _name: str) -> CollectiveRun:
        pattern, buffer = self._pattern, shares.give
        return CollectiveRun(
            lambda: self._dist.all_reduce(buffer),
            lambda: pattern.write(buffer, pattern.wave(self._rank)),
            lambda: pattern.wrong(buffer, pattern.total(range(self._world))),
        )

    def _broadcast(self, shares: Shares, _name: str) -> CollectiveRun:
        pattern, buffer = self._pattern, shares.give
        return CollectiveRun(
            lambda: self._dist.broadcast(buffer, src=0),
            lambda: pattern.write(buffer, pattern.wave(self._rank)),
            lambda: pattern.wrong(buffer, pattern.wave(0)),
        )

    def _all_gather(self, shares: Shares, name: str) -> CollectiveRun:
        pattern, call = self._pattern, getattr(self._dist, name)
        parts = list(shares.take.chunk(self._world))
        return CollectiveRun(
            lambda: call(parts if name == "all_gather" else shares.take, shares.give),
            lambda: pattern.write(shares.give, pattern.wave(self._rank)),
            lambda: self._wrong_parts(parts, [pattern.wave(r) for r in range(self._world)]),
        )

    def _reduce_scatter(self, shares: Shares, name: str) -> CollectiveRun:
        pattern, call = self._pattern, getattr(self._dist, name)
        parts = list(shares.give.chunk(self._world))
        own = self._rank * shares.take.numel()
        return CollectiveRun(
            lambda: call(shares.take, parts if name == "reduce_scatter" else shares.give),
            lambda: pattern.write(shares.give, pattern.wave(self._rank)),
            lambda: pattern.wrong(shares.take, pattern.total(range(self._world), own)),
        )

    def _all_to_all(self, shares: Shares, _name: str) -> CollectiveRun:
        pattern = self._pattern
        given, taken = shares.give.chunk(self._world), list(shares.take.chunk(self._world))

        def fill() -> None:
            for other in range(self._world):
                pattern.write(given[other], pattern.wave(self._rank, block=other))

        def wrong() -> Tuple[int, Optional[int]]:
            return self._wrong_parts(taken, [pattern.wave(r, block=self._rank) for r in range(self._world)])

        return CollectiveRun(lambda: self._dist.all_to_all_single(shares.take, shares.give), fill, wrong)

    def _send_recv(self, shares: Shares, _name: str) -> CollectiveRun:
        """Return the run of a ring: every rank sends to the next one and receives from the previous one."""
        pattern, dist = self._pattern, self._dist
        after, before = (self._rank + 1) % self._world, (self._rank - 1) % self._world

        def call() -> None:
            both = [dist.P2POp(dist.isend, shares.give, after), dist.P2POp(dist.irecv, shares.take, before)]
            for work in dist.batch_isend_irecv(both):
                work.wait()

        return CollectiveRun(
            call,
            lambda: pattern.write(shares.give, pattern.wave(self._rank)),
            lambda: pattern.wrong(shares.take, pattern.wave(before)),
        )

    def _wrong_parts(self, parts: List[Any], waves: List[Any]) -> Tuple[int, Optional[int]]:
        count, first = 0, None
        for i, part in enumerate(parts):
            here, at = self._pattern.wrong(part, waves[i])
            count += here
            if first is None and at is not None:
                first = i * part.numel() + at
        return count, first
