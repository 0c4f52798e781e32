"""The symbol of every grade other than ok: one table for the screen, the text and their legends."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from gpuwatch.probe.judging.links.links import Grade

Marks: TypeAlias = Mapping[Grade, str]
"""Grade -> its character; an ok link has none."""

UNICODE: Marks = {"low": "▲", "noisy": "≈", "bad": "✖", "dead": "∅"}
"""The marks in Unicode: low and bad have the same signs as a warning and a critical problem elsewhere."""
ASCII: Marks = {"low": "!", "noisy": "~", "bad": "x", "dead": "X"}
