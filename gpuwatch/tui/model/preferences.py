"""The user's preferences for the screens, saved in the settings file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Literal, TypeAlias

from msgspec import Struct, field

from gpuwatch.hosts.receivers import ReceiverSpec

Table: TypeAlias = Literal["nodes", "logs", "gpus", "ranks", "processes"]
"""Tables whose columns can be chosen; "logs": the nodes of an opened folder of logs."""


def _nothing() -> Mapping[str, str]:
    return MappingProxyType({})


def _no_columns() -> Mapping[str, Sequence[str]]:
    return MappingProxyType({})


class Preferences(Struct, frozen=True):
    """Every setting of the screens with its default; the names are the keys of the settings file."""

    theme: str = "gpuwatch"
    metric: str = "util"
    """The metric of the heat map."""
    sort: Mapping[str, str] = field(default_factory=_nothing)
    """Table -> the column that sorts it; a leading `-` reverses the order."""
    columns: Mapping[str, Sequence[str]] = field(default_factory=_no_columns)
    """Table -> the selected columns, in screen order."""
    refresh: float = 8.0
    """Maximum repaints per second."""
    bell: bool = False
    notify: bool = False
    """True for a desktop notification on a new incident."""
    title: bool = False
    """True to show the newest incident in the terminal's title."""
    actions: bool = True
    """True if the actions key may run commands after confirmation."""
    keys: Mapping[str, str] = field(default_factory=_nothing)
    """Id of a binding -> its keys."""
    alerts: Sequence[ReceiverSpec] = ()
    """The receivers of incidents."""
