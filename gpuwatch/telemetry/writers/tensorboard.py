"""TensorBoard: one folder per rank, `runs/rank_0`; `tensorboard --logdir runs` shows them side by side."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..base.ranks import identify


class TensorBoardWriter:
    """Writes metrics of this rank with `torch.utils.tensorboard`, which needs the package `tensorboard`."""

    def __init__(self, log_dir: str | os.PathLike[str] = "runs", rank: int | None = None) -> None:
        """Open the folder of this rank.

        Raises:
            ImportError: torch or tensorboard is not installed.
        """
        from torch.utils.tensorboard import SummaryWriter  # noqa: PLC0415 - optional

        rank = identify().rank if rank is None else rank
        self.folder = Path(log_dir) / f"rank_{rank}"
        self._writer: Any = SummaryWriter(str(self.folder))

    def scalars(self, step: int, values: Mapping[str, float]) -> None:
        """Write numbers by tag."""
        for tag, value in values.items():
            self._writer.add_scalar(tag, value, step)

    def parameters(self, step: int, model: Any) -> None:
        """Write a histogram of each parameter with only finite numbers: TensorBoard refuses others."""
        for name, each in model.named_parameters():
            if bool(each.detach().isfinite().all()):
                self._writer.add_histogram(f"Params/{name}", each.detach().float().cpu(), step)

    def close(self) -> None:
        """Flush and close."""
        self._writer.close()
