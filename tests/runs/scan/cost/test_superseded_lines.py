"""Of lines whose findings a later line supersedes, only the last is searched; the result is the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuwatch.agent.logs.scanning.newest_lines import NewestLines
from gpuwatch.rules.model.checkpoint_lines import CHECKPOINT_RULES
from gpuwatch.runs.files.files import gather
from gpuwatch.runs.scan import file_parts, reading
from gpuwatch.runs.scan.result import Scan
from gpuwatch.runs.scan.scan import scan
from tests.counted_calls import calls_of

LINES = {
    "no failure": "2025-06-01 {clock} INFO saved checkpoint of step {n} in 8.4 s, 0 failed",
    "failures": "2025-06-01 {clock} INFO saved checkpoint of step {n} in 8.4 s, {few} failed",
    "of ranks": "[rank{few}]: 2025-06-01 {clock} saved checkpoint of step {n}",
    "of hosts": "2025-06-01T{clock} gpu-{few} train[{n}]: saved checkpoint of step {n}",
    "of processes": "2025-06-01 {clock} INFO pid={few} saved checkpoint of step {n}",
    "undated": "saved checkpoint of step {n}",
    "begun": "2025-06-01 {clock} INFO saving checkpoint of step {n}",
}


def log(forms: list[str], count: int) -> str:
    """A log with lines of some of the forms at every step, between lines of progress."""
    text = ""
    for n in range(count):
        clock, few = f"{8 + n // 60:02d}:{n % 60:02d}:00", n % 7
        text += f"2025-06-01 {clock} INFO step {n} loss 2.5\n"
        for form in forms if (n + few) % 3 else ():
            text += f"{LINES[form].format(clock=clock, n=n, few=few)}\n"
    return text


def scanned(path: Path) -> Scan:
    return scan(gather([path.parent]), CHECKPOINT_RULES, engine="agent", cores=1)


@pytest.mark.parametrize("part", [1 << 12, 1 << 20])
def test_the_last_checkpoints_are_the_same_as_by_a_search_of_all_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: int
) -> None:
    monkeypatch.setattr(file_parts, "PART_BYTES", part)
    monkeypatch.setattr(reading, "AROUND_BYTES", 512)
    monkeypatch.setattr(reading, "FEED_BYTES", 2_000)
    path = tmp_path / "rank3.log"
    path.write_text(log(list(LINES), 60))
    by_last = scanned(path)
    monkeypatch.setattr(NewestLines, "hold", lambda *_: False)
    by_all = scanned(path)
    assert by_last.checkpoints == by_all.checkpoints != ()
    assert by_last.saves == by_all.saves


def test_six_times_as_many_checkpoints_cost_little_more(tmp_path: Path) -> None:
    path = tmp_path / "rank3.log"
    calls = []
    for count in (50, 300):
        path.write_text(log(["no failure", "begun"], count))
        calls.append(calls_of(lambda: scanned(path)))
    assert calls[1] < 3 * calls[0], calls
    assert {saved for _, saved, *_ in scanned(path).checkpoints} == {True, False}
