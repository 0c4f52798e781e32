"""`index.md` of a bundle: its subject, its files, and what it lacks."""

from __future__ import annotations

import time
from collections.abc import Sequence

from msgspec import Struct

from gpuwatch import __version__
from gpuwatch.blocks.markdown import cell
from gpuwatch.number_text import plural
from gpuwatch.report.evidence.bundle_file import BundleEntry
from gpuwatch.report.evidence.environment import safe

MAX_LISTED = 20
"""Most logs and artifacts that the index lists individually."""
FOLDERS = {
    "logs/": "of the job and of its nodes' kernels",
    "artifacts/": "of the job's folders",
}


class IndexHead(Struct, frozen=True):
    """The subject of a bundle, for its index."""

    title: str
    headlines: Sequence[str]
    source: str
    is_demo: bool = False
    has_blocks: bool = True
    """True if logs are included as blocks around lines."""


def index_text(
    head: IndexHead,
    held: Sequence[BundleEntry],
    missing: Sequence[tuple[str, str]],
    masked: int,
    wall: float,
) -> str:
    """Return the index page as Markdown.

    Args:
        head: What the bundle is about.
        held: The files of the bundle; in large folders, those without a description are only counted.
        missing: (what, why) of everything that the bundle lacks.
        masked: Number of masked secrets.
        wall: Unix seconds.
    """
    stamp = time.strftime("%Y-%m-%d %H:%M:%S %Z", time.localtime(wall))
    lines = [f"# Evidence: {masked_cell(head.title)}", ""]
    if head.is_demo:
        lines += ["**DEMO: simulated; no machine, GPU or job behind it exists.**", ""]
    lines += [f"> {masked_cell(headline)}" for headline in head.headlines]
    lines += ["", f"Made by gpuwatch {__version__} on {stamp} from {masked_cell(head.source)}.", ""]
    lines += ["| file | content |", "|---|---|"]
    lines += _rows(held)
    if head.has_blocks:
        lines += [
            "",
            "In the logs `>` marks a line of evidence, and `--- byte N ---` the first byte after a gap.",
        ]
    if missing:
        lines += ["", "## Not in this bundle", ""]
        lines += [f"- {masked_cell(what)}: {masked_cell(why)}" for what, why in missing]
    lines += [
        "",
        f"{plural(masked, 'secret')} of known forms: shown as `[masked]`. What neither its form nor its name "
        "shows as a secret is not masked, and neither is what binary artifacts hold; read the bundle before "
        "you share it.",
        "",
    ]
    return "\n".join(lines)


def _rows(held: Sequence[BundleEntry]) -> list[str]:
    """Return a table row for each file with a description, in order.

    Of a large folder only the first files have a row; the last row counts the others.
    """
    rows: list[str] = []
    shown = dict.fromkeys(FOLDERS, 0)
    left_out = dict.fromkeys(FOLDERS, 0)
    for entry in held:
        folder = next((each for each in FOLDERS if entry.name.startswith(each)), None)
        if folder is not None and (not entry.about or shown[folder] >= MAX_LISTED):
            left_out[folder] += 1
        elif entry.about:
            rows.append(f"| [{entry.name}]({entry.name}) | {entry.about} |")
            if folder is not None:
                shown[folder] += 1
    for folder, count in left_out.items():
        if count:
            rows.append(f"| {folder} | {plural(count, 'more file')} {FOLDERS[folder]} |")
    return rows


def masked_cell(text: str) -> str:
    """Return text from logs or nodes for Markdown: sanitized, masked, escaped, on one line."""
    return cell(str(safe(text)))
