"""Masks paths in a sentence: a folder named `gpu` states nothing about a GPU. Pure."""

from __future__ import annotations

import re

_START = r"(?<![^\s\"'(\[=])"
_PART = r"[^\s\"'(),;:=\[\]]"
_PROGRAM = re.compile(
    rf"{_START}{_PART}{{1,200}}\.(?:py|ipynb|sh|pl|jl|rs|cc?|cpp|cu|h|so|ya?ml|json|toml|cfg|ini|sbatch|slurm|md"
    r"|txt|log|csv)\b"
)
"""A file that is no part of a machine or of a training's state: a program, a setting, a text."""
_PATH = re.compile(
    rf"{_START}(?:[~.]{{0,2}}/{_PART}{{1,200}}|[^\s/\"'(),;:=\[\]]{{1,80}}/{_PART}{{1,80}}/{_PART}{{1,200}})"
)


def masked_paths(text: str, *, all_paths: bool) -> str:
    """Return the text, of the same length, with file names replaced by tildes.

    Args:
        text: A sentence, or a part of one.
        all_paths: True: every path of several parts, too; False: programs, settings and texts alone.
    """
    text = _PROGRAM.sub(_tildes, text)
    return _PATH.sub(_tildes, text) if all_paths else text


def _tildes(found: re.Match[str]) -> str:
    return "~" * len(found.group())
