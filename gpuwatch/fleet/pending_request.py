"""A question to one node that takes its time to answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec

Answer = TypeVar("Answer")


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

    def read(self, kind: type[Answer]) -> tuple[Answer | None, str | None]:
        """The answer, or why there is none; neither while nothing has come."""
        if self.data is None:
            return None, self.error
        try:
            return msgspec.convert(self.data, kind), None
        except msgspec.ValidationError as error:
            return None, f"an answer that cannot be read: {error}"
