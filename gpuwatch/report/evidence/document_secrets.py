"""Masks secrets in YAML and JSON documents by their structure, wherever name and value stand. Pure.

Example: in `- value: x` / `  name: DB_PASSWORD` the name is below the value; in `password: &p !!str |-` the
value is on the lines below. A document that cannot be parsed to its end is masked up to there.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field

import yaml
from yaml.reader import Reader

from gpuwatch.agent.base.procfs import UNSEEN
from gpuwatch.agent.masking.secret_forms import MASK
from gpuwatch.telemetry.base.secret_names import (
    LONE_NAMES,
    is_secret_name,
    name_below,
    paired_name,
    secret_items,
)

ENDINGS = (".yaml", ".yml", ".json")
"""Endings of the names of YAML and JSON files, in lower case."""
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_JSON_TOKEN = re.compile(r"\"(?:[^\"\\]|\\.){0,1048576}\"|[{}\[\]:]|[^\s{}\[\]:,\"]{1,4096}", re.DOTALL)
_NO_SECRET = re.compile(
    r"(?:null|none|true|false|~|\$\S.*|<[^<>]*>|\[masked\]|\*+|)$", re.IGNORECASE | re.DOTALL
)
_NUMBER = re.compile(r"[+-]?[0-9.]+(?:[eE][+-]?[0-9]+)?$")
_MIN_DIGITS = 6
"""Minimum length of a number that may be a secret; a shorter one is a count."""
_PASSWORDS = ("password", "passwd", "passphrase", "pass", "pwd", "pw", "pin")
_KUBERNETES = {"data", "stringData"}
"""Keys of a Kubernetes Secret whose values are secret whatever their names are."""


@dataclass(eq=False)
class _Node:
    """A scalar, or a mapping or list with its children; `start` and `end` in characters."""

    start: int
    end: int = 0
    text: str | None = None
    """The text of a scalar."""
    children: list[_Node] = field(default_factory=list)
    is_mapping: bool = False
    is_key: bool = False
    anchored: _Node | None = None
    """The node with the anchor, if this node is an alias."""

    def pairs(self) -> Iterator[tuple[str, _Node]]:
        """Yield the keys and values of a mapping; "" for a key that is no scalar."""
        for key, value in zip(self.children, self.children[1:], strict=False):
            if key.is_key:
                yield UNSEEN.sub("", key.text or ""), value


def without_secrets(text: str, *, is_json: bool) -> tuple[str, bool]:
    """Return the text of a JSON (`is_json`) or YAML document with its secrets masked and its lines kept.

    The second value is True if the whole text was parsed.
    """
    root, is_whole = _json_tree(text) if is_json else _yaml_tree(text)
    made, at = [], 0
    for start, end in sorted(_secret_places(root)):
        if start >= at:
            made += [text[at:start], _masked(text[start:end])]
            at = end
    return "".join([*made, text[at:]]), is_whole


def _masked(value: str) -> str:
    """Return the mask for a value, in its quotes and on each of its lines."""
    bare = value.rstrip()
    quote = bare[:1] if len(bare) > 1 and bare[:1] in "\"'" and bare[-1] == bare[0] else ""
    below = (f"{line[: len(line) - len(line.lstrip())]}{MASK}" for line in bare.split("\n")[1:])
    lines = [quote + MASK, *below]
    return "\n".join(lines) + quote + value[len(bare) :]


def _secret_places(root: _Node) -> Iterator[tuple[int, int]]:
    """Yield (start, end) of each scalar that is a secret, in characters."""
    open_nodes = [(root, "")]
    revealed: set[int] = set()
    while open_nodes:
        node, name = open_nodes.pop()
        if node.anchored is not None:
            if is_secret_name(name) and id(node.anchored) not in revealed:
                revealed.add(id(node.anchored))
                open_nodes.append((node.anchored, name))
        elif node.text is not None:
            if name and _is_secret(name, node.text):
                yield node.start, node.end
        elif node.is_mapping:
            pairs = list(node.pairs())
            paired = paired_name((key, value.text) for key, value in pairs)
            is_kubernetes = any(key == "kind" and value.text == "Secret" for key, value in pairs)
            for key, value in pairs:
                is_whole = is_kubernetes and key in _KUBERNETES
                below = "secret" if is_whole else name_below(name, key, paired)
                open_nodes.append((value, below))
        else:
            secrets = secret_items([each.text for each in node.children])
            for at, each in enumerate(node.children):
                open_nodes.append((each, "password" if at in secrets else name))


def _is_secret(name: str, value: str) -> bool:
    if not is_secret_name(name) or _NO_SECRET.match(value.strip()):
        return False
    if name in LONE_NAMES and is_secret_name(value) and not any(each.isdecimal() for each in value):
        return False  # the key of a secret: `{name: store, key: password}`
    return not _NUMBER.match(value) or len(value) >= _MIN_DIGITS or name.lower().endswith(_PASSWORDS)


def _yaml_tree(text: str) -> tuple[_Node, bool]:
    """Return the documents of a YAML text as a list, and False if only a part of it can be parsed."""
    root = _Node(0)
    parents = [root]
    anchors: dict[str, _Node] = {}
    try:
        for event in yaml.parse(Reader.NON_PRINTABLE.sub(" ", text), Loader=_LOADER):
            if isinstance(event, yaml.CollectionEndEvent):
                parents.pop()
            elif isinstance(event, yaml.NodeEvent):
                is_mapping = isinstance(event, yaml.MappingStartEvent)
                start, end = event.start_mark, event.end_mark
                node = _Node(start.index if start else 0, end.index if end else 0, is_mapping=is_mapping)
                above = parents[-1]
                node.is_key = above.is_mapping and not (above.children and above.children[-1].is_key)
                above.children.append(node)
                if isinstance(event, yaml.CollectionStartEvent):
                    parents.append(node)
                elif isinstance(event, yaml.ScalarEvent):
                    node.text = event.value
                if isinstance(event, yaml.AliasEvent):
                    node.anchored = anchors.get(event.anchor or "")
                elif event.anchor is not None:
                    anchors[event.anchor] = node
    except (yaml.YAMLError, ValueError):
        return root, False
    return root, True


def _json_tree(text: str) -> tuple[_Node, bool]:
    """Return the values of a JSON text as a list, and False if the text is incomplete or not JSON."""
    root = _Node(0)
    parents = [root]
    for token in _JSON_TOKEN.finditer(text):
        word, above = token[0], parents[-1]
        if word in "}]":
            parents = parents[:-1] or [root]
        elif word == ":":
            if above.children:
                above.children[-1].is_key = above.is_mapping = True
        elif word in "{[":
            above.children.append(_Node(token.start(), is_mapping=word == "{"))
            parents.append(above.children[-1])
        else:
            above.children.append(_Node(token.start(), token.end(), _unescaped(word)))
    return root, len(parents) == 1 and not root.is_mapping and text.lstrip()[:1] in ("{", "[")


def _unescaped(word: str) -> str:
    if "\\" in word:
        with suppress(ValueError):
            return str(json.loads(word, strict=False))
    return word.strip('"')
