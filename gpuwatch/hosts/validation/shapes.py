"""The allowed forms of a single value in a hosts file; each form parses a value and gives its JSON Schema."""

from __future__ import annotations

import abc
import re
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import yaml

from gpuwatch.hosts.validation.document import STANDARD_TAG, place
from gpuwatch.hosts.validation.errors import Problems, did_you_mean, shown

Schema: TypeAlias = dict[str, Any]

_NULL = "tag:yaml.org,2002:null"
_WHOLE = re.compile(r"[+-]?[0-9]{1,15}")
_NUMBER = re.compile(r"[+-]?([0-9]{1,15}(\.[0-9]{0,30})?|\.[0-9]{1,30})([eE][+-]?[0-9]{1,2})?")


class Shape(abc.ABC):
    """The form that a value in a hosts file must have.

    `read` returns the value; if it is wrong, it adds a problem and returns None. `what` describes the form in
    a message: "a list of host names".
    """

    what: str

    @abc.abstractmethod
    def read(self, node: yaml.Node, problems: Problems) -> Any:  # noqa: ANN401 - every shape has its own value
        """Return the value of a YAML node, or report the problem and return None."""

    @abc.abstractmethod
    def schema(self) -> Schema:
        """Return the JSON Schema of the values that `read` accepts."""

    def refuse(self, node: yaml.Node, problems: Problems) -> None:
        """Report that the value does not have this shape."""
        problems.refuse(place(node), f"must be {self.what}, not {described(node)}")


def described(node: yaml.Node) -> str:
    """Return the description of a wrong value for a message: `a list`, `nothing`, or the value in quotes.

    A value at the very beginning of the file is not quoted: the file may be a key or a password file.
    """
    if not STANDARD_TAG.fullmatch(node.tag):
        return f"a value tagged {shown(node.tag)}"
    if isinstance(node, yaml.SequenceNode):
        return "a list"
    if isinstance(node, yaml.MappingNode):
        return "a mapping"
    if node.tag == _NULL:
        return "nothing"
    if node.start_mark.index == 0:
        return "a text"  # the file may be a key or password file: its text must not be quoted
    return shown(str(node.value)) + (" in quotes" if quoted(node) else "")


def scalar(node: yaml.Node) -> str | None:
    """Return the text of a single value as written (`007` stays `007`); None for null, lists and mappings."""
    if isinstance(node, yaml.ScalarNode) and node.tag != _NULL and STANDARD_TAG.fullmatch(node.tag):
        return str(node.value)
    return None


def quoted(node: yaml.Node) -> bool:
    """Return True if a single value is written in quotes or as a block."""
    return isinstance(node, yaml.ScalarNode) and bool(node.style)


def unquoted(node: yaml.Node) -> str | None:
    """Return the text of a single value without quotes, as numbers must be; None if quoted or not single."""
    return None if quoted(node) else scalar(node)


class Text(Shape):
    """The shape of a string of at most `limit` printable characters that matches `pattern` as a whole."""

    def __init__(self, what: str, pattern: str = r".+", limit: int = 1024) -> None:
        self.what, self.pattern, self.limit = what, pattern, limit

    def read(self, node: yaml.Node, problems: Problems) -> str | None:
        text = scalar(node)
        if text is None or not self.fits(text):
            self.refuse(node, problems)
            return None
        return text

    def fits(self, text: str) -> bool:
        """Return True if the text is printable, at most `limit` long, and matches the pattern."""
        return len(text) <= self.limit and text.isprintable() and bool(re.fullmatch(self.pattern, text))

    def schema(self) -> Schema:
        """Return the schema: a string, number or boolean, because an unquoted `7` or `yes` is one in YAML."""
        kinds = ["string", "number", "boolean"]
        return {"type": kinds, "pattern": f"^(?:{self.pattern})$", "maxLength": self.limit}


class SecretText(Text):
    """The shape of a text that may be a secret: errors do not quote an invalid value."""

    def refuse(self, node: yaml.Node, problems: Problems) -> None:
        """Report the invalid value at `node`, without quoting it."""
        problems.refuse(place(node), f"must be {self.what} (the value is not shown)")


class Keyword(Shape):
    """The shape of a value that is one of a few words; an old name of a word is read as the new one."""

    def __init__(
        self, words: Sequence[str], renamed: Mapping[str, str] | None = None, what: str | None = None
    ) -> None:
        """Create the shape of the given words.

        Args:
            words: The words.
            renamed: Old word -> new word.
            what: Describes the words in messages, if they are too many to be listed.
        """
        self.words = tuple(words)
        self._renamed = renamed or {}
        self.what = " or ".join(words) if what is None else what

    def read(self, node: yaml.Node, problems: Problems) -> str | None:
        text = scalar(node)
        text = self._renamed.get(text or "", text)
        if text in self.words:
            return text
        hint = did_you_mean(text or "", self.words)
        problems.refuse(place(node), f"must be {self.what}, not {described(node)}{hint}")
        return None

    def schema(self) -> Schema:
        return {"enum": list(self.words)}


class Switch(Shape):
    """The shape of on or off, with or without quotes: YAML 1.1 reads both words as booleans."""

    what = "on or off"
    _ON, _OFF = (
        ("on", "On", "ON", "true", "True", "TRUE", "yes"),
        ("off", "Off", "OFF", "false", "False", "FALSE", "no"),
    )

    def read(self, node: yaml.Node, problems: Problems) -> bool | None:
        """Return True for on and False for off; None for anything else (reported)."""
        text = scalar(node)
        if text in self._ON or text in self._OFF:
            return text in self._ON
        self.refuse(node, problems)
        return None

    def schema(self) -> Schema:
        return {"enum": [True, False, *self._ON, *self._OFF]}


class Whole(Shape):
    """The shape of a whole number from `least` to `most`, written without quotes."""

    def __init__(self, least: int, most: int) -> None:
        self.least, self.most = least, most
        self.what = f"a whole number from {least} to {most}"

    def read(self, node: yaml.Node, problems: Problems) -> int | None:
        text = unquoted(node)
        if text is not None and _WHOLE.fullmatch(text) and self.least <= int(text) <= self.most:
            return int(text)
        self.refuse(node, problems)
        return None

    def schema(self) -> Schema:
        return {"type": "integer", "minimum": self.least, "maximum": self.most}


class Number(Shape):
    """The shape of a number from `least` to `most`, in `unit`, written without quotes."""

    def __init__(self, least: float, most: float, unit: str) -> None:
        self.least, self.most = least, most
        self.what = f"a number from {least:g} to {most:g} ({unit})"

    def read(self, node: yaml.Node, problems: Problems) -> float | None:
        text = unquoted(node)
        if text is not None and _NUMBER.fullmatch(text) and self.least <= float(text) <= self.most:
            return float(text)
        self.refuse(node, problems)
        return None

    def schema(self) -> Schema:
        return {"type": "number", "minimum": self.least, "maximum": self.most}
