"""What another user plants in a folder of logs, and what a launcher or script states, end no training."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from gpuwatch.telemetry import TelemetrySettings, TelemetryTracker, setup_rank_logging
from gpuwatch.telemetry.base.faults import contained, faults
from gpuwatch.telemetry.base.json_files import write_text_whole
from gpuwatch.telemetry.base.ranks import RankFacts, identify
from gpuwatch.telemetry.session.folder import SessionFolder, create_session_folder
from gpuwatch.telemetry.session.parts import read_parts
from gpuwatch.telemetry.session.place import SessionPlace

WAIT_S = 240.0


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to make files of another user")
def test_a_session_folder_of_another_user_is_not_taken(tmp_path: Path) -> None:
    env = {"RANK": "1", "MASTER_ADDR": "h", "MASTER_PORT": "1"}
    first = SessionPlace(tmp_path, RankFacts(0, 0, 2, "h", 1), env).make()
    assert first is not None
    found = SessionPlace(tmp_path, RankFacts(1, 1, 2, "h", 2), env).find()
    assert found == first
    os.chown(first.path, 65534, 65534)
    assert SessionPlace(tmp_path, RankFacts(1, 1, 2, "h", 2), env).find() is None


def in_time(call: Callable[[], object]) -> object:
    """What a call returns on a thread of its own; it fails where the call waits for ever."""
    found: list[object] = []
    thread = threading.Thread(target=lambda: found.append(call()), daemon=True)
    thread.start()
    thread.join(WAIT_S)
    assert found, "it waits"
    return found[0]


def fifo(path: Path) -> None:
    os.mkfifo(path)


def folder(path: Path) -> None:
    path.mkdir()


def link(path: Path) -> None:
    path.symlink_to(path.parent.parent / "private")


@pytest.mark.parametrize("plant", [fifo, folder, link])
def test_a_rank_writes_beside_what_is_no_file(tmp_path: Path, plant: Callable[[Path], None]) -> None:
    (tmp_path / "private").write_text("mine\n")
    logs = tmp_path / "logs"
    logs.mkdir()
    plant(logs / "rank_7.log")
    logger = in_time(lambda: setup_rank_logging(logs, env={"RANK": "7"}))
    assert isinstance(logger, logging.Logger)
    logger.info("goes on")
    for handler in logger.handlers:
        handler.close()
    assert (tmp_path / "private").read_text() == "mine\n"
    (own,) = logs.glob("rank_7.pid*.log")
    assert "goes on" in own.read_text()


@pytest.mark.parametrize(
    "plant", [fifo, folder, link, lambda path: os.truncate(path.open("w").name, 1 << 40)]
)
def test_a_pointer_is_read_to_a_bound_and_not_waited_for(
    tmp_path: Path, plant: Callable[[Path], None]
) -> None:
    (tmp_path / "private").write_text("training_x")
    logs, env = tmp_path / "logs", {"MASTER_PORT": "29500"}
    zero, one = (SessionPlace(logs, RankFacts(rank, rank, 2, "vm", 1), env) for rank in (0, 1))
    zero.make()
    (pointer,) = logs.glob(".session_*")
    pointer.unlink()
    plant(pointer)
    assert in_time(lambda: [one.find()]) == [None]


def test_parts_and_files_in_the_making_are_not_waited_for(tmp_path: Path) -> None:
    session = create_session_folder(tmp_path, 1.0)
    session.parts.mkdir()
    os.mkfifo(session.parts / "rank_0001.json")
    assert in_time(lambda: read_parts(SessionFolder(session.path))) == {}
    os.mkfifo(tmp_path / f".x.{os.getpid()}.{threading.get_ident():x}")
    write_text_whole(tmp_path / "x", "text")
    assert (tmp_path / "x").read_text() == "text"


@pytest.mark.parametrize("value", ["9" * 5_000, "9" * 1_000, "99999999999", "-1", "\u0663", "1e3", ""])
def test_ranks_that_can_be_none_are_none(value: str) -> None:
    facts = identify({"RANK": value, "LOCAL_RANK": value, "WORLD_SIZE": value})
    assert (facts.rank, facts.local_rank, facts.world_size) == (0, 0, 1)


NUMBERS = ("learning_rate", "grad_norm", "samples", "tokens", "epoch", "other")
VALUES = [1e308, float("inf"), float("nan"), 10**400, -(10**6000), "text", None, [1], object()]


def test_no_value_of_a_step_ends_the_training(tmp_path: Path) -> None:
    before = faults()
    settings = TelemetrySettings(log_interval_steps=1, performance_log_steps=1)
    with TelemetryTracker(settings, logs_dir=tmp_path) as tracker:
        tracker.start(configuration={"x": VALUES})
        for value in VALUES:
            numbers = dict.fromkeys(
                ("learning_rate", "grad_norm", "samples", "tokens", "epoch", "other"), value
            )
            tracker.step(value, loss=value, **numbers)  # type: ignore[arg-type]
            tracker.communication("all_reduce", value, value)  # type: ignore[arg-type]
            tracker.evaluation({"x": value})
            tracker.warn("x", f"password=SECRETabc1 {value}"[:99] if not isinstance(value, int) else "x")
        tracker.print_summary()
    (session,) = tmp_path.glob("training_*")
    assert "SECRETabc1" not in "".join(path.read_text() for path in session.glob("*summary*"))
    assert list(session.glob("*summary.json"))
    assert faults() == before


def test_a_fault_of_the_library_is_counted_and_ends_nothing() -> None:
    @contained
    def fails(error: BaseException) -> int:
        raise error

    before = sum(faults().values())
    assert [fails(each) for each in (OSError("full"), OverflowError("x"), RecursionError("x"))] == [None] * 3
    assert sum(faults().values()) == before + 3
    with pytest.raises(TypeError):
        fails(TypeError("a wrong call"))
