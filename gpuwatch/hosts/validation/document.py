"""Parses YAML text into a tree of nodes with their positions.

Size and depth are limited; every problem is reported with its line and column.
"""

from __future__ import annotations

import re
from typing import Any

import yaml
from yaml.reader import Reader

from gpuwatch.hosts.validation.errors import Problems, TextPosition, escaped, shown

MAX_DEPTH = 16
MAX_NODES = 200_000
"""Maximum number of values in a document, with every alias counted at each use."""

# libyaml is ten times faster, where it is built in
STANDARD_TAG = re.compile(r"tag:yaml\.org,2002:(str|int|float|bool|null|timestamp|seq|map|merge|value)")
"""Tags of plain YAML; any other one requests an object of some program."""

_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def place(node: yaml.Node) -> TextPosition:
    """Return the position where a value starts."""
    return _place(node.start_mark)


def compose(text: str, problems: Problems) -> yaml.Node | None:
    """Return the root node of a YAML text; None if it is empty or invalid. Errors are added to `problems`."""
    bad = Reader.NON_PRINTABLE.search(text)
    if bad is not None:
        line, column = text.count("\n", 0, bad.start()) + 1, bad.start() - text.rfind("\n", 0, bad.start())
        problems.add(TextPosition(line, column), f"the character {shown(bad[0])} is not allowed in YAML")
        return None
    try:
        if not _bounded(text, problems):
            return None
        root: yaml.Node | None = yaml.compose(text, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        problems.add(_place(mark) if mark else TextPosition(1, 1), _complaint(error, text))
        return None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        problems.add(TextPosition(1, 1), f"not YAML: {escaped(str(error))}")
        return None
    return root


def _place(mark: Any) -> TextPosition:  # noqa: ANN401 - libyaml's marks and PyYAML's share no type
    return TextPosition(mark.line + 1, mark.column + 1)


def _complaint(error: yaml.MarkedYAMLError, text: str) -> str:
    parts = [escaped(part) for part in (error.problem, error.context) if part]
    mark = error.problem_mark or error.context_mark
    lines = text.splitlines()
    line = lines[mark.line] if mark and mark.line < len(lines) else ""
    nested = max(line.count("["), line.count("{")) > 1 or ("[" in line and "{" in line)
    hint = "; inside [...] or {...} ranges and placeholders need quotes" if nested else ""
    hint = "; YAML is indented with spaces, not tabs" if line.lstrip(" ").startswith("\t") else hint
    return f"not YAML: {', '.join(parts)}{hint}"


def _bounded(text: str, problems: Problems) -> bool:
    """Return True if the document is small and flat enough with every alias counted at each use.

    Otherwise the problem is reported, also for an unknown alias or a tag that is not standard. Reads YAML
    events, before the tree is composed.

    Raises:
        yaml.YAMLError: the text is not YAML.
    """
    sizes: dict[str, int] = {}
    opened: list[tuple[str | None, int]] = []
    total = 0
    for event in yaml.parse(text, Loader=_Loader):
        anchor = getattr(event, "anchor", None)
        if isinstance(event, yaml.AliasEvent):
            if anchor not in sizes:  # unknown, or still open: a loop
                problems.add(
                    _place(event.start_mark), f"the alias {shown(f'*{anchor}')} has no anchor before it"
                )
                return False
            total += sizes[anchor]
        elif isinstance(event, yaml.ScalarEvent):
            total += 1
            sizes.update({anchor: 1} if anchor else {})
        elif isinstance(event, yaml.CollectionStartEvent):
            if event.tag is not None and not STANDARD_TAG.fullmatch(event.tag):
                tag = f"the tag {shown(event.tag)} is not supported"
                problems.add(_place(event.start_mark), tag)
                return False
            opened.append((anchor, total))
            total += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, before = opened.pop()
            sizes.update({anchor: total - before} if anchor else {})
        if len(opened) > MAX_DEPTH or total > MAX_NODES:
            what = "nested too deep" if len(opened) > MAX_DEPTH else f"more than {MAX_NODES:,} values"
            problems.add(_place(event.start_mark), f"{what} for a hosts file")
            return False
    return True
