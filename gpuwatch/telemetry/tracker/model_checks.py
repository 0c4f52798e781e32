"""Checks on demand: gradients, equality across ranks, data sharding, the model. Problems become warnings."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from ..summaries.text import MIB
from .rank_tracker import RankTracker

if TYPE_CHECKING:
    from typing import Literal

    from ..training.consistency import RankDifference, ShardingReport
    from ..training.gradients import GradientHistory, GradientReport
    from ..training.masks import MaskReport

MAX_NAMES = 5
"""Maximum number of names in the text of a warning; the result has all."""


class ModelChecks(RankTracker):
    """Checks that a training loop may run occasionally; each waits for the GPU."""

    _gradients: GradientHistory | None = None

    def warn(self, name: str, text: str) -> None:
        """Count and log a warning."""
        raise NotImplementedError

    def check_gradients(
        self, model: Any, *, per_layer: bool = False, is_sharded: bool = False
    ) -> GradientReport:
        """Return the gradient norm and the problems of the gradients; the problems also become warnings.

        Call it after `backward` and before `zero_grad`.

        Args:
            model: The module.
            per_layer: Include the norm of every parameter.
            is_sharded: Sum the squares over the ranks (FSDP, ZeRO): a collective.
        """
        from dataclasses import replace  # noqa: PLC0415 - the import stays light

        from ..training.gradients import GradientHistory, gradient_report  # noqa: PLC0415 - the import stays light

        report = gradient_report(model, per_layer=per_layer, is_sharded=is_sharded)
        if self._gradients is None:
            self._gradients = GradientHistory()
        if report.norm is not None:
            explodes, vanishes = self._gradients.judge(report.norm)
            report = replace(report, is_exploding=explodes, is_vanishing=vanishes)
        if report.non_finite:
            self.warn("num.nan_grad", f"the gradient is NaN or Inf in {_names(report.non_finite)}")
        if report.is_exploding:
            self.warn(
                "num.grad_explodes", f"the gradient norm is {report.norm:.4g}, over 10 times its usual value"
            )
        if report.is_vanishing:
            self.warn("num.grad_vanishes", f"the gradient norm is {report.norm:.2g}: nothing is learnt")
        if report.without_gradient and report.norm is None:
            self.warn(
                "params.no_grad", "no parameter has a gradient: check_gradients is called after zero_grad"
            )
        elif report.without_gradient:
            self.warn("params.no_grad", f"no gradient reaches {_names(report.without_gradient)}")
        return report

    def print_gradient_norms(self, model: Any) -> GradientReport:
        """Print the gradient norm of every parameter, the largest first; return the report.

        It warns of the same problems as `check_gradients`.
        """
        report = self.check_gradients(model, per_layer=True)
        width = max(map(len, report.per_layer), default=0)
        rows = sorted(report.per_layer.items(), key=_largest_first)
        total = "-" if report.norm is None else f"{report.norm:.4g}"
        lines = [f"    {name:<{width}}  {norm:.4g}" for name, norm in rows]
        self._say("\n".join([f"Gradient norm: {total}", *lines]))
        return report

    def check_equal_across_ranks(
        self, model: Any, kind: Literal["parameters", "gradients"] = "parameters"
    ) -> list[RankDifference]:
        """Return the parameters or gradients that are not bit-equal on all ranks; warn of them.

        A collective: every rank calls it.
        """
        from ..training.consistency import differences_across_ranks  # noqa: PLC0415 - the import stays light

        found = differences_across_ranks(model, kind)
        if found:
            ranks = sorted({rank for each in found for rank in each.ranks})
            name = "ranks.params_differ" if kind == "parameters" else "ranks.grads_differ"
            names = _names([each.name for each in found])
            which = f"rank{'s' * (len(ranks) > 1)} {', '.join(map(str, ranks))}"
            self.warn(name, f"{kind} of {which} differ: {names}")
        return found

    def check_data_sharding(self, sample_ids: Iterable[Any]) -> ShardingReport:
        """Return a report of the samples that several ranks have read; warn of them.

        A collective: every rank calls it with the ids of its own samples.
        """
        from ..training.consistency import check_sharding  # noqa: PLC0415 - the import stays light

        report = check_sharding(sample_ids)
        if not report.is_disjoint:
            first, ranks = next(iter(report.overlaps.items()))
            readers = ", ".join(map(str, ranks))
            text = f"samples of several ranks: {report.overlap_count}, for example {first} of ranks {readers}"
            self.warn("data.overlap", text)
        return report

    def check_masks(
        self,
        labels: Any,
        attention_mask: Any = None,
        input_ids: Any = None,
        *,
        pad_id: int | None = None,
        ignored_label: int = -100,
    ) -> MaskReport:
        """Return the effect of the masks of a batch (`training.masks.check_masks`); warn of its problems."""
        from ..training.masks import check_masks  # noqa: PLC0415 - the import stays light

        report = check_masks(labels, attention_mask, input_ids, pad_id=pad_id, ignored_label=ignored_label)
        if report.problems:
            self.warn("data.mask", "; ".join(report.problems))
        return report

    def log_model_summary(self, model: Any) -> str:
        """Print architecture, parameter table and memory on rank 0; return the text."""
        from ..training.model_facts import model_summary  # noqa: PLC0415 - the import stays light

        text = model_summary(model)
        if self.facts.rank == 0:
            self._say(text)
        return text

    def print_memory_of_all_ranks(self) -> None:
        """Print every rank's allocated, reserved and peak memory, in GB, on rank 0. A collective."""
        summaries = self.get_summaries_from_all_ranks()
        if self.facts.rank == 0:
            self._say(_memory_table(summaries))


def _memory_table(summaries: Sequence[dict[str, Any]]) -> str:
    lines = ["Memory Usage (GB):", f"{'Rank':>6} {'Allocated':>12} {'Reserved':>12} {'Peak':>12}", "-" * 48]
    for rank, summary in enumerate(summaries):
        newest = (summary["gpu_memory"] or [{}])[-1]
        values = (
            newest.get("allocated"),
            newest.get("reserved"),
            summary["gpu_memory_peak"].get("allocated"),
        )
        cells = (f"{'-' if value is None else format(value * MIB / 1e9, '.2f'):>12}" for value in values)
        lines.append(" ".join((f"{rank:>6}", *cells)))
    return "\n".join(lines)


def _largest_first(row: tuple[str, float]) -> float:
    return -row[1] if math.isfinite(row[1]) else -math.inf


def _names(names: Sequence[str]) -> str:
    more = f" and {len(names) - MAX_NAMES} more" if len(names) > MAX_NAMES else ""
    return ", ".join(names[:MAX_NAMES]) + more
