"""Loads a plan from what the user names on the command line: a hosts file, a hostfile, or a node range."""

from __future__ import annotations

import os
import re
from pathlib import Path

from gpuwatch.hosts.assemble import plan_from
from gpuwatch.hosts.hostfile import is_hostfile, read_hostfile
from gpuwatch.hosts.keys import FILE
from gpuwatch.hosts.names import RangeError, expand_login
from gpuwatch.hosts.plan import NodeSpec, Plan
from gpuwatch.hosts.validation.document import compose
from gpuwatch.hosts.validation.errors import HostsError, Problems, TextPosition, escaped, shown
from gpuwatch.hosts.validation.nearest_word import nearest
from gpuwatch.number_text import limit_text
from gpuwatch.whole_file import read_bounded

MAX_BYTES = 1 << 20
"""Enough for 10,000 nodes with settings of their own; a larger file is not a hosts file."""

_BRACKETS = re.compile(r"\[[^\[\]]*\]")
"""A bracket of a range, whose step contains a slash: `node[1-9/4]` is no path."""
_FILE_ENDINGS = (".yaml", ".yml", ".json", ".txt", ".hosts", ".cfg", ".conf", ".ini", ".toml")


def load_source(text: str) -> Plan:
    """Return the plan of the file `text` if it exists, else of `text` as a node range (`gpu-[001-004]`).

    Raises:
        HostsError: The file has problems (it lists all), or `text` is neither a file nor a node range.
    """
    if os.path.exists(text):  # noqa: PTH110 - Path.exists raises for a range longer than a file name may be
        return load_plan(Path(text))
    if os.path.islink(text):  # noqa: PTH114 - likewise
        raise HostsError([f"{escaped(text)}: a dangling symbolic link"])
    if "/" in _BRACKETS.sub("", text) or text.lower().endswith(_FILE_ENDINGS):
        raise HostsError([f"{escaped(text)}: no such file{_similar_file(text)}"])
    try:
        user, names = expand_login(text)
    except RangeError as error:
        at = f"(character {error.offset + 1})"
        raise HostsError([f"{shown(text)} is neither a file nor a valid node range {at}: {error}"]) from None
    return Plan(nodes=tuple(NodeSpec(name=name, user=user) for name in names), source=text)


def load_plan(path: Path) -> Plan:
    """Return the plan of a hosts file: YAML or a plain hostfile, by its content. Nothing is connected.

    Raises:
        HostsError: The file cannot be read, or has problems; it lists all, in the order of the file.
    """
    source = str(path)
    try:
        data = read_bounded(path, MAX_BYTES + 1)
    except IsADirectoryError as error:
        raise HostsError([f"{escaped(source)}: a folder; name the hosts file in it"]) from error
    except OSError as error:
        raise HostsError([f"{escaped(source)}: {error.strerror}"]) from error
    if len(data) > MAX_BYTES:
        raise HostsError(
            [f"{escaped(source)}: larger than {limit_text(MAX_BYTES)}, too large for a hosts file"]
        )
    try:
        return parse_plan(data.decode("utf-8-sig"), source)
    except UnicodeDecodeError as error:
        good = data[: error.start].decode("utf-8-sig", "replace")
        at = f"{good.count(chr(10)) + 1}:{len(good) - good.rfind(chr(10))}"
        raise HostsError([f"{escaped(source)}:{at}: not UTF-8 text"]) from None


def parse_plan(text: str, source: str) -> Plan:
    """Return the plan in the text of a hosts file or hostfile; `source` names the text in messages.

    Raises:
        HostsError: The text has problems; it lists all, in their order.
    """
    problems = Problems(source)
    if is_hostfile(text):
        plan = read_hostfile(text, problems)
        problems.raise_any()
        return plan
    root = compose(text, problems)
    if root is None and not len(problems):
        problems.add(TextPosition(1, 1), "the file is empty; it needs at least a list of hosts")
    read = FILE.read(root, problems) if root is not None else None
    plan = plan_from(read or [], problems)
    problems.raise_any()
    return plan


def _similar_file(text: str) -> str:
    folder, name = os.path.split(text)
    try:
        close = nearest(name, os.listdir(folder or "."))  # noqa: PTH208 - as the person wrote it
    except OSError:
        return ""
    return f", did you mean {shown(os.path.join(folder, close))}?" if close else ""  # noqa: PTH118 - likewise
