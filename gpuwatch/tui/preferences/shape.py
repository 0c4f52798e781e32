"""Every key of the settings file and its allowed values, for the parser and the JSON Schema."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import yaml

from gpuwatch.fleet.nodes.metrics import HEAT_METRICS
from gpuwatch.hosts.receivers import RECEIVERS
from gpuwatch.hosts.validation.errors import Problems, shown
from gpuwatch.hosts.validation.shapes import Keyword, Number, Schema, Switch, Text
from gpuwatch.hosts.validation.structures import Key, ListOf, ReadMapping, Record
from gpuwatch.tui.fleet import node_columns
from gpuwatch.tui.node import gpu_columns, process_columns
from gpuwatch.tui.toolkit import keys
from gpuwatch.tui.toolkit.refresh_rate import MAX_HZ, MIN_HZ
from gpuwatch.tui.toolkit.themes import THEME_NAMES
from gpuwatch.tui.training import rank_columns

TITLES = {
    "nodes": {column.name: column.title for column in node_columns.COLUMNS},
    "logs": {each.name: each.title for each in node_columns.COLUMNS if each.name in node_columns.OF_LOGS},
    "gpus": {column.name: column.title for column in gpu_columns.COLUMNS},
    "ranks": {column.name: column.title for column in rank_columns.COLUMNS},
    "processes": {column.name: column.title for column in process_columns.COLUMNS},
}
"""Table -> the title of each of its columns, by name."""
COLUMNS = {table: tuple(titles) for table, titles in TITLES.items()}
"""Table -> the names of its columns."""
USUAL = {
    **COLUMNS,
    "nodes": tuple(column.name for column in node_columns.COLUMNS if not column.optional),
    "gpus": tuple(column.name for column in gpu_columns.COLUMNS if not column.optional),
}
"""Table -> its default columns."""
SORTS = {"nodes": node_columns.SORTS, "ranks": ("worst", *rank_columns.SORTS)}
"""Table -> the columns that can sort it."""
RENAMED = {"told": "step_age"}
"""Old names of columns, which settings files may contain -> the current names."""
_KEY_TEXT = Text("a key such as f5, x or ctrl+x, or several separated by commas", r"[^\s,]+(?:,[^\s,]+)*")


def _sort(names: Iterable[str]) -> Keyword:
    renamed = {way + old: way + new for old, new in RENAMED.items() for way in ("", "-")}
    shape = Keyword([way + name for name in names for way in ("", "-")], renamed)
    shape.what = "the name of a column; a - before it reverses the order"
    return shape


class Bindings(Record):
    """Keys by the id of a binding; two actions of one screen cannot have the same key."""

    def read(self, node: yaml.Node, problems: Problems) -> ReadMapping | None:
        """Return the user's keys by the id of a binding; None if the value is no mapping.

        A key that another action of the same screen has, by the user's choice or by default, is a problem.
        """
        entry = super().read(node, problems)
        if entry is None:
            return None
        for name, text in entry.values.items():
            taken = _taken(name, text, entry.values)
            if taken is not None:
                key, other = taken
                problems.add(entry.places[name], f"{shown(key)} is already the key of '{other}'")
        return entry


def _taken(name: str, text: str, keymap: Mapping[str, str]) -> tuple[str, str] | None:
    """Return (key, id of the other binding) of the first key that another action has at the same time.

    None if no key is taken.
    """
    for bindings in keys.bound_together():
        own = next((each.action for each in bindings if each.id == name), None)
        for other in bindings:
            theirs = keys.rebound(other, keymap).key.split(",")
            shared = next((key for key in keys.as_list(text) if key in theirs), None)
            if shared is not None and own not in (None, other.action):
                return shared, other.id or other.action
    return None


def _bindings() -> Record:
    ids = {each.id: keys.meaning(each) for _, some in keys.SECTIONS for each in some if each.id}
    return Bindings("keys", [Key(name, _KEY_TEXT, meaning) for name, meaning in ids.items()])


FILE = Record(
    "the settings file",
    (
        Key("theme", Keyword(THEME_NAMES), "Colours."),
        Key("metric", Keyword(HEAT_METRICS), "The metric that the heat map shows first."),
        Key(
            "sort",
            Record("sort", [Key(table, _sort(names), f"Of the {table}.") for table, names in SORTS.items()]),
            "The column that sorts a table; a - before it reverses the order.",
        ),
        Key(
            "columns",
            Record(
                "columns",
                [
                    Key(table, ListOf(Keyword(names, RENAMED), "a list of columns"), f"Of the {table}.")
                    for table, names in COLUMNS.items()
                ],
            ),
            "Columns of a table, from left to right; a narrow screen shows fewer.",
        ),
        Key("refresh", Number(MIN_HZ, MAX_HZ, "repaints per second"), "Maximum repaints per second."),
        Key("bell", Switch(), "Ring the terminal's bell on each new incident."),
        Key("notify", Switch(), "Send a desktop notification (OSC 9 and 777) on each new incident."),
        Key("title", Switch(), "Write the newest incident into the terminal's title."),
        Key("actions", Switch(), "Whether the key A may run commands that change something, once confirmed."),
        Key("alerts", RECEIVERS, "The receivers of incidents."),
        Key(
            "keys", _bindings(), "Other keys: the id of a binding (the help screen lists them), and its keys."
        ),
    ),
)


def json_schema() -> Schema:
    """Return the JSON Schema (draft 2020-12) of the settings file, for editors."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "gpuwatch settings",
        "description": "Settings of gpuwatch's screens.",
        **FILE.schema(),
    }
