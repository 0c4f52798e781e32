"""The session folder of document 002, lines 10 to 16, and its summary."""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gpuwatch.telemetry.base.json_files import jsonable
from gpuwatch.telemetry.base.ranks import RankFacts
from gpuwatch.telemetry.session.folder import SessionFolder, create_session_folder, named_folder
from gpuwatch.telemetry.session.logs import SessionLogs
from gpuwatch.telemetry.session.parts import read_parts
from gpuwatch.telemetry.session.place import SessionPlace
from gpuwatch.telemetry.session.summary import empty_summary, merge_parts, write_part, write_summary
from gpuwatch.telemetry.session.summary_text import summary_text
from tests.end_to_end.cluster import ROOT

START = 1_733_495_422.5


def test_the_five_files_have_the_names_of_the_document(tmp_path: Path) -> None:
    folder = create_session_folder(tmp_path / "logs", START)
    assert re.fullmatch(r"training_\d{8}_\d{6}", folder.id)
    logs = SessionLogs(folder)
    assert logs.claim()
    logs.started({"id": folder.id, "mode": "single"})
    logs.ended("completed")
    write_summary(folder, {**empty_summary(), "id": folder.id, "status": "completed"})
    endings = ("main.log", "multigpu.log", "performance.log", "summary.json", "summary.txt")
    assert {path.name for path in folder.path.iterdir()} == {f"{folder.id}_{ending}" for ending in endings}
    modes = {stat.S_IMODE(path.stat().st_mode) for path in folder.path.iterdir()}
    assert (modes, stat.S_IMODE(folder.path.stat().st_mode)) == ({0o600}, 0o700)


def test_two_sessions_of_one_second_have_two_folders(tmp_path: Path) -> None:
    first, second = (create_session_folder(tmp_path, START) for _ in range(2))
    assert second.id == f"{first.id}_2"


def test_a_running_session_has_no_text_yet(tmp_path: Path) -> None:
    folder = create_session_folder(tmp_path, START)
    write_summary(folder, {**empty_summary(), "status": "running"})
    assert json.loads(folder.summary_json.read_text())["status"] == "running"
    assert not folder.summary_txt.exists()


def test_one_process_alone_writes_the_logs(tmp_path: Path) -> None:
    folder = create_session_folder(tmp_path, START)
    owner, other = SessionLogs(folder), SessionLogs(folder, rank=1)
    assert (owner.claim(), other.claim(), owner.claim()) == (True, False, True)
    other.warning("lost")
    assert not other.claim(is_restart=True), "the owner lives"
    owner.close()
    assert other.claim(is_restart=True), "the launcher has started the ranks again"
    other.warning("found")
    assert folder.performance_log.read_text().count("| Rank 1       | found") == 1


def test_a_full_disk_does_not_end_the_training(tmp_path: Path) -> None:
    """A file size limit of the process stands in for it."""
    code = """
import resource, signal, sys
from pathlib import Path
from gpuwatch.telemetry.session.folder import create_session_folder
from gpuwatch.telemetry.session.logs import SessionLogs
logs = SessionLogs(create_session_folder(Path(sys.argv[1]), 0.0))
logs.claim()
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
for step in range(100): logs.step({"step": step, "loss": 2.5})
print(logs.failed)
"""
    argv = [sys.executable, "-c", code, str(tmp_path)]
    done = subprocess.run(argv, cwd=ROOT, check=True, capture_output=True, text=True)
    assert int(done.stdout) > 50
    assert len(done.stderr.splitlines()) == 1, done.stderr


def test_the_folder_of_gpuwatch_run_is_taken_from_the_environment(tmp_path: Path) -> None:
    folder = create_session_folder(tmp_path, START)
    assert named_folder({"GPUWATCH_RUN_DIR": str(folder.path)}) == SessionFolder.existing(folder.path)
    assert named_folder({"GPUWATCH_RUN_DIR": os.devnull}) is None
    assert named_folder({}) is None


def test_every_key_is_in_a_summary_without_any_fact() -> None:
    summary = empty_summary()
    assert (summary["format"], summary["version"]) == ("gpuwatch-session", 1)
    assert summary["step_time_s"]["p99"] is None
    assert summary["gpus"] == summary["warnings"] == []


def test_parts_add_what_the_summary_lacks() -> None:
    gradient = {
        "operation": "gradient_sync",
        "count": 2,
        "bytes_total": 30,
        "time_total_s": 2.0,
        "ranks": [0],
    }
    summary = {"id": "x", "steps": 5, "communication": [gradient], "ranks": [{"rank": 0, "steps": 5}]}
    nan = {"class": "num.nan_loss", "count": 1, "first": 5.0, "last": 5.0, "example": "NaN"}
    one = {
        "rank": 1, "steps": 4, "backend": "gloo", "model": {"parameters": 10}, "warnings": [nan],
        "ranks": [{"rank": 1, "steps": 4}],
        "communication": [
            {**gradient, "count": 1, "ranks": [1]}, {"operation": "training_start", "count": 1},
        ],
    }  # fmt: skip
    two = {"rank": 2, "backend": "nccl", "warnings": [{**nan, "first": 3.0}], "gpus": "broken"}
    merged = merge_parts(summary, [two, one])
    assert (merged["steps"], merged["backend"], merged["model"]["parameters"]) == (5, "gloo", 10)
    assert [each["rank"] for each in merged["ranks"]] == [0, 1]
    sync, start = merged["communication"]
    assert (sync["count"], sync["bytes_total"], sync["bytes_avg"], sync["ranks"]) == (3, 60, 20, [0, 1])
    assert sync["bandwidth_avg_bps"] == 15
    assert (start["bytes_total"], start["bandwidth_avg_bps"]) == (None, None)
    warning = merged["warnings"][0]
    assert (warning["count"], warning["first"], warning["last"]) == (2, 3.0, 5.0)


def test_a_part_names_its_format(tmp_path: Path) -> None:
    folder = create_session_folder(tmp_path, START)
    write_part(folder.rank_part(3), {"rank": 3})
    part = json.loads((folder.path / "parts" / "rank_0003.json").read_text())
    assert (part["format"], part["version"], part["rank"]) == ("gpuwatch-session-part", 1, 3)


ODD: tuple[Any, ...] = (
    None, True, -1, 10**400, float("nan"), "x", "\x1b[2J", [], [1, None], ["x"], [[]], {}, {"a": 1},
    {"count": "y"},
    {"forward": None, "steps": {"count": [], "mean": "x"}},
    [{}], [{"rank": "x", "index": [], "operation": {}, "class": 5}],
    [{"operation": "a", "count": "x", "bytes_total": True, "ranks": "01", "share_of_step_time": []}] * 2,
    [{"class": "a", "count": None, "first": "x", "last": {}}] * 2,
)  # fmt: skip


@pytest.mark.parametrize("odd", ODD, ids=lambda odd: str(odd)[:30])
def test_no_part_of_another_rank_breaks_the_summary(odd: object) -> None:
    own = {"id": "x", "status": "completed", "ranks": [{"rank": 0}]}
    for key in (*empty_summary(), "rank", "node_rank", "final"):
        merged = merge_parts(own, [{key: odd}, {"rank": 1, key: odd}])
        assert set(merged) >= set(empty_summary())
        assert (merged["id"], merged["status"]) == ("x", "completed")
        assert summary_text({**merged, "status": "completed"}).startswith("TRAINING")
        json.dumps(jsonable(merged), allow_nan=False)


def test_parts_are_read_within_bounds(tmp_path: Path) -> None:
    folder = create_session_folder(tmp_path, START)
    write_part(folder.rank_part(1), {"rank": 1, "steps": 5})
    huge = '{"format": "gpuwatch-session-part", "steps": ' + "9" * 400 + "}"
    for number, text in enumerate(("[" * 100_000, "{}", "\x00", huge)):
        (folder.parts / f"odd_{number}.json").write_text(text)
    found = read_parts(folder)
    assert {name: part.get("steps") for name, part in found.items()} == {
        "odd_3.json": None,
        "rank_0001.json": 5,
    }


def test_a_pointer_leads_nowhere_else(tmp_path: Path) -> None:
    """Another user plants one in a shared folder of logs."""
    logs, elsewhere = tmp_path / "logs", tmp_path / "training_elsewhere"
    elsewhere.mkdir()
    folder = create_session_folder(logs, START)
    (logs / "training_link").symlink_to(elsewhere)
    env = {"MASTER_PORT": "29500"}
    zero, one = (RankFacts(rank, rank, 2, "vm", 1) for rank in (0, 1))
    assert SessionPlace(logs, zero, env).make() is not None
    (pointer,) = logs.glob(".session_*")
    found = []
    for name in (f"{folder.id}", "../training_elsewhere", "training_link", "training_none", "/etc", ""):
        pointer.write_text(name)
        found.append(SessionPlace(logs, one, env).find())
    assert found == [folder, None, None, None, None, None]


def test_a_pointer_of_the_run_before_is_not_followed(tmp_path: Path) -> None:
    """The same address and port a minute later; rank 1 starts before rank 0."""
    env = {"MASTER_PORT": "29500"}
    zero, one = (RankFacts(rank, rank, 2, "vm", 1) for rank in (0, 1))
    before = SessionPlace(tmp_path, zero, env, clock=lambda: START).make()
    late = SessionPlace(tmp_path, one, env, clock=lambda: START + 1)
    early = SessionPlace(tmp_path, one, env, clock=lambda: START + 60)
    assert before is not None
    write_summary(before, {**empty_summary(), "status": "completed", "end": START + 30})
    assert (late.find(), early.find()) == (before, None)
    now = SessionPlace(tmp_path, zero, env, clock=lambda: START + 61).make()
    assert early.find() == now != before


PEER = "RuntimeError: [pair.cc:534] Connection closed by peer [127.0.0.1]:3456"


@pytest.mark.parametrize(
    ("errors", "expected"),
    [
        ([(PEER, 10.0), ("RuntimeError: boom on rank 1", 11.0)], "RuntimeError: boom on rank 1"),
        ([("ValueError: late", 12.0), ("ValueError: early", 11.0)], "ValueError: early"),
        ([(None, 9.0), (PEER, 10.0)], PEER),
        ([(None, 9.0), (None, 10.0)], None),
    ],
)
def test_the_error_is_the_first_that_is_not_about_a_peer(
    errors: list[tuple[str | None, float]], expected: str | None
) -> None:
    parts = [{"rank": rank, "error": error, "end": end} for rank, (error, end) in enumerate(errors)]
    assert merge_parts({}, parts)["error"] == expected
    assert merge_parts(parts[0], parts[1:])["error"] == expected


def test_a_loss_that_is_nan_is_not_replaced_by_another_rank() -> None:
    parts: list[dict[str, Any]] = [{"rank": 0, "non_finite_loss_step": 7}, {"rank": 1, "final_loss": 2.5}]
    merged = merge_parts({}, parts)
    assert (merged["final_loss"], merged["non_finite_loss_step"]) == (None, 7)
