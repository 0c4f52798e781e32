"""The work of a scan grows with the number of its files, not faster."""

from __future__ import annotations

import cProfile
from collections import Counter
from pathlib import Path

from gpuwatch.report.scan.report import judged
from gpuwatch.rules.load import Packs, load_packs
from gpuwatch.runs.files.files import gather
from gpuwatch.runs.scan.scan import Begin, scan

FILES = 24
MOST_CALLS = 6_000
"""Of functions, for one small file: about 1 ms of an idle machine."""
STEPS = (
    "2026-11-20T08:00:{0:02}.{1:06}Z INFO task {1} started on node-{2}\n"
    "2026-11-20T08:01:{0:02}.{1:06}Z INFO step 10/10 loss 2.{3}\n"
    "2026-11-20T08:02:{0:02}.{1:06}Z INFO done\n"
)


def calls_of(folder: Path, files: int, packs: Packs, begin: Begin) -> Counter[str]:
    """Return function -> its calls, for a folder of this many files, from its listing to its report."""
    folder.mkdir()
    for number in range(files * 1_000, files * 1_001):  # no text that was cached before
        text = STEPS.format(number % 60, number, number % 64, number % 10)
        (folder / f"task_{number}.log").write_text(text)
    profile = cProfile.Profile()
    with profile:
        found = scan(gather([folder], packs.column_words), [], begin=begin)
        judged(found, packs, 1.8e9, 1.0)
    return Counter({str(row.code): row.callcount for row in profile.getstats()})


def test_twice_as_many_small_files_take_twice_the_work(tmp_path: Path) -> None:
    packs = load_packs()
    begin = Begin.of(packs.all, "agent")
    calls_of(tmp_path / "0", 4, packs, begin)  # compiles the patterns
    once, twice, four = (calls_of(tmp_path / str(n), n * FILES, packs, begin) for n in (1, 2, 4))
    first, second = twice - once, four - twice
    least = 10 * FILES  # below it, the sizes of caches show
    own = {name: count for name, count in second.items() if "/gpuwatch/" in name}
    steep = {name for name, count in own.items() if count > 2.3 * max(first[name], least)}
    assert steep == set()
    assert second.total() < 2 * FILES * MOST_CALLS
