"""The mark of every grade of link that is not ok: one table for the screen, the text and their legends."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from gpuwatch.probe.judging.links.links import Grade

Marks: TypeAlias = Mapping[Grade, str]
"""Grade -> one character; a link that is ok has none."""

UNICODE: Marks = {"low": "▲", "noisy": "≈", "bad": "✖", "dead": "∅"}
"""Low and bad are the signs of a warning and of what is critical everywhere else, too."""
ASCII: Marks = {"low": "!", "noisy": "~", "bad": "x", "dead": "X"}
