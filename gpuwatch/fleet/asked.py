"""A question to one node that takes its time to answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass
class Asked:
    """What was asked of a node, until the answer or the reason why there is none is here."""

    node: str
    id: int
    data: dict[str, Any] | None = None
    error: str | None = None

    @property
    def done(self) -> bool:
        """Whether nothing more will come."""
        return self.data is not None or self.error is not None
