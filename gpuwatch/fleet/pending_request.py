"""A request to one node whose answer takes a while."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec

from gpuwatch.decode_errors import DECODE_ERRORS

Answer = TypeVar("Answer")


@dataclass
class Asked:
    """A request to a node, with its answer or error once that was received."""

    node: str
    id: int
    data: dict[str, Any] | None = None
    error: str | None = None

    @property
    def done(self) -> bool:
        """Return True if the answer or an error was received."""
        return self.data is not None or self.error is not None

    def read(self, kind: type[Answer]) -> tuple[Answer | None, str | None]:
        """Return (answer, None), or (None, error); (None, None) while nothing was received.

        An answer of another form than `kind` gives an error.
        """
        if self.data is None:
            return None, self.error
        try:
            return msgspec.convert(self.data, kind), None
        except DECODE_ERRORS as error:
            return None, f"an answer that cannot be read: {error}"
