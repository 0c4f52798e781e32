"""Levels of confidence of a verdict."""

from __future__ import annotations

from typing import Literal, TypeAlias

Confidence: TypeAlias = Literal["high", "medium", "low"]
LEVELS: tuple[Confidence, ...] = ("low", "medium", "high")
"""Lowest first."""
