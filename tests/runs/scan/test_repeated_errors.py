"""An error that a rank outlived several times, and that ended it at last: the last occurrence decides."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gpuwatch.cli.analysis.scan import scan

HEAD = 'Traceback (most recent call last):\n  File "/w/train.py", line 9, in <module>\n    main()\n'
OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {}.00 GiB"
CAUGHT = {
    "other words": OOM + " (caught, retry)\n",
    "logged": "WARNING: OOM caught, skipping batch: CUDA out of memory. Tried to allocate 2.00 GiB\n",
    "equal words": OOM + "\n",
    "equal amount": OOM.format(999) + "\n",
    "traceback": HEAD.replace("<module>", "step") + OOM + "\n",
}


def steps(first: int, count: int) -> str:
    return "".join(f"step {number} loss 2.5\n" for number in range(first, first + count))


def caught(form: str, times: int, between: int) -> str:
    return "".join(
        CAUGHT[form].format(number + 1) + steps(number * between, between) for number in range(times)
    )


def scanned(folder: Path, log: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, dict[str, Any]]:
    (folder / "rank0.log").write_text(log)
    status = scan.main(["--json", str(folder)], standalone_mode=False)
    return status, json.loads(capsys.readouterr().out)


@pytest.mark.sampled(10)
@pytest.mark.parametrize("between", [1, 3])
@pytest.mark.parametrize("times", [1, 4, 10, 45, 230])
@pytest.mark.parametrize("form", CAUGHT)
def test_the_fatal_one_leads_whatever_was_outlived_before(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], form: str, times: int, between: int
) -> None:
    log = caught(form, times, between) + HEAD + OOM.format(999) + "\n"
    status, report = scanned(tmp_path, log, capsys)
    (incident,) = report["incidents"]
    assert status == 1
    assert incident["class"] == "oom.cuda"
    assert incident["evidence"][0]["offset"] == log.rindex("torch.OutOfMemoryError")
    assert incident["evidence"][0]["fields"]["size"] == "999.00 GiB"
    assert incident["timeline"][-1]["count"] == 1
    assert all(alert["recovered"] for alert in report["alerts"])


@pytest.mark.parametrize("gap_s", [1, 10, 200])
def test_the_fatal_one_leads_where_all_lines_carry_times(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], gap_s: int
) -> None:
    def at(number: int) -> str:
        seconds = number * gap_s
        return f"2026-11-22 {18 + seconds // 3600}:{seconds // 60 % 60:02}:{seconds % 60:02}"

    lines = [
        f"{at(number)} {OOM.format(number + 1)} (caught)\n{at(number)} step {number} loss 2\n"
        for number in range(50)
    ]
    log = "".join(lines) + f"{at(51)} [rank0]: {OOM.format(999)}\n"
    status, report = scanned(tmp_path, log, capsys)
    (incident,) = report["incidents"]
    assert (status, incident["evidence"][0]["fields"]["size"]) == (1, "999.00 GiB")


@pytest.mark.parametrize("times", [10, 230])
def test_errors_that_a_rank_outlived_to_the_last_are_notes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], times: int
) -> None:
    status, report = scanned(tmp_path, caught("other words", times, 3) + steps(3 * times, 40), capsys)
    assert (status, report["incidents"]) == (0, [])


def test_another_rank_that_steps_on_does_not_soften_a_repeated_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = f"[rank0]: {OOM.format(1)}\n" + "".join(f"[rank1]: step {n} loss 2\n" for n in range(9))
    status, report = scanned(tmp_path, log + f"[rank0]: {OOM.format(999)}\n", capsys)
    assert status == 1
    assert report["incidents"][0]["evidence"][0]["fields"]["size"] == "1.00 GiB"


def test_more_tracebacks_are_no_recovery(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = "".join(
        f'[rank{n % 8}]: Traceback (most recent call last):\n  File "/w/a.py", line {n}, in f\n'
        f"    g()\nValueError: bad {n}\n"
        for n in range(200)
    )
    status, report = scanned(tmp_path, log, capsys)
    assert status == 1
    assert not any(alert["recovered"] for alert in report["alerts"])
