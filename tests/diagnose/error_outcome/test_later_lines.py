"""An error below which the log shows the same work, or the program's end, wakes nobody; a death does."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from gpuwatch.report.scan.report import ScanReport, judged
from gpuwatch.rules.load import load_packs
from gpuwatch.runs.files.excerpts.around import BELOW_BYTES, around
from gpuwatch.runs.files.files import gather
from gpuwatch.runs.scan.scan import scan
from tests.corpus.score import ready

PACKS = load_packs()
CAUGHT = [
    "Traceback (most recent call last):",
    '  File "/app/read.py", line 9, in load',
    "    return json.loads(raw)",
    "json.decoder.JSONDecodeError: Expecting value: line 1 column 1 (char 0)",
]
OOM = [
    *CAUGHT[:2],
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has 79.1 GiB",
]


def documents(first: int, last: int) -> list[str]:
    return [f"doc {number} of 400: {number * 37 % 900} words" for number in range(first, last)]


def report(folder: Path, *lines: str, name: str = "job.log") -> ScanReport:
    (folder / name).write_text("\n".join(lines) + "\n")
    return judged(scan(gather([folder]), PACKS.all, "agent", begin=ready()), PACKS, 2e9, 0.0)


def alarms(found: ScanReport) -> list[str]:
    alerts = [*found.outside, *(alert for each in found.incidents for alert in each.alerts)]
    return [alert.code for alert in alerts if alert.severity in ("error", "critical")]


@pytest.mark.parametrize(
    "later",
    [
        documents(20, 30),
        ["epoch 01/40 mel 1.2", "epoch 20/40 mel 0.9", "epoch 40/40 mel 0.2", "bye"],
        ["=== 63 passed, 2 warnings in 88.41s ==="],
        [*documents(20, 23), "wrote 116 rows"],
        ["Task exited with return code 0"],
        ["Tests: 29, Assertions: 88, Warnings: 1."],
        ["Falling back to the slow reader.", *documents(1, 4)],
        [f"Epoch {epoch} [{batch}/900] mel {epoch}" for epoch in (1, 2) for batch in (300, 600, 900)],
        ["doc 400 of 400: 12 words"],
    ],
)
def test_work_that_goes_on_or_ends_well_makes_a_note(tmp_path: Path, later: list[str]) -> None:
    assert alarms(report(tmp_path, *documents(1, 10), *CAUGHT, *later)) == []


@pytest.mark.parametrize(
    "later",
    [
        [],
        documents(20, 22),
        ["=== 1 failed, 62 passed in 88.41s ==="],
        ["Job finished at Tue May 12 03:12:44 2026", "done"],
        ["container 0 exited with code 1", "Task exited with return code 1"],
        ["NVLink is disabled", *documents(1, 4)],
        [f"waiting for worker 3, {number} s" for number in range(10, 90, 10)],
        [
            f'INFO: 10.0.0.{number}:40{number} - "POST /v1 HTTP/1.1" 500 Internal Server Error'
            for number in range(9)
        ],
        [f"ERROR doc {number} of 400: worker is gone" for number in range(20, 40)],
    ],
)
def test_what_also_follows_a_death_proves_nothing(tmp_path: Path, later: list[str]) -> None:
    assert alarms(report(tmp_path, *documents(1, 10), *CAUGHT, *later))


def test_output_that_was_buffered_before_a_traceback_proves_nothing(tmp_path: Path) -> None:
    glued = [*documents(1, 10), "doc 10 of 400: 3" + CAUGHT[0], *CAUGHT[1:], "70 words", *documents(11, 30)]
    assert alarms(report(tmp_path, *glued))


def test_a_counter_after_an_error_at_the_start_counts_beyond_the_buffer(tmp_path: Path) -> None:
    assert alarms(report(tmp_path, *CAUGHT, *documents(1, 20)))
    assert alarms(report(tmp_path, *CAUGHT, *documents(1, 399))) == []


def test_the_work_of_another_rank_in_the_same_file_is_not_its_own(tmp_path: Path) -> None:
    steps = [f"[rank{number % 2}]: shard {number}: {number * 7} rows" for number in range(80)]
    failed = [f"[rank1]: {line}" for line in OOM]
    others = [line for line in steps[40:] if line.startswith("[rank0]")]
    assert alarms(report(tmp_path, *steps[:40], *failed, *others)) == ["oom.cuda"]
    assert alarms(report(tmp_path, *steps[:40], *failed, *steps[40:])) == []


def test_another_program_goes_on_in_the_file_of_a_training_that_does_not(tmp_path: Path) -> None:
    def monitored(number: int) -> list[str]:
        return [
            f"step {number}/900 loss {3 - number / 100:.3f}",
            f"fan speed of tray {number}: {number * 7} rpm",
        ]

    before = [line for number in range(1, 20) for line in monitored(number)]
    after = [line for number in range(20, 40) for line in monitored(number)]
    assert alarms(report(tmp_path, *before, *OOM, *after[1::2])) == ["oom.cuda"]
    assert alarms(report(tmp_path, *before, *OOM, *after)) == []


def test_the_lines_of_another_program_prove_nothing(tmp_path: Path) -> None:
    beside = [f"side: shipped {number * 40} lines" for number in range(60)]
    assert alarms(report(tmp_path, *beside[:20], *documents(1, 20), *CAUGHT, *beside[20:]))
    main = [CAUGHT[0], '  File "read.py", line 30, in <module>', *CAUGHT[1:]]
    assert alarms(report(tmp_path, *beside[:20], *main, *beside[20:]))


def test_a_dead_process_besides_keeps_what_may_have_killed_it(tmp_path: Path) -> None:
    dead = "srun: error: gpu-07: task 3: Killed"
    assert "oom.cuda" in alarms(report(tmp_path, *documents(1, 10), *OOM, *documents(20, 40), dead))


def test_the_last_error_of_a_program_that_outlived_others_needs_fewer_lines(tmp_path: Path) -> None:
    caught = [*documents(1, 10), *CAUGHT, *documents(11, 20), *OOM]
    assert alarms(report(tmp_path, *caught, *documents(20, 22))) == []
    assert alarms(report(tmp_path, *caught)) == ["oom.cuda"]


def test_records_of_a_structured_log_are_lines_of_one_form(tmp_path: Path) -> None:
    made = [json.dumps({"t": f"10:00:{n}", "msg": "batch done", "n": n * 37 % 90}) for n in range(10, 40)]
    lines = [each.replace(": ", ":").replace(", ", ",") for each in made]
    failed = json.dumps({"t": "10:00:20", "level": "error", "exception": "\n".join(OOM)})
    assert alarms(report(tmp_path, *lines[:10], failed, *lines[10:])) == []
    assert alarms(report(tmp_path, *lines, failed)) == ["oom.cuda"]


@pytest.mark.parametrize("packed", [False, True])
def test_the_lines_around_a_place_are_the_same_in_a_packed_file(tmp_path: Path, packed: bool) -> None:
    data = b"".join(b"line %d\n" % number for number in range(20_000))
    path = tmp_path / "a.log"
    path.write_bytes(gzip.compress(data) if packed else data)
    at = data.index(b"line 9000\n")
    found = around(path, "gzip" if packed else None, at, at)
    assert found is not None
    assert (found.above[-1], found.below[0], found.last[-1]) == ("line 8999", "line 9001", "line 19999")
    assert found.below_bytes == len(data) - at > BELOW_BYTES


def test_a_file_that_is_gone_has_no_lines(tmp_path: Path) -> None:
    assert around(tmp_path / "gone.log", None, 0, 0) is None


STEPS = [f"step {step} loss {2 - step / 1000:.4f}" for step in range(300)]
UNCAUGHT = [
    "Traceback (most recent call last):",
    '  File "/w/t.py", line 9, in <module>',
    "    main()",
    *OOM[1:],
]


@pytest.mark.parametrize(
    "status",
    [
        "exit code: 0",
        "Process finished with exit code 0",
        "exit status 0",
        "exited with code 0",
        "rc=0",
        "echo exit 0",
    ],
)
@pytest.mark.parametrize(
    ("above", "code"),
    [
        ([*STEPS, *UNCAUGHT], "oom.cuda"),
        (UNCAUGHT, "oom.cuda"),
        ([*STEPS, "Killed"], "proc.sigkill"),
        ([*STEPS, "RuntimeError: NCCL communicator was aborted"], "nccl.comm_aborted"),
        (
            [*STEPS, "E0301 10:00:00.1 7 api.py:8] failed (exitcode: -9) local_rank: 1 (pid: 42)"],
            "rank.killed",
        ),
    ],
)
def test_a_status_of_another_program_below_what_ended_this_one_excuses_nothing(
    tmp_path: Path, above: list[str], code: str, status: str
) -> None:
    assert code in alarms(report(tmp_path, *above, status))


def test_the_regular_end_right_below_an_error_ends_it_whether_or_not_the_line_above_has_a_time(
    tmp_path: Path,
) -> None:
    steps = [
        f"2026-03-02 10:00:{number:02d} INFO step {number}/50 loss 2.{number}" for number in range(10, 51)
    ]
    end = "2026-03-02 10:01:10 INFO training finished"
    assert alarms(report(tmp_path, *steps, "trying a larger batch", *OOM, end)) == []
    assert alarms(report(tmp_path, *steps, "trying a larger batch", *OOM)) == ["oom.cuda"]
    assert (
        alarms(report(tmp_path, *steps, "trying a larger batch", *OOM, end.replace("10:01", "09:01"))) != []
    )
