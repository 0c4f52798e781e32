"""The test data of a checked collective: small whole numbers by rank and position.

Position p of rank r has the value (p + 13 r + 29 b) mod 251, b the block if every rank gets a different one.
251 is prime: data that arrives at a wrong position, by any power of two, is detected. Sums over ranks stay
below 2^24 up to 66,000 ranks, so float32 represents them exactly and results are compared for equality.
"""

from __future__ import annotations

from typing import Iterable, Optional, Tuple

from gpuwatch.probe.ranks.shared.torch_types import Device, Tensor, Torch

PERIOD = 251
_RANK, _BLOCK = 13, 29
_ROWS = 4096
"""Number of periods that are compared at a time, which limits the memory of a check to some MB."""


class DataPattern:
    """Makes, writes and compares the test data.

    A wave is one period of the data, a tensor of `PERIOD` elements.
    """

    def __init__(self, torch: Torch, device: Device) -> None:
        self._torch = torch
        self._base = torch.arange(PERIOD, dtype=torch.int64, device=device)

    def wave(self, rank: int, start: int = 0, block: int = 0) -> Tensor:
        """Return one period of the values of one rank, from position `start` on."""
        return self.total([rank], start, block)

    def total(self, ranks: Iterable[int], start: int = 0, block: int = 0) -> Tensor:
        """Return one period of the sums of these ranks' test values, from position `start` on."""
        wave = self._torch.zeros_like(self._base)
        for rank in ranks:
            wave += (self._base + start + _RANK * rank + _BLOCK * block) % PERIOD
        return wave.to(self._torch.float32)

    def write(self, tensor: Tensor, wave: Tensor) -> None:
        """Fill a flat tensor with a wave."""
        whole = tensor.numel() // PERIOD * PERIOD
        tensor[:whole].view(-1, PERIOD).copy_(wave.expand(whole // PERIOD, PERIOD))
        tensor[whole:].copy_(wave[: tensor.numel() - whole])

    def wrong(self, tensor: Tensor, wave: Tensor) -> Tuple[int, Optional[int]]:
        """Return how many elements differ from the wave, and the position of the first (None: none)."""
        count, first = 0, None
        step = _ROWS * PERIOD
        for at in range(0, tensor.numel(), step):
            part = tensor[at : at + step]
            whole = part.numel() // PERIOD * PERIOD
            bad = self._torch.empty(part.numel(), dtype=self._torch.bool, device=part.device)
            bad[:whole] = (part[:whole].view(-1, PERIOD) != wave).view(-1)
            bad[whole:] = part[whole:] != wave[: part.numel() - whole]
            here = int(bad.sum())
            if here and first is None:
                first = at + int(bad.nonzero()[0])
            count += here
        return count, first
