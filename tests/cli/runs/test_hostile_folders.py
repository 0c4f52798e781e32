"""No name, tag, key or value in a folder of somebody else steers the terminal, whichever command reads it."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from gpuwatch.cli.main import main
from tests.hostile_text import EVIL, steering
from tests.runs.sessions.written import MAIN, MULTI, PERFORMANCE, event

FORMS = ((), ("--json",))
COMMANDS = (
    *(("runs", name, *form) for name in ("list", "show", "compare", "communication") for form in FORMS),
    ("runs", "report"),
    ("runs", "report", "--markdown", "-"),
    ("runs", "report", "--html", "/dev/stdout"),
    ("runs", "plot"),
    *((name, *form) for name in ("scan", "trace", "memory") for form in FORMS),
    ("open",),
    ("evidence", "-o", f"{EVIL}.zip", "--artifacts"),
    ("record", "--status"),
)  # fmt: skip


def evil(value: Any) -> Any:
    """The same document with the hostile text in every key and string."""
    if isinstance(value, dict):
        return {**value, **{f"{key}{EVIL}": evil(each) for key, each in value.items()}}
    return [evil(each) for each in value] if isinstance(value, list) else f"{value}{EVIL}"


def write(path: Path, text: str | bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else os.fsencode(text))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Sessions, outputs, traces and dumps, whose names and contents are hostile; some of them are damaged."""
    top = tmp_path / f"of {EVIL}"
    name = f"{MULTI}{EVIL}"
    summary = {
        "id": EVIL, "status": EVIL, "name": EVIL, "error": EVIL, "mode": EVIL, "steps": EVIL, "gpu_count": 2,
        "model": {"name": EVIL}, "gpus": [{"node": EVIL, "index": 0, "name": EVIL, "uuid": EVIL}],
        "communication": [{"operation": EVIL, "count": 1}], "timers": {EVIL: {"kind": EVIL}},
        "ranks": [{"rank": 0, "node": EVIL, "log": EVIL}], "nodes": [{"name": EVIL}],
        "evaluation": {EVIL: 1}, "configuration": {EVIL: EVIL}, "environment": {EVIL: EVIL},
        "packages": {EVIL: EVIL}, "system": {"hostname": EVIL}, "parts": [EVIL],
        "warnings": [{"class": EVIL, "severity": EVIL, "example": EVIL}],
    }  # fmt: skip
    logs = top / f"logs{EVIL}"
    write(logs / name / f"{name}_summary.json", json.dumps(summary))
    write(logs / name / "parts" / f"{EVIL}.json", "{")
    write(logs / name / f"{name}_main.log", MAIN.replace("qwen", EVIL).replace("eval_loss", f"eval_{EVIL}"))
    write(logs / f"{name}1" / f"{name}_summary.json", "{")
    write(logs / f"{name}1" / f"{name}_performance.log", PERFORMANCE.replace("GPU 0", f"GPU 0 | {EVIL}"))
    for number in range(2):
        run = top / f"out{number}{EVIL}"
        write(run / f"{EVIL}events.out.tfevents.1", event(1, f"eval/{EVIL[:-1]}", 1.0) + b"\xff" * 20)
        write(run / f"{EVIL}.wandb", b":W&B no")
        write(run / f"{EVIL}.log", f"step {EVIL} loss: 1.0\nRuntimeError: CUDA out of memory {EVIL}\n")
        write(run / "trainer_state.json", json.dumps({"log_history": [{"step": 1, f"eval_{EVIL}": 1}]}))
        timers = evil({"rank0000": {"timers": {"steps": {"mean": 1}}}})
        kind = "rank0000" if number else "all_ranks"
        write(run / f"telemetry_callback_{kind}.json", json.dumps(timers))
    one = {"ph": "X", "cat": "kernel", "name": EVIL, "ts": 1, "dur": 5, "pid": 0, "tid": 7}
    place = {"rank": 0, "backend": EVIL}
    write(top / f"t{EVIL}.json", json.dumps({"traceEvents": [one, one], "distributedInfo": place}))
    write(top / f"cut{EVIL}.json", '{"traceEvents": [{"ph": NaN}')
    write(top / f"m{EVIL}.pickle", b"\x80\x04}q\x00X")
    write(top / f"r{EVIL}.gpw", b"SQLite format 3\0" + b"x" * 100)
    return top


def test_no_folder_steers_the_terminal(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    monkeypatch.chdir(tmp_path)
    below = sorted(folder.iterdir())
    for command in COMMANDS:
        paths = [folder, *below] if command[0] == "runs" else [folder]
        for path in [*paths, *(each for each in below if command[0] == "record")]:
            monkeypatch.setattr(sys, "argv", ["gpuwatch", *command, str(path)])
            with pytest.raises(SystemExit) as ended:
                main()
            texts = [stream.decode("utf-8", "surrogateescape") for stream in capfdbinary.readouterr()]
            assert not steering("".join(texts)), (command, path)
            assert ended.value.code in (0, 1, 2), (command, path, texts)
