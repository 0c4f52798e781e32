"""Flame graphs as one SVG file without scripts; a box shows its frame on hover."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from xml.sax.saxutils import escape

from gpuwatch.diagnose.profiles.call_tree import ThreadTree
from gpuwatch.diagnose.profiles.flame_layout import FlameBox, common_frames, flame_rows, shared_text
from gpuwatch.diagnose.profiles.hot_frames import differences, hot_frames
from gpuwatch.diagnose.profiles.profiled_rank import ProfiledRank
from gpuwatch.diagnose.profiles.sentences import difference_row, measured_cost, samples_text

PANEL, GAP, MARGIN = 900, 20, 16
ROW, FONT, CHARACTER = 18, 11, 6.4
"""Sizes in pixels: the height of a row, the font size, and the maximum average width of a character."""
MAX_DEPTH = 100
MIN_BOX_SHARE = 1.0 / PANEL
OWN, LIBRARY = ("#ffb454", "#ff9a3c"), ("#9dc3e6", "#8ab4dc")


def flame_svg(profiles: Sequence[ProfiledRank]) -> str:
    """Return the SVG: flame graphs of the main threads side by side, and what differs in the first two."""
    sampled = [(each, each.main) for each in profiles if each.main is not None]
    panels = [
        list(_panel(each, tree, MARGIN + number * (PANEL + GAP)))
        for number, (each, tree) in enumerate(sampled)
    ]
    depth = max((len(_rows(tree)) for _, tree in sampled), default=0)
    bottom = MARGIN + (4 + depth) * ROW
    table = _differences(sampled, bottom)
    width = 2 * MARGIN + max(1, len(sampled)) * (PANEL + GAP) - GAP
    height = bottom + (len(table) + 1) * ROW
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}" font-family="monospace" font-size="{FONT}">\n'
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>\n'
    )
    return head + "\n".join([*(line for panel in panels for line in panel), *table, "</svg>\n"])


def _rows(tree: ThreadTree) -> list[list[FlameBox]]:
    return flame_rows(common_frames(tree)[1], MIN_BOX_SHARE, MAX_DEPTH)


def _panel(profile: ProfiledRank, tree: ThreadTree, left: int) -> Iterator[str]:
    yield _text(left, MARGIN + FONT, samples_text(profile), PANEL, bold=True)
    yield _text(left, MARGIN + ROW + FONT, measured_cost(profile), PANEL)
    yield _text(left, MARGIN + 2 * ROW + FONT, shared_text(tree), PANEL)
    for depth, boxes in enumerate(_rows(tree)):
        top = MARGIN + (3 + depth) * ROW
        for number, box in enumerate(boxes):
            yield _box(box, tree.samples, left, top, number + depth)


def _box(box: FlameBox, whole: int, left: int, top: int, number: int) -> str:
    x, wide = left + box.start * PANEL, box.width * PANEL
    call = box.call
    colour = (OWN if call.code.own else LIBRARY)[number % 2]
    place = call.code.file if call.code.line is None else f"{call.code.file}:{call.code.line}"
    words = f"{call.code.function} ({place}): {100.0 * call.samples / whole:.1f} %, {call.samples} samples"
    label = _text(x + 2, top + FONT + 2, call.code.short, wide - 4) if wide > 4 * CHARACTER else ""
    return (
        f'<g><title>{escape(words)}</title><rect x="{x:.1f}" y="{top}" width="{max(0.5, wide - 0.5):.1f}" '
        f'height="{ROW - 1}" fill="{colour}"/>{label}</g>'
    )


def _differences(sampled: Sequence[tuple[ProfiledRank, ThreadTree]], top: int) -> list[str]:
    if len(sampled) < 2:
        return []
    (mine, tree), (other, against) = sampled[:2]
    title = f"Frames that differ: points, % of rank {mine.rank}, % of rank {other.rank}"
    lines = [_text(MARGIN, top + FONT, title, 2 * PANEL, bold=True)]
    for number, each in enumerate(differences(hot_frames(tree), hot_frames(against))[:20], 1):
        points, own, there, frame = difference_row(each)
        words = f"{points:>6} {own:>6} {there:>6}  {frame}"
        lines.append(_text(MARGIN, top + number * ROW + FONT, words, 2 * PANEL))
    return lines


def _text(x: float, y: float, words: str, room: float, *, bold: bool = False) -> str:
    most = max(1, int(room / CHARACTER))
    shown = words if len(words) <= most else f"{words[: most - 2]}.."
    weight = ' font-weight="bold"' if bold else ""
    return f'<text x="{x:.1f}" y="{y}" xml:space="preserve"{weight}>{escape(shown)}</text>'
