"""What a person prefers of the screens; kept in their settings file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal, TypeAlias

from gpuwatch.hosts.receivers import ReceiverSpec

Table: TypeAlias = Literal["nodes", "ranks", "processes"]
"""Tables whose columns can be chosen."""


def _nothing() -> Mapping[str, str]:
    return MappingProxyType({})


def _no_columns() -> Mapping[str, Sequence[str]]:
    return MappingProxyType({})


@dataclass(frozen=True)
class Preferences:
    """Every setting with its default; the names are the keys of the settings file."""

    theme: str = "gpuwatch"
    metric: str = "util"
    """Of the heat map."""
    sort: Mapping[str, str] = field(default_factory=_nothing)
    """Table -> the column that orders it; with `-` before it the other way round."""
    columns: Mapping[str, Sequence[str]] = field(default_factory=_no_columns)
    """Table -> the columns wanted, in the order of the screen."""
    refresh: float = 8.0
    """Repaints a second at most."""
    bell: bool = False
    notify: bool = False
    """A desktop notification on a new incident."""
    title: bool = False
    """The terminal's title names the newest incident."""
    actions: bool = True
    """Whether the key for actions may run commands, once they are confirmed."""
    keys: Mapping[str, str] = field(default_factory=_nothing)
    """Id of a binding -> its keys."""
    alerts: Sequence[ReceiverSpec] = ()
    """Where incidents are delivered to."""
