"""How sure a verdict is."""

from __future__ import annotations

from typing import Literal, TypeAlias

Confidence: TypeAlias = Literal["high", "medium", "low"]
LEVELS: tuple[Confidence, ...] = ("low", "medium", "high")
"""The least sure first."""
