"""Measures pairs over NCCL. Every call exchanges a large message in the tested direction, a tiny one back.

torch requires `batch_isend_irecv` with equal lists on both ends, within the group of all ranks and after a
collective of all: unbatched sends would create a communicator per pair. Without a group of all, the two ranks
create a world of two.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Dict, Optional

from gpuwatch.probe.ranks.measures.checked_values import DataPattern
from gpuwatch.probe.ranks.measures.clocks import CudaClock
from gpuwatch.probe.ranks.measures.collectives import Buffers
from gpuwatch.probe.ranks.shared import store_barrier
from gpuwatch.probe.ranks.shared.orders import StepFields
from gpuwatch.probe.ranks.shared.store_client import StoreClient
from gpuwatch.probe.ranks.shared.torch_types import Store, Torch

_ELEMENT = 4
_TINY = 2


class NcclPairs:
    """Measures the pairs of one rank.

    Args:
        torch: The module.
        store: The store through which the ranks meet.
        of_groups: The same store, for torch's groups.
        rank: The rank of this process.
        buffers: Buffers on the GPU, shared with the collectives.
        alone: True if there is no group of all ranks.
    """

    def __init__(
        self, torch: Torch, store: StoreClient, of_groups: Store, rank: int, buffers: Buffers, alone: bool
    ) -> None:
        self._torch, self._dist, self._store, self._rank = torch, torch.distributed, store, rank
        self._of_groups = of_groups
        self._buffers, self._alone = buffers, alone
        self._pattern = DataPattern(torch, buffers.device)
        self._clock = CudaClock(torch)
        self._with: Optional[int] = None
        """The peer in the world of two."""

    def measure(self, step: StepFields, source: int, destination: int) -> Dict[str, Any]:
        """Return the fields of `protocol.Done` for this end.

        The destination times bandwidth, the source latency.

        Raises:
            RuntimeError, TimeoutError: the measurement failed.
        """
        peer = destination if source == self._rank else source
        held = f"{min(self._rank, peer)}-{max(self._rank, peer)}" if self._with == peer else ""
        theirs = store_barrier.meet(self._store, f"pair/{step.id}", self._rank, peer, held, step.timeout_s)
        if self._alone and (not held or held != theirs):
            self._make_two(step, peer)
        sends = source == self._rank
        large = _TINY if step.what == "latency" else max(1, step.bytes // _ELEMENT)
        shares = self._buffers.shares(large if sends else _TINY, _TINY if sends else large)
        to = int(self._rank < peer) if self._alone else peer

        def exchange() -> None:
            dist = self._dist
            both = [dist.P2POp(dist.isend, shares.give, to), dist.P2POp(dist.irecv, shares.take, to)]
            for work in dist.batch_isend_irecv(both):
                work.wait()

        message: Dict[str, Any] = {}
        if step.check:
            self._pattern.write(shares.give, self._pattern.wave(self._rank))
            exchange()
            self._clock.settle(step.timeout_s)
            message["correct"] = not self._pattern.wrong(shares.take, self._pattern.wave(peer))[0]
        times = self._clock.times(exchange, step.warmup, step.iterations, step.timeout_s)
        # A tiny exchange needs the other's message of the same round: it takes one way, not two.
        if sends == (step.what == "latency"):
            message["times_s"] = times
        return message

    def _make_two(self, step: StepFields, peer: int) -> None:
        if self._with is not None:
            self._with = None
            self._dist.destroy_process_group()
        low, high = min(self._rank, peer), max(self._rank, peer)
        self._dist.init_process_group(
            "nccl",
            store=self._dist.PrefixStore(f"pair/{low}-{high}/{step.id}", self._of_groups),
            rank=0 if self._rank < peer else 1,
            world_size=2,
            timeout=timedelta(seconds=step.timeout_s),
        )
        self._with = peer
        self._dist.all_reduce(self._buffers.shares(_TINY, 0).give)
        self._clock.settle(step.timeout_s)
