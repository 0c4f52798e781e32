"""Gradient norms of a model, and their problems, compared with their own history."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..base.ranks import distributed, loaded_torch
from ..measures.distribution import percentile

EXPLOSION_FACTOR = 10.0
"""A norm explodes above this multiple of the running median; healthy public runs stay far below it."""
VANISHED_GRADIENT = 1e-7
WINDOW_NORMS, MIN_NORMS = 64, 16
"""Number of norms in the running median, and the minimum before it is used."""


@dataclass(frozen=True)
class GradientReport:
    """The gradients at one moment."""

    norm: float | None
    """L2 norm of all gradients together; None: no parameter has one."""
    per_layer: dict[str, float]
    """Norm by parameter; empty unless requested."""
    non_finite: list[str]
    """Parameters whose gradient contains a NaN or Inf."""
    without_gradient: list[str]
    """Trainable parameters without a gradient: the loss does not depend on them."""
    is_exploding: bool = False
    is_vanishing: bool = False


def parameters_without_gradient(model: Any) -> list[str]:
    """Return the trainable parameters whose `.grad` is None, after `backward` and before `zero_grad`."""
    return [name for name, each in model.named_parameters() if each.requires_grad and each.grad is None]


def gradient_report(model: Any, *, per_layer: bool = False, is_sharded: bool = False) -> GradientReport:
    """Return the norms of the gradients, not compared with earlier ones; waits once for the GPU.

    Args:
        model: After `backward`, before `zero_grad`; unscale gradients of a GradScaler first.
        per_layer: Include the norm of every parameter.
        is_sharded: Each rank holds a part of every gradient (FSDP, ZeRO): the squares are summed over the
            ranks, which is a collective.
    """
    torch = loaded_torch()
    named = [(name, each.grad.detach()) for name, each in model.named_parameters() if each.grad is not None]
    local = [(name, grad.to_local() if hasattr(grad, "to_local") else grad) for name, grad in named]
    norms: list[float] = []
    if local:
        each_norm = torch.stack(
            [torch.linalg.vector_norm(grad, dtype=torch.float32).to(local[0][1].device) for _, grad in local]
        )
        dist = distributed()
        if is_sharded and dist is not None:
            squares = each_norm**2
            dist.all_reduce(squares)
            each_norm = squares.sqrt()
        norms = each_norm.tolist()
    names = [name for name, _ in local]
    return GradientReport(
        norm=_together(norms),
        per_layer=dict(zip(names, norms)) if per_layer else {},
        non_finite=[name for name, norm in zip(names, norms) if not math.isfinite(norm)],
        without_gradient=parameters_without_gradient(model),
    )


def _together(norms: Sequence[float]) -> float | None:
    """Return the norm of all norms; None without norms. NaN takes precedence over Inf."""
    if not norms:
        return None
    if any(math.isnan(norm) for norm in norms):
        return math.nan
    return math.hypot(*norms)


class GradientHistory:
    """Detects a norm that explodes or vanishes in comparison with the norms before it."""

    def __init__(self) -> None:
        self._norms: deque[float] = deque(maxlen=WINDOW_NORMS)

    def judge(self, norm: float) -> tuple[bool, bool]:
        """Add a norm, if it is finite and does not explode; return (does it explode, does it vanish)."""
        if not math.isfinite(norm):
            return False, False  # reported as NaN or Inf
        usual = percentile(sorted(self._norms), 0.5) if len(self._norms) >= MIN_NORMS else None
        explodes = usual is not None and usual > 0 and norm > EXPLOSION_FACTOR * usual
        vanishes = norm < VANISHED_GRADIENT and (usual is None or usual >= VANISHED_GRADIENT)
        if not explodes:  # what explodes is not what is usual
            self._norms.append(norm)
        return explodes, vanishes
