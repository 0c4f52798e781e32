"""The loader command and the bundle, which start the agent without writing anything on the node.

The loader is the one shell command of a link. The bundle follows on stdin: a decimal length line, that many
zlib bytes (`node_start.py` and the source texts of the agent and pynvml), and the config as one JSON line.
The probe's launcher is started the same way with other sources and another entry
(`probe.orchestration.nodes.shipping`).
"""

from __future__ import annotations

import json
import re
import threading
import zlib
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from gpuwatch.link.start.node_start import ITSELF, PACKAGE

AGENT_ENTRY = PACKAGE + ".main"
NO_PYTHON = "GPUWATCH0 nopython"
NO_SMI = "GPUWATCH0 nosmi"

OLDEST_PYTHON = (3, 6)
CANDIDATES = (
    "python3",
    *(f"python3.{minor}" for minor in range(13, OLDEST_PYTHON[1] - 1, -1)),
    "/usr/libexec/platform-python",
)

# Neither line may hold a quote, a backslash, `!`, `$` or a newline: they stand inside "..." inside '...', and
# sh, bash, dash, zsh, fish, csh and tcsh must all pass them on unchanged.
_PROBE = f"import sys,zlib;sys.exit(sys.version_info<({OLDEST_PYTHON[0]},{OLDEST_PYTHON[1]}))"
_READ_BUNDLE = "import sys,zlib;r=sys.stdin.buffer;n=int(r.readline());exec(zlib.decompress(r.read(n)))"

_PACKING = threading.Lock()
"""Held while the bundle is packed: of many links that start at once, only the first packs it."""
_START = Path(__file__).with_name("node_start.py")
_AGENT = Path(__file__).parents[2] / "agent"
_COMMENT = re.compile(r"([^\"'#]*)#")
"""A line's comment, alone or behind code without quotes."""
_COMMENT_BEHIND_QUOTES = re.compile(r"(?m)  # [^\"'\n]*$")
_TYPES_ONLY = re.compile(
    r"(?m)^TYPE_CHECKING = False\nif TYPE_CHECKING:\n(?:[ \t]+[^\n]*\n|\n(?=\n*[ \t]+\S))+"
)
"""Imports for types, which never run."""
_SIGNATURE = re.compile(r"(?ms)^[ \t]*def \w+\(.*?\)(?: -> [^\n]+)?:$")
_TYPE_OF_ARGUMENT = re.compile(r': (?:"[^"\n]*"|[\w.]+)(?=,| = |\)|$)', re.MULTILINE)
_TYPE_OF_RESULT = re.compile(r"\) -> [^\n]+:$")
_TYPE_OF_VARIABLE = re.compile(r"""(?m)^([ \t]*[A-Za-z_][\w.]*): (?:"[^"\n]*"|[^\n="']+) = """)
_DOCSTRING = re.compile(r'(?m)^([ \t]*)"""(?:[^"\\]|"(?!""))*"""$(?=((?:\n[ \t]*)*\n\1[^\s"])?)')
"""A docstring; the second group is there if a statement follows, which needs no other in its block."""
_INDENT = re.compile(r'(?m)("""(?:[^"\\]|"(?!""))*""")|^(?: {4})+')
"""Leading blanks of a line, or a multi-line literal, whose blanks stay."""
_PIECES = re.compile(r'\br"(?:[^"\\\n]|\\.)*"(?:\n[ \t]*r"(?:[^"\\\n]|\\.)*")+')
"""Raw strings in a row, which are one."""
_BETWEEN_PIECES = re.compile(r'"\n[ \t]*r"')
_BLANK = re.compile(r"(?m)^[ \t]*\n")
"""A blank line; pynvml has thousands, and nobody reads its line numbers on a node."""
_FUNCTION = re.compile(r"(?m)^(?:@.*\n)*def (\w+)\(.*\n(?:[ \t]+.*\n|[ \t]*\n)*")
"""A function of a module, with its decorators."""
_NAME = re.compile(r"\w+")
_SAFE_PATH = re.compile(r"[\w@%+=:,./~-]+", re.ASCII)


def loader_argv(python: str) -> list[str]:
    """Return the argv that starts the bundle with the interpreter `python`, without a shell."""
    return [python, "-Iu", "-c", _READ_BUNDLE]


def loader_command(python: str | None) -> str:
    """Return the shell command line that starts the bundle; the same text works in every login shell.

    Args:
        python: The only interpreter to try; None: try the names of `CANDIDATES` in order.

    Raises:
        ValueError: `python` contains a character that a shell may interpret.
    """
    if python is not None and not _SAFE_PATH.fullmatch(python):
        raise ValueError(
            f"the interpreter path {python!r} holds characters that a shell may interpret; "
            "use letters, digits and any of _@%+=:,./~-"
        )
    candidates = CANDIDATES if python is None else (python,)
    # A name that is found may still fail (a pyenv shim without a version, Python 2, a build without zlib):
    # each is asked before it takes over the process.
    return (
        f"exec /bin/sh -c 'for p in {' '.join(candidates)}; do "
        f'"$p" -ISc "{_PROBE}" </dev/null >/dev/null 2>&1 && exec "$p" -Iu -c "{_READ_BUNDLE}"; '
        f"done; echo {NO_PYTHON}'"
    )


def bundle(config: Mapping[str, Any], modules: Mapping[str, str] | None = None) -> bytes:
    """Return the bytes that the loader reads from stdin before requests begin.

    Args:
        config: The argument of `gpuwatch_agent.main.run`: nonce, version and the settings of `agent_start`.
        modules: Module name -> source text, sent instead of the agent and pynvml (tests).
    """
    return framed(agent_body(modules), config)


def agent_body(modules: Mapping[str, str] | None = None) -> bytes:
    """Return the compressed body of the agent's bundle; `modules` as for `bundle`."""
    if modules is not None:
        return packed(modules, AGENT_ENTRY)
    with _PACKING:
        return installed_body()


def framed(body: bytes, config: Mapping[str, Any]) -> bytes:
    """Return the bytes for stdin: length of the body, the body, and the config as one line."""
    return b"%d\n" % len(body) + body + json.dumps(dict(config)).encode() + b"\n"


def packed(modules: Mapping[str, str], entry: str) -> bytes:
    """Return the compressed body of a bundle.

    Args:
        modules: Module name -> source text.
        entry: The module whose `run` is called.
    """
    start = _START.read_text("utf-8")
    return zlib.compress(f"{start}\n\nstart({ {**modules, ITSELF: start}!a}, {entry!a})\n".encode(), 9)


@cache
def installed_body() -> bytes:
    """Return the body with the installed agent and pynvml; made once per process."""
    modules = {name: without_prose(text) for name, text in sources(_AGENT, PACKAGE).items()}
    binding = without_unused(_BLANK.sub("", without_prose(pynvml_source())), modules.values())
    return packed({**modules, "pynvml": binding}, AGENT_ENTRY)


def without_unused(source: str, users: Iterable[str]) -> str:
    """Return the source of a module without the functions that it and its users do not name.

    pynvml has a function for each of NVML's, of which the agent names a tenth.
    """
    bodies = {found[1]: found[0] for found in _FUNCTION.finditer(source)}
    named = {name for text in (_FUNCTION.sub("", source), *users) for name in _NAME.findall(text)}
    kept: set[str] = set()
    while found := named & bodies.keys() - kept:
        kept |= found
        named = {name for each in found for name in _NAME.findall(bodies[each])}
    return _FUNCTION.sub(lambda function: function[0] if function[1] in kept else "", source)


def without_prose(source: str) -> str:
    """Return the source of a module without docstrings, comments, types, and imports for types.

    Every statement keeps its line number. A quarter of the bundle would be prose, which every connection
    would send. Tabs indent, because they compress better.
    """
    text = _TYPES_ONLY.sub(lambda found: "\n" * found[0].count("\n"), _DOCSTRING.sub(_emptied, source))
    code = "\n".join(_without_comment(line) if "#" in line else line for line in text.split("\n"))
    code = _PIECES.sub(_joined, _COMMENT_BEHIND_QUOTES.sub("", code))
    bare = _TYPE_OF_VARIABLE.sub(r"\1 = ", _SIGNATURE.sub(_without_types, code))
    return _INDENT.sub(lambda found: found[1] or "\t" * (len(found[0]) // 4), bare)


def _without_comment(line: str) -> str:
    """Return a line without its comment, unless a quote stands before the comment."""
    code = _COMMENT.match(line)
    return line if code is None else code[1].rstrip(" \t")


def _without_types(signature: re.Match[str]) -> str:
    return _TYPE_OF_RESULT.sub("):", _TYPE_OF_ARGUMENT.sub("", signature[0]))


def _joined(pieces: re.Match[str]) -> str:
    return _BETWEEN_PIECES.sub("", pieces[0]) + "\n" * pieces[0].count("\n")


def _emptied(docstring: re.Match[str]) -> str:
    empty = "" if docstring[2] else f'{docstring[1]}""'
    return empty + "\n" * docstring[0].count("\n")


def sources(folder: Path, package: str) -> dict[str, str]:
    """Return module name -> source text of all modules below a folder, as modules of `package`."""
    found = {}
    for file in sorted(folder.rglob("*.py")):
        inside = file.relative_to(folder).with_suffix("").parts
        parts = inside[:-1] if inside[-1] == "__init__" else inside
        found[".".join((package, *parts))] = file.read_text("utf-8")
    return found


def pynvml_source() -> str:
    """Return the source text of the installed NVML binding, pynvml.

    Raises:
        RuntimeError: It is not installed.
    """
    spec = find_spec("pynvml")
    if spec is None or spec.origin is None:
        raise RuntimeError(
            "pynvml.py is missing on this machine; reinstall gpuwatch with its dependency nvidia-ml-py"
        )
    return Path(spec.origin).read_text("utf-8")
