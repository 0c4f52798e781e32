"""`gpuwatch runs list|show|compare|communication` as a user types them."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.running import environment, gpuwatch
from tests.runs.sessions.written import (
    MAIN,
    MULTI,
    MULTIGPU,
    PERFORMANCE,
    SINGLE,
    write_documented_pair,
    write_session,
)
from tests.sentences import Sentences, line_of


def facts(*arguments: str, cwd: Path, status: int = 0) -> Any:
    done = gpuwatch("runs", *arguments, "--json", cwd=cwd)
    assert (done.returncode, done.stderr) == (status, "")
    return json.loads(done.stdout)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_documented_pair(tmp_path / "logs")
    return tmp_path


def test_compare_prints_the_documented_sections(folder: Path, sentences: Sentences) -> None:
    """Document 002, lines 128 and 188 to 220: analyze_logs.py --compare."""
    done = gpuwatch("runs", "compare", cwd=folder)
    assert done.returncode == 0
    sentences(done.stdout)


def test_compare_as_json(folder: Path) -> None:
    """Document 002, lines 188 to 220."""
    found = facts("compare", cwd=folder)
    assert (round(found["speedup"], 3), round(found["efficiency"], 3)) == (1.846, 0.923)
    assert found["groups"]["single"]["utilization_avg_pct"] == 85.2
    multi = found["sessions"][1]
    assert (multi["id"], multi["mode"], multi["gpu_count"], multi["duration_s"]) == (MULTI, "multi", 2, 650.2)
    assert (multi["steps"], multi["final_loss"]) == (1000, 1.234)
    keys = ("index", "utilization_avg_pct", "utilization_peak_pct", "memory_avg_pct")
    assert [[gpu[key] for key in keys] for gpu in multi["gpus"]] == [
        [0, 82.1, 95.2, 75.1],
        [1, 81.8, 94.8, 74.9],
    ]
    assert [point["gpu_count"] for point in found["scaling"]] == [1, 2]


def test_communication_prints_the_documented_lines(folder: Path, sentences: Sentences) -> None:
    """Document 002, lines 142 to 154: analyze_logs.py --communication."""
    done = gpuwatch("runs", "communication", MULTI, cwd=folder)
    assert done.returncode == 0
    sentences(done.stdout)
    one = facts("communication", MULTI, cwd=folder)["sessions"][0]
    assert one["verdict"] == "multi"
    assert [(each["operation"], each["count"]) for each in one["operations"]] == [
        ("gradient_sync", 45),
        ("training_start", 1),
    ]


def test_a_session_that_should_use_two_gpus_and_does_not_is_status_1(tmp_path: Path) -> None:
    """Document 002, lines 247 to 252."""
    summary = {
        "mode": "multi",
        "gpu_count": 2,
        "communication": [{"operation": "broadcast", "count": 1}],
    }
    write_session(tmp_path / "logs", MULTI, summary)
    assert facts("communication", cwd=tmp_path, status=1)["sessions"][0]["verdict"] == "doubtful"


def test_show_takes_a_session_id(folder: Path) -> None:
    """Document 002, line 131: analyze_logs.py --session-id."""
    shown = facts("show", SINGLE, cwd=folder)["sessions"]
    assert [(each["id"], each["duration_s"]) for each in shown] == [(SINGLE, 1200.5)]
    assert shown[0]["packages"] is None


def test_list_names_every_session_and_what_is_incomplete(folder: Path, sentences: Sentences) -> None:
    write_session(folder / "logs", "training_20241207_090000", None, main=MAIN)
    done = gpuwatch("runs", "list", cwd=folder)
    assert [line.split()[0] for line in done.stdout.splitlines()[1:]] == [
        SINGLE,
        MULTI,
        "training_20241207_090000",
    ]
    sentences(line_of(done.stdout, SINGLE))


@pytest.mark.parametrize("arguments", [("list",), ("compare", "nothing"), ("show", "/nowhere")])
def test_without_a_session_the_usage_status_and_a_remedy(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    done = gpuwatch("runs", *arguments, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert arguments[-1].removeprefix("list") in done.stderr
    assert done.stderr.strip()


WITHOUT_OVERRIDE = (
    "import ctypes, os, sys\n"
    "for capability in (1, 2):\n"  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
    "    ctypes.CDLL(None).prctl(24, capability, 0, 0, 0)\n"  # PR_CAPBSET_DROP
    "os.execv(sys.executable, [sys.executable, '-m', 'gpuwatch', 'runs', *sys.argv[1:]])"
)
"""Root reads any folder; permissions count again without these capabilities."""


def test_a_folder_that_cannot_be_read_is_named(folder: Path) -> None:
    closed = folder / "logs" / "training_20250101_000000"
    closed.mkdir()
    closed.chmod(0)

    def runs(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", WITHOUT_OVERRIDE, *words]
        return subprocess.run(
            command, cwd=folder, env=environment(), capture_output=True, text=True, check=False, timeout=60
        )

    listed, shown = runs("list", "--json"), runs("show", str(closed))
    closed.chmod(0o700)
    assert (listed.returncode, shown.returncode) == (1, 2)
    found = json.loads(listed.stdout)
    assert len(found["sessions"]) == 2
    denied = os.strerror(errno.EACCES).lower()
    assert [(Path(each["name"]).name, each["why"]) for each in found["unreadable"]] == [(closed.name, denied)]
    assert closed.name in listed.stderr
    assert denied in shown.stderr


def test_a_file_that_may_not_be_read_is_named_and_the_rest_is_shown(tmp_path: Path) -> None:
    closed = {}
    for number, ending in enumerate(("summary.json", "main.log", "multigpu.log", "performance.log", "parts")):
        name = f"training_20250101_00000{number}"
        logs = {"main": MAIN, "multigpu": MULTIGPU, "performance": PERFORMANCE}
        session = write_session(tmp_path / "logs", name, {"mode": "multi", "world_size": 2}, **logs)
        (session / "parts").mkdir()
        (session / "parts" / "rank_0001.json").write_text("{}")
        closed[name] = session / (ending if ending == "parts" else f"{name}_{ending}")
        closed[name].chmod(0)
    command = [sys.executable, "-c", WITHOUT_OVERRIDE, "show", "--json"]
    done = subprocess.run(
        command, cwd=tmp_path, env=environment(), capture_output=True, text=True, check=False, timeout=100
    )
    for path in closed.values():
        path.chmod(0o700)
    found = {each["id"]: each for each in json.loads(done.stdout)["sessions"]}
    assert found.keys() == closed.keys()
    for name, path in closed.items():
        assert any(path.name in problem for problem in found[name]["problems"]), path.name
        assert found[name]["world_size"] == 2


STEP = "Step {:>4}/100 | Loss: 2.5 | LR: 1.00e-04"


@pytest.mark.parametrize(
    ("writer", "parts", "count"),
    [("gpuwatch run 1", [], 100), ("gpuwatch run 1", ["rank_0000.json"], 2), ("other", [], 2)],
)
def test_steps_that_only_the_console_has_are_in_the_curves(
    tmp_path: Path, writer: str, parts: list[str], count: int
) -> None:
    """Document 002, line 137: the main log has a step every two seconds, which is little of a short run."""
    main = "".join(f"{STEP.format(step)}\n" for step in (50, 100))
    made = write_session(tmp_path / "logs", SINGLE, {"writer": writer, "parts": parts}, main=main)
    (made / "ranks").mkdir()
    console = [f"step {step}/100 loss: {100 / step:.3f} lr: 0.001" for step in range(1, 101)]
    (made / "ranks" / "console_a.log").write_text("\n".join(console) + "\n")
    found = {each["name"]: each["points"] for each in facts("show", cwd=tmp_path)["sessions"][0]["curves"]}
    assert (found["loss"], found["learning_rate"]) == (count, count)
