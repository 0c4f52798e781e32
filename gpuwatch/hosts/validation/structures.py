"""Lists and mappings in a hosts file, composed of other shapes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import yaml
from msgspec import Struct

from gpuwatch.hosts.validation.document import place
from gpuwatch.hosts.validation.errors import Problems, TextPosition, did_you_mean, shown
from gpuwatch.hosts.validation.shapes import Schema, Shape, Text, described, scalar


class ListOf(Shape):
    """The shape of a list of one or more values of the shape `item`; `or_single`: also of one bare value."""

    def __init__(self, item: Shape, what: str, *, or_single: bool = False) -> None:
        self.item, self.what, self.or_single = item, what, or_single

    def read(self, node: yaml.Node, problems: Problems) -> list[Any] | None:
        """Return the list's valid values, possibly none; invalid ones are reported.

        None if the value is no such list, or one invalid bare value.
        """
        if isinstance(node, yaml.SequenceNode) and node.value:
            values = [self.item.read(item, problems) for item in node.value]
            return [value for value in values if value is not None]
        if self.or_single and scalar(node) is not None:
            value = self.item.read(node, problems)
            return None if value is None else [value]
        problems.refuse(place(node), f"must be {self.what}, not {self._but(node)}")
        return None

    def schema(self) -> Schema:
        array = {"type": "array", "items": self.item.schema(), "minItems": 1}
        return {"anyOf": [array, self.item.schema()]} if self.or_single else array

    @staticmethod
    def _but(node: yaml.Node) -> str:
        return "an empty list" if isinstance(node, yaml.SequenceNode) else described(node)


class Key(Struct, frozen=True):
    """A key of a mapping: its allowed value and its description."""

    name: str
    shape: Shape
    doc: str
    required: bool = False


@dataclass
class ReadMapping:
    """A parsed mapping: its own position, its valid values, and the position of every value."""

    place: TextPosition
    values: dict[str, Any] = field(default_factory=dict)
    places: dict[str, TextPosition] = field(default_factory=dict)


def pairs(node: yaml.MappingNode, problems: Problems) -> Iterator[tuple[str, yaml.Node, yaml.Node]]:
    """Yield (key, key node, value node) of a mapping; the second of two equal keys is reported and left out.

    A key that is not a word is reported and left out, too.
    """
    seen: dict[str, int] = {}
    for key_node, value in node.value:
        key = scalar(key_node)
        if key is None:
            problems.add(place(key_node), f"a key must be a word, not {described(key_node)}")
        elif key in seen:
            problems.add(place(key_node), f"{shown(key)} is given twice, first in line {seen[key]}")
        else:
            seen[key] = place(key_node).line
            yield key, key_node, value


WORD = re.compile(r"[\w.<-][\w. <-]{0,60}")
"""Form of a text that may be a misspelt key and may be shown; other text may contain a password."""


class Record(Shape):
    """The shape of a mapping with known keys, some of them required."""

    def __init__(self, what: str, keys: Sequence[Key]) -> None:
        self.what = what
        self.keys = {key.name: key for key in keys}

    def read(self, node: yaml.Node, problems: Problems) -> ReadMapping | None:
        """Return the mapping with its valid values; None if the value is no mapping.

        Unknown keys, invalid values and missing required keys are reported.
        """
        if not isinstance(node, yaml.MappingNode):
            known = ", ".join(self.keys)
            problems.refuse(place(node), f"must be a mapping with keys of {known}, not {described(node)}")
            return None
        entry = ReadMapping(place(node))
        for name, key_node, value_node in pairs(node, problems):
            key = self.keys.get(name)
            if key is None:
                word = shown(name) if WORD.fullmatch(name) else "that is not a word (not shown)"
                problems.add(place(key_node), f"unknown key {word}{self._hint(name)}")
                continue
            entry.places[name] = place(value_node)
            with problems.about(name):
                value = key.shape.read(value_node, problems)
            if value is not None:
                entry.values[name] = value
        for key in self.keys.values():
            if key.required and key.name not in entry.places:
                problems.add(entry.place, f"{self.what} needs the key '{key.name}'")
        return entry

    def schema(self) -> Schema:
        """Return the schema: an object with these keys and no others."""
        properties = {key.name: {"description": key.doc, **key.shape.schema()} for key in self.keys.values()}
        schema: Schema = {"type": "object", "properties": properties, "additionalProperties": False}
        required = [key.name for key in self.keys.values() if key.required]
        return {**schema, "required": required} if required else schema

    def _hint(self, name: str) -> str:
        if name == "<<":
            return "; merge keys are not supported, shared settings go under 'defaults' or 'groups'"
        return did_you_mean(name, self.keys) or f"; known here: {', '.join(self.keys)}"


class MapOf(Shape):
    """The shape of a mapping from names that the user chooses to values of one shape."""

    def __init__(self, what: str, name: Text, value: Shape) -> None:
        self.what, self.name, self.value = what, name, value

    def read(self, node: yaml.Node, problems: Problems) -> dict[str, Any] | None:
        """Return name -> value of all valid pairs; invalid ones are reported.

        None if the value is no mapping.
        """
        if not isinstance(node, yaml.MappingNode):
            self.refuse(node, problems)
            return None
        found = {}
        for name, key_node, value_node in pairs(node, problems):
            if not self.name.fits(name):
                problems.add(place(key_node), f"{shown(name)} is not {self.name.what}")
                continue
            with problems.about(name):
                value = self.value.read(value_node, problems)
            if value is not None:
                found[name] = value
        return found

    def schema(self) -> Schema:
        names = {"pattern": f"^(?:{self.name.pattern})$", "maxLength": self.name.limit}
        return {"type": "object", "propertyNames": names, "additionalProperties": self.value.schema()}


class OneOf(Shape):
    """The shape of a YAML value that may be a single value, a list or a mapping; other kinds are reported."""

    def __init__(
        self,
        what: str,
        *,
        single: Shape | None = None,
        many: Shape | None = None,
        mapping: Shape | None = None,
    ) -> None:
        self.what = what
        self._single, self._many, self._mapping = single, many, mapping

    def read(self, node: yaml.Node, problems: Problems) -> Any:  # noqa: ANN401 - the value of the shape that fits
        """Return the value, read by the shape for its kind; None if it is invalid (reported)."""
        if isinstance(node, yaml.MappingNode):
            shape = self._mapping
        elif isinstance(node, yaml.SequenceNode):
            shape = self._many
        else:
            shape = self._single if scalar(node) is not None else None
        if shape is None:
            self.refuse(node, problems)
            return None
        return shape.read(node, problems)

    def schema(self) -> Schema:
        return {"anyOf": [shape.schema() for shape in (self._single, self._many, self._mapping) if shape]}
