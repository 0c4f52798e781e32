"""JSON documents of records, read as logs: `trainer_state.json` and arrays of log records."""

from __future__ import annotations

import json
import time
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpuwatch.report.scan.report import ScanReport, judged
from gpuwatch.rules.load import load_packs
from gpuwatch.runs.files.files import gather
from gpuwatch.runs.files.json_documents import DOCUMENT, as_records, holds_records
from gpuwatch.runs.files.record_splitter import MAX_RECORD
from gpuwatch.runs.scan.scan import scan

STEP = 10


def history(steps: int, loss: Any = None) -> list[dict[str, Any]]:
    """The records of a healthy training; `loss` gives that of a step."""
    return [
        {
            "epoch": round(number / steps, 4),
            "grad_norm": 1.5,
            "learning_rate": 1e-5,
            "loss": (2.0 + 1.0 / number) if loss is None else loss(number),
            "step": number * STEP,
        }
        for number in range(1, steps + 1)
    ]


def state(records: list[dict[str, Any]], total: int, **more: Any) -> dict[str, Any]:
    """What the `Trainer` of transformers saves."""
    return {
        "best_metric": None,
        "global_step": records[-1]["step"],
        "log_history": records,
        "logging_steps": STEP,
        "max_steps": total,
        "num_train_epochs": 1,
        "save_steps": 200,
        **more,
    }


def saved(path: Path, document: object, indent: int | None = 2) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document, indent=indent) + "\n", encoding="utf-8")
    return path


@pytest.mark.parametrize("indent", [None, 0, 2, 8])
def reported(folder: Path) -> ScanReport:
    """The report of a folder, an hour after its files were written."""
    packs = load_packs()
    found = gather([folder], packs.column_words)
    return judged(scan(found, packs.all, "agent", cores=1), packs, time.time() + 3600, 0.1)


def codes(report: ScanReport) -> set[str]:
    alerts = [*report.outside, *(alert for each in report.incidents for alert in each.alerts)]
    return {alert.code for alert in alerts if alert.severity != "info"}


@pytest.mark.parametrize("indent", [None, 0, 2, 8])
def test_a_state_with_nan_is_found_at_its_step(tmp_path: Path, indent: int | None) -> None:
    records = history(60, lambda number: float("nan") if number > 30 else 2.0)
    path = saved(tmp_path / "checkpoint-600/trainer_state.json", state(records, 1000), indent)
    report = reported(tmp_path)
    (incident,) = report.incidents
    assert incident.code == "num.nan_loss"
    (line,) = report.lines.values()
    at = path.read_text().splitlines()[line - 1 : line + 6]
    assert any('"step": 310' in each for each in at) if indent is not None else line == 31


def test_a_rising_loss_and_an_exploding_gradient_are_found(tmp_path: Path) -> None:
    rising = history(300, lambda number: 2.0 + max(0, number - 100) * 0.05)
    saved(tmp_path / "a/trainer_state.json", state(rising, 3000))
    assert "num.loss_rising" in codes(reported(tmp_path / "a"))
    exploding = [dict(each, grad_norm=1e5) if each["step"] > 2500 else each for each in history(300)]
    saved(tmp_path / "b/trainer_state.json", state(exploding, 3000))
    assert "num.grad_explodes" in codes(reported(tmp_path / "b"))


@pytest.mark.parametrize(
    ("folder", "steps", "more", "ended"),
    [
        ("", 60, {}, "stopped"),
        ("", 100, {}, "finished"),
        ("checkpoint-600", 60, {}, "stopped"),
        ("checkpoint-900", 90, {}, "unknown"),  # the next checkpoint was not due before the end
        ("checkpoint-1000", 100, {}, "finished"),
        (
            "",
            60,
            {
                "stateful_callbacks": {
                    "EarlyStoppingCallback": {
                        "args": {"early_stopping_patience": 3},
                        "attributes": {"early_stopping_patience_counter": 3},
                    }
                }
            },
            "unknown",
        ),
    ],
)
def test_how_a_training_ended(
    tmp_path: Path, folder: str, steps: int, more: dict[str, Any], ended: str
) -> None:
    saved(tmp_path / folder / "trainer_state.json", state(history(steps), 1000, **more))
    report = reported(tmp_path)
    assert (report.end.state, report.end.step) == (ended, steps * STEP)
    assert report.has_problems is (ended == "stopped")


def test_the_last_state_of_a_training_stands_for_the_earlier_ones(tmp_path: Path) -> None:
    for steps in (20, 40, 100):
        saved(tmp_path / f"checkpoint-{steps * STEP}/trainer_state.json", state(history(steps), 1000))
    report = reported(tmp_path)
    assert (report.end.state, len(report.scan.files), report.has_problems) == ("finished", 1, False)


def failing_log(records: int) -> list[dict[str, Any]]:
    """What a log store exports; the last record is a failure of rank 3."""
    log = [
        {
            "timestamp": f"2026-03-04T00:00:{number:02d}Z",
            "level": "INFO",
            "rank": 3,
            "message": f"step {number}",
        }
        for number in range(records)
    ]
    text = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB"
    return [*log, dict(log[-1], level="ERROR", message=text)]


@pytest.mark.parametrize("name", ["export.json", "rank.log"])
@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("key", [None, "records"])
def test_an_array_of_log_records_is_a_log(
    tmp_path: Path, name: str, indent: int | None, key: str | None
) -> None:
    log = failing_log(40)
    saved(tmp_path / name, log if key is None else {key: log, "count": len(log)}, indent)
    (incident,) = reported(tmp_path).incidents
    assert (incident.code, incident.rank) == ("oom.cuda", 3)


RECORD = '{"level": "INFO", "message": "hi", "time": "2026-03-04T00:00:00Z"}'


@pytest.mark.parametrize(
    "beginning",
    [
        f"[{RECORD}]\n",
        f'{{"records": [{RECORD}], "count": 1}}\n',
        f"[{RECORD},\n",
        f"[{RECORD}, [\n",
        f"[{RECORD}, {{\n",
        f'[{RECORD}, {{"a": "\n',
        f'[{RECORD}, "\n',
        f"[{RECORD}\n",
        f"[{RECORD}]]\n",
        f'{{"records": [{RECORD}], \n',
        '[{"step": 1, "loss": 2.0}]\n',
        '{"log_history": [{"step": 1, "loss": 2.0}], "global_step": 1, "max_steps": 1}\n',
        f"[{','.join([RECORD] * 700)}]\n",
        f"[{','.join([RECORD] * 700)}, {{\n",
        f"[{','.join([RECORD] * 700)}, [\n{RECORD}\n",
    ],
)
@pytest.mark.parametrize("size", [1 << 10, 1 << 20])
def test_a_log_that_begins_like_a_document_is_read_to_its_end(beginning: str, size: int) -> None:
    """One printed line must not hide those below it."""
    log = f"{beginning}{{'loss': 2.0}}\nstep 2\nRuntimeError: CUDA out of memory\n{RECORD}\n"
    lines = b"".join(as_records(pieces_of(log.encode(), size), DOCUMENT)).splitlines()
    assert lines[-3:] == [b"step 2", b"RuntimeError: CUDA out of memory", RECORD.encode()]


def test_the_last_records_of_a_document_that_is_cut_are_read(tmp_path: Path) -> None:
    path = saved(tmp_path / "rank.log", failing_log(40), None)
    path.write_text(path.read_text().rstrip("]\n"))
    (incident,) = reported(tmp_path).incidents
    assert (incident.code, incident.rank) == ("oom.cuda", 3)


@pytest.mark.parametrize(
    "document",
    [
        [{"prompt": "why", "completion": "RuntimeError: CUDA out of memory", "date": "2026-03-04"}],
        [{"role": "user", "message": "RuntimeError: CUDA out of memory", "time": "2026-03-04"}],
        [{"sha": "ab12", "message": "Fix CUDA out of memory", "author": "a", "date": "2026-03-04"}],
        {"traceEvents": [{"ph": "X", "name": "CUDA error", "ts": 1, "pid": 1}]},
        {"cells": [{"cell_type": "code", "source": ["raise RuntimeError('CUDA out of memory')"]}]},
        {"model_type": "llama", "layers": [{"name": "error", "size": 4}]},
        [1, 2, 3],
        {},
    ],
)
def test_other_documents_are_no_logs(tmp_path: Path, document: object) -> None:
    path = saved(tmp_path / "data.json", document, None)
    assert gather([tmp_path], load_packs().column_words).files == []
    assert not holds_records(path.read_bytes(), load_packs().column_words)


def test_lines_of_one_object_each_are_no_document() -> None:
    line = json.dumps({"level": "INFO", "message": "x", "items": [{"level": "INFO", "message": "y"}]})
    assert not holds_records(f"{line}\n{line}\n".encode(), {})


def pieces_of(data: bytes, size: int) -> Iterator[bytes]:
    return (data[at : at + size] for at in range(0, len(data), size))


@pytest.mark.parametrize("size", [1, 3, 7, 64, 1 << 20])
def test_records_are_the_same_however_the_bytes_come(size: int) -> None:
    texts = ['a "quoted" }', "back\\slash\\", "[{", "brace } ] {", "line\nend", "\u00e9"]
    log = {"records": [{"level": "INFO", "message": text, "at": {"of": [{"x": 1}]}} for text in texts]}
    for indent in (None, 2):
        data = json.dumps(log, indent=indent).encode()
        lines = b"".join(as_records(pieces_of(data, size), DOCUMENT)).splitlines()
        assert [json.loads(line) for line in lines if line.strip()] == log["records"]
        if indent is not None:
            assert len(lines) <= data.count(b"\n") + 1


def test_memory_is_bounded_whatever_a_document_holds() -> None:
    def endless(piece: bytes) -> Iterator[bytes]:
        yield b'[{"message": "x"}, '
        for _ in range(32):
            yield piece

    record = b'{"level": "INFO", "message": "%s"},' % (b"x" * 4000) * 256
    tracemalloc.start()
    for _ in as_records(endless(record), DOCUMENT):
        pass
    for hostile in (b'"' + b"a" * MAX_RECORD, b"[" * 1000, b'{"a": ' + b" " * MAX_RECORD):
        assert sum(map(len, as_records(endless(hostile), DOCUMENT))) > 31 * len(hostile)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 16 * MAX_RECORD
