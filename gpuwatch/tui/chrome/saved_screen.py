"""Saves the screen to two files: SVG, and plain text for a ticket."""

from __future__ import annotations

import re
import time
from pathlib import Path

from gpuwatch.own_folders import make_own, state_folder
from gpuwatch.whole_file import write_whole

_REMOTE_FONT = re.compile(r',\s{0,40}url\("https?://[^"]{1,300}"\) format\("\w{1,20}"\)')
"""A web font that a browser would load from the network when the picture is opened."""


def save_screen(svg: str, text: str, wall: float) -> list[Path]:
    """Write `.svg` and `.txt` to the working folder, else to the user's state folder; return both paths.

    Args:
        svg: The picture.
        text: The same without colours.
        wall: Unix seconds; part of the file names. No file is overwritten.

    Raises:
        OSError: Neither folder can be written.
    """
    try:
        return _write(Path.cwd(), svg, text, wall)
    except OSError:
        folder = state_folder()
        make_own(folder)
        return _write(folder, svg, text, wall)


def _write(folder: Path, svg: str, text: str, wall: float) -> list[Path]:
    svg = _REMOTE_FONT.sub("", svg)
    stem = f"gpuwatch-{time.strftime('%Y%m%d-%H%M%S', time.localtime(wall))}"
    name, count = stem, 1
    while any((folder / f"{name}{ending}").exists() for ending in (".svg", ".txt")):
        count += 1
        name = f"{stem}-{count}"
    paths = [folder / f"{name}.svg", folder / f"{name}.txt"]
    for path, content in zip(paths, (svg, text), strict=True):
        write_whole(path, content.encode())
    return paths
