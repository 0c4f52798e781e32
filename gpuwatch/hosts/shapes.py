"""The allowed forms of a single value in a hosts file: one description reads it and makes its JSON Schema."""

from __future__ import annotations

import abc
import re
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import yaml

from gpuwatch.hosts.document import STANDARD_TAG, place
from gpuwatch.hosts.errors import Problems, did_you_mean, shown

Schema: TypeAlias = dict[str, Any]

_NULL = "tag:yaml.org,2002:null"
_WHOLE = re.compile(r"[+-]?[0-9]{1,15}")
_NUMBER = re.compile(r"[+-]?([0-9]{1,15}(\.[0-9]{0,30})?|\.[0-9]{1,30})([eE][+-]?[0-9]{1,2})?")


class Shape(abc.ABC):
    """A kind of value. `read` returns None if the value is wrong, and reports the problem.

    `what` is its description in a message: "a list of host names".
    """

    what: str

    @abc.abstractmethod
    def read(self, node: yaml.Node, problems: Problems) -> Any:  # noqa: ANN401 - every shape has its own value
        """Read the value of a node."""

    @abc.abstractmethod
    def schema(self) -> Schema:
        """The JSON Schema of what `read` accepts."""

    def refuse(self, node: yaml.Node, problems: Problems) -> None:
        """Report that the value does not have this shape."""
        problems.refuse(place(node), f"must be {self.what}, not {described(node)}")


def described(node: yaml.Node) -> str:
    """The description of a wrong value for a message."""
    if not STANDARD_TAG.fullmatch(node.tag):
        return f"a value tagged {shown(node.tag)}"
    if isinstance(node, yaml.SequenceNode):
        return "a list"
    if isinstance(node, yaml.MappingNode):
        return "a mapping"
    if node.tag == _NULL:
        return "nothing"
    if node.start_mark.index == 0:
        return "a text"  # of a file that is something else: a key or a password file is not quoted
    return shown(str(node.value)) + (" in quotes" if quoted(node) else "")


def scalar(node: yaml.Node) -> str | None:
    """The text of a single value as it is written (`007` stays `007`); None for anything else, or nothing."""
    if isinstance(node, yaml.ScalarNode) and node.tag != _NULL and STANDARD_TAG.fullmatch(node.tag):
        return str(node.value)
    return None


def quoted(node: yaml.Node) -> bool:
    """True if a single value is written in quotes, or as a block."""
    return isinstance(node, yaml.ScalarNode) and bool(node.style)


def unquoted(node: yaml.Node) -> str | None:
    """The text of a single value without quotes, as required for a number."""
    return None if quoted(node) else scalar(node)


class Text(Shape):
    """A string of printable characters that matches `pattern` as a whole."""

    def __init__(self, what: str, pattern: str = r".+", limit: int = 1024) -> None:
        self.what, self.pattern, self.limit = what, pattern, limit

    def read(self, node: yaml.Node, problems: Problems) -> str | None:
        """The text."""
        text = scalar(node)
        if text is None or not self.fits(text):
            self.refuse(node, problems)
            return None
        return text

    def fits(self, text: str) -> bool:
        """True if a text is accepted."""
        return len(text) <= self.limit and text.isprintable() and bool(re.fullmatch(self.pattern, text))

    def schema(self) -> Schema:
        """A string; also a number or boolean, which is YAML's type of an unquoted `7` or `yes`."""
        kinds = ["string", "number", "boolean"]
        return {"type": kinds, "pattern": f"^(?:{self.pattern})$", "maxLength": self.limit}


class Keyword(Shape):
    """One of a few words; a renamed one is accepted under its old name, too."""

    def __init__(self, words: Sequence[str], renamed: Mapping[str, str] | None = None) -> None:
        """`renamed`: old words -> the new ones."""
        self.words = tuple(words)
        self._renamed = renamed or {}
        self.what = " or ".join(words)

    def read(self, node: yaml.Node, problems: Problems) -> str | None:
        """The word."""
        text = scalar(node)
        text = self._renamed.get(text or "", text)
        if text in self.words:
            return text
        hint = did_you_mean(text or "", self.words)
        problems.refuse(place(node), f"must be {self.what}, not {described(node)}{hint}")
        return None

    def schema(self) -> Schema:
        """An enumeration."""
        return {"enum": list(self.words)}


class Switch(Shape):
    """on or off, with or without quotes: YAML 1.1 reads both words as booleans."""

    what = "on or off"
    _ON, _OFF = (
        ("on", "On", "ON", "true", "True", "TRUE", "yes"),
        ("off", "Off", "OFF", "false", "False", "FALSE", "no"),
    )

    def read(self, node: yaml.Node, problems: Problems) -> bool | None:
        """True if it is on."""
        text = scalar(node)
        if text in self._ON or text in self._OFF:
            return text in self._ON
        self.refuse(node, problems)
        return None

    def schema(self) -> Schema:
        """A boolean, or a word."""
        return {"enum": [True, False, *self._ON, *self._OFF]}


class Whole(Shape):
    """A whole number from `least` to `most`."""

    def __init__(self, least: int, most: int) -> None:
        self.least, self.most = least, most
        self.what = f"a whole number from {least} to {most}"

    def read(self, node: yaml.Node, problems: Problems) -> int | None:
        """The number."""
        text = unquoted(node)
        if text is not None and _WHOLE.fullmatch(text) and self.least <= int(text) <= self.most:
            return int(text)
        self.refuse(node, problems)
        return None

    def schema(self) -> Schema:
        """An integer with its limits."""
        return {"type": "integer", "minimum": self.least, "maximum": self.most}


class Number(Shape):
    """A number from `least` to `most`, in `unit`."""

    def __init__(self, least: float, most: float, unit: str) -> None:
        self.least, self.most = least, most
        self.what = f"a number from {least:g} to {most:g} ({unit})"

    def read(self, node: yaml.Node, problems: Problems) -> float | None:
        """The number."""
        text = unquoted(node)
        if text is not None and _NUMBER.fullmatch(text) and self.least <= float(text) <= self.most:
            return float(text)
        self.refuse(node, problems)
        return None

    def schema(self) -> Schema:
        """A number with its limits."""
        return {"type": "number", "minimum": self.least, "maximum": self.most}
