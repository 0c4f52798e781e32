"""Weights & Biases: one run per rank, all of a job in one group; offline without network."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from ..base.ranks import identify

GROUP_VARIABLES = ("WANDB_RUN_GROUP", "GPUWATCH_RUN_ID", "SLURM_JOB_ID", "TORCHELASTIC_RUN_ID")


def job_name(run_name: str | None = None) -> str | None:
    """Return the name that the ranks of a job share: the run's name, else the launcher's id, else None."""
    return run_name or next((os.environ[name] for name in GROUP_VARIABLES if os.environ.get(name)), None)


class WandbWriter:
    """Writes metrics of this rank with the package `wandb`; `WANDB_MODE=offline` keeps them on disk."""

    def __init__(
        self,
        run_name: str | None = None,
        *,
        project: str | None = None,
        configuration: Mapping[str, Any] | None = None,
        folder: str | None = None,
        mode: str | None = None,
    ) -> None:
        """Start a run.

        Args:
            run_name: The group of all ranks; the run of a rank is `<name>-rank<N>`.
            project: By default `WANDB_PROJECT`.
            configuration: Stored with the run.
            folder: Where the `wandb` folder is created.
            mode: `online` or `offline`; by default `WANDB_MODE`.

        Raises:
            ImportError: wandb is not installed.
        """
        import wandb  # noqa: PLC0415 - optional

        group = job_name(run_name)
        name = f"{group}-rank{identify().rank}" if group else None
        begin: Any = wandb.init
        self._run: Any = begin(
            project=project, group=group, name=name, config=dict(configuration or {}), dir=folder, mode=mode
        )
        self._histogram = wandb.Histogram

    def scalars(self, step: int, values: Mapping[str, float]) -> None:
        """Write numbers by tag."""
        self._run.log(dict(values), step=step)

    def parameters(self, step: int, model: Any) -> None:
        """Write a histogram of each parameter that has only finite numbers."""
        found = {
            f"Params/{name}": self._histogram(each.detach().float().cpu().numpy())
            for name, each in model.named_parameters()
            if bool(each.detach().isfinite().all())
        }
        self._run.log(found, step=step)

    def close(self) -> None:
        """End the run."""
        self._run.finish()
