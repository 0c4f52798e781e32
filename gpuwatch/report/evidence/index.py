"""`index.md` of a bundle: its subject, its files, and what it lacks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

from gpuwatch import __version__
from gpuwatch.blocks.markdown import markdown
from gpuwatch.blocks.model import Block, Heading, Item, Line, Table, titled
from gpuwatch.number_text import moment, plural
from gpuwatch.report.evidence.bundle_file import BundleEntry
from gpuwatch.report.evidence.environment import safe

MAX_LISTED = 20
"""Most logs and artifacts that the index lists individually."""
FOLDERS = {
    "logs/": "of the job and of its nodes' kernels",
    "artifacts/": "of the job's folders",
}


class IndexHead(Struct, frozen=True):
    """The head of a bundle's index: title, headlines, source, if it is the demo, and the form of its logs."""

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
    about = markdown(_contents(head, held, missing, wall), "nothing")
    return f"{about}\n{markdown(_notes(head, masked), 'all')}"


def _contents(
    head: IndexHead, held: Sequence[BundleEntry], missing: Sequence[tuple[str, str]], wall: float
) -> Iterator[Block]:
    yield Heading(f"Evidence: {safe(head.title)}", 1)
    if head.is_demo:
        yield Item("DEMO: simulated; no machine, GPU or job behind it exists.", sign="warning")
    yield from (Item(safe(headline), sign="warning") for headline in head.headlines)
    yield Line(f"Made by gpuwatch {__version__} on {moment(wall)} from {safe(head.source)}.")
    yield Table(("file", "content"), tuple(_rows(held)), linked=True)
    yield from titled(
        "Not in this bundle", [Item(f"{safe(what)}: {safe(why)}") for what, why in missing], level=2
    )


def _notes(head: IndexHead, masked: int) -> Iterator[Block]:
    yield Heading("How to read it", 2)
    if head.has_blocks:
        yield Line(
            "In the logs `>` marks a line of evidence, and `--- byte N ---` the first byte after a gap."
        )
    yield Line(
        f"{plural(masked, 'secret')} of known forms: shown as `[masked]`. What neither its form nor its name "
        "shows as a secret is not masked, and neither is what binary artifacts hold; read the bundle before "
        "you share it."
    )


def _rows(held: Sequence[BundleEntry]) -> list[tuple[str, str]]:
    """Return a table row for each file with a description, in order.

    Of a large folder only the first files have a row; the last row counts the others.
    """
    rows: list[tuple[str, str]] = []
    shown = dict.fromkeys(FOLDERS, 0)
    left_out = dict.fromkeys(FOLDERS, 0)
    for entry in held:
        folder = next((each for each in FOLDERS if entry.name.startswith(each)), None)
        if folder is not None and (not entry.about or shown[folder] >= MAX_LISTED):
            left_out[folder] += 1
        elif entry.about:
            rows.append((entry.name, entry.about))
            if folder is not None:
                shown[folder] += 1
    for folder, count in left_out.items():
        if count:
            rows.append((folder, f"{plural(count, 'more file')} {FOLDERS[folder]}"))
    return rows
