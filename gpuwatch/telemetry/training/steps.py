"""Sums over the steps of a training: times, rates, losses, MFU. Pure; the caller passes the clock."""

from __future__ import annotations

import math
from typing import Any

from ..base.records import record
from ..measures.distribution import Distribution

STEP_SAMPLE = 8192
"""Number of step times kept for the percentiles."""


def steady_rate(median_s: float | None, mean_s: float | None) -> float | None:
    """Return the steps per second, 1 / median; None if the median is below a third of the mean.

    The host then runs ahead of the GPU: it only queues most steps, and waits for the device in a few.
    """
    if not median_s or (mean_s is not None and median_s < mean_s / 3):
        return None
    return 1.0 / median_s


@record
class StepValues:
    """The values that a training loop reports for one optimizer step.

    Samples and tokens are those of this rank.
    """

    step: int
    duration_s: float
    loss: Any = None
    """A number or a tensor, which is read only if the step is logged."""
    learning_rate: float | None = None
    grad_norm: Any = None
    samples: float | None = None
    tokens: float | None = None
    epoch: float | None = None


@record
class StepWindow:
    """Sums over a number of steps."""

    steps: int = 0
    seconds: float = 0.0
    samples: float = 0.0
    tokens: float = 0.0

    def add(self, values: StepValues) -> None:
        """Add a step."""
        self.steps += 1
        self.seconds += values.duration_s
        self.samples += values.samples or 0.0
        self.tokens += values.tokens or 0.0

    def rate(self, amount: float) -> float | None:
        """Return `amount` per second of step time; None if the amount is 0 or no step time was reported."""
        return amount / self.seconds if amount and self.seconds > 0 else None


@record
class Flops:
    """The inputs of the MFU: the FLOP of the model and the peak FLOP/s of the GPUs."""

    per_token: float | None = None
    peak_per_gpu: float | None = None
    ranks: int = 1
    """Number of GPUs that share the tokens of all data-parallel ranks: the world size."""

    def mfu(self, tokens_per_s: float | None) -> float | None:
        """Return the MFU as a fraction of the peak, 0 to 1, at this many tokens per second of the job.

        None if it is unknown.
        """
        if not tokens_per_s or not self.per_token or not self.peak_per_gpu:
            return None
        return tokens_per_s * self.per_token / (self.ranks * self.peak_per_gpu)


class StepTotals:
    """All steps of a session, and the windows since the last step line and the last performance line."""

    def __init__(self, data_parallel: int = 1) -> None:
        self.data_parallel = data_parallel
        """Number of ranks that read different samples, by which one rank's values are multiplied."""
        self.steps = 0
        self.first_step: int | None = None
        self.last: StepValues | None = None
        self.times = Distribution(STEP_SAMPLE)
        self.all = StepWindow()
        self.since_line = StepWindow()
        self.since_performance = StepWindow()
        self.final_loss: float | None = None
        self.non_finite_loss_step: int | None = None
        """The first step since which every loss that was read is NaN or Inf."""
        self.best_loss: float | None = None
        self.final_grad_norm: float | None = None

    def add(self, values: StepValues) -> None:
        """Add a step."""
        self.steps += 1
        if self.first_step is None:
            self.first_step = values.step
        self.last = values
        self.times.add(values.duration_s)
        for window in (self.all, self.since_line, self.since_performance):
            window.add(values)

    def take_loss(self, loss: float | None) -> None:
        """Add a loss that was read; None is ignored. NaN and Inf clear the final loss, not the best one."""
        if loss is None:
            return
        if not math.isfinite(loss):
            self.final_loss = None
            if self.non_finite_loss_step is None and self.last is not None:
                self.non_finite_loss_step = self.last.step
        else:
            self.final_loss, self.non_finite_loss_step = loss, None
            self.best_loss = loss if self.best_loss is None else min(loss, self.best_loss)

    def job_rate(self, window: StepWindow, amount: float) -> float | None:
        """Return `amount` per second of step time for all data-parallel ranks; None: unknown."""
        rate = window.rate(amount)
        return None if rate is None else rate * self.data_parallel

    def overall_rate(self, amount: float, elapsed_s: float) -> float | None:
        """Return `amount` of all data-parallel ranks per second of the elapsed time; None: unknown."""
        return amount * self.data_parallel / elapsed_s if amount and elapsed_s > 0 else None

    def eta_s(self, total_steps: int | None) -> float | None:
        """Return the seconds until the last step at the speed since the last performance line, or None."""
        if total_steps is None or self.last is None or not self.since_line.steps:
            return None
        left = max(0, total_steps - self.last.step)
        return left * self.since_line.seconds / self.since_line.steps

    def summary(self, elapsed_s: float, flops: Flops) -> dict[str, Any]:
        """Return the keys of a summary that are computed from steps.

        `elapsed_s` includes everything, also evaluation.
        """
        last, times = self.last, self.times
        statistics = times.statistics()
        percentiles = {f"p{number}": times.percentile(number / 100) for number in (50, 95, 99)}

        return {
            "steps": self.steps,
            "last_step": last.step if last else None,
            "epochs": last.epoch if last else None,
            "steps_per_s": self.steps / elapsed_s if self.steps and elapsed_s > 0 else None,
            "steady_steps_per_s": steady_rate(percentiles["p50"], statistics.get("mean")),
            "samples_per_s": self.overall_rate(self.all.samples, elapsed_s),
            "tokens_per_s": self.overall_rate(self.all.tokens, elapsed_s),
            "step_time_s": {
                **{key: statistics.get(key) for key in ("count", "mean", "std_dev", "min", "max")},
                **percentiles,
            },
            "mfu_step": flops.mfu(self.job_rate(self.all, self.all.tokens)),
            "mfu_overall": flops.mfu(self.overall_rate(self.all.tokens, elapsed_s)),
            "final_loss": self.final_loss,
            "non_finite_loss_step": self.non_finite_loss_step,
            "best_loss": self.best_loss,
            "final_learning_rate": last.learning_rate if last else None,
            "final_grad_norm": self.final_grad_norm,
        }
