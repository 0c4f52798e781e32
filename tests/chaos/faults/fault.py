"""One row of the table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from tests.chaos.scene.stage import Stage

S = TypeVar("S", bound=Stage)
HOUR_S = 3600


@dataclass(frozen=True)
class Fault(Generic[S]):
    """What happens, and what the operator must see."""

    what: str
    cause: Callable[[S], None]
    repair: Callable[[S], None] | None = None
    """None: it passes by itself."""
    victims: tuple[str, ...] = ()
    """The nodes that may be lost meanwhile; all others stay live over the same connection."""
    sign: str = "node_lost"
    """What must be shown before the repair: a part of a sign of `Polling`; empty: nothing has to be."""
    codes: frozenset[str] = frozenset()
    """Alerts that are true, besides those of a silent link."""
    passes: bool = True
    """False: the sign stays for a while after the repair, and so does not tell that all is well."""
