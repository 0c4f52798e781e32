"""What the fleet knows of each rank's training: newest values, their ages, and times of steps."""

from __future__ import annotations

import math
from typing import Any

import pytest
from msgspec import structs

from gpuwatch.fleet.fleet import Fleet
from gpuwatch.fleet.logs.progress import KEPT_OF_NODE, KEPT_STEPS, MAX_WRITERS, FleetProgress, RankProgress
from gpuwatch.hosts.plan import NodeSpec, Plan
from gpuwatch.link.stream.inbox import Arrival
from gpuwatch.wire import PastStep, Progress
from tests.fleet.logs.reporting import WALL, frame, report


def only(progress: FleetProgress) -> RankProgress:
    (writer,) = progress.writers.values()
    return writer


def test_each_value_has_its_own_age() -> None:
    progress = FleetProgress()
    report(progress, {"step": 1, "loss": 2.5, "lr": 0.1}, 10.0, rank=0)
    report(progress, {"step": 2, "loss": 2.25}, 14.0, rank=0)
    rank = only(progress)
    assert rank.rank == 0
    assert {name: (known.value, known.at) for name, known in rank.values.items()} == {
        "step": (2.0, 14.0),
        "loss": (2.25, 14.0),
        "lr": (0.1, 10.0),
    }
    assert rank.value("mfu") is None


def test_step_times_are_those_reported_else_those_between_two_steps() -> None:
    progress = FleetProgress()
    report(progress, {"step": 10}, 10.0)
    report(progress, {"step": 14}, 12.0)
    report(progress, {"step": 15, "step_time_s": 0.25}, 13.0)
    writer = only(progress)
    assert writer.step_times() == [0.5, 0.25]
    assert [step.step for step in writer.steps] == [10, 14, 15]


def test_steps_that_arrive_at_once_after_a_pause_took_as_long_as_before() -> None:
    """gpuwatch or its network was stopped: the agent's frames waited in the connection."""
    progress, resumed = FleetProgress(), 60.0
    for step in range(1, 11):
        report(progress, {"step": step}, float(step))
    for step in range(11, 41):
        reported = frame({"step": step}, float(step))
        progress.take("n1", reported, reported.t, resumed)
    for step in range(61, 71):
        report(progress, {"step": step}, float(step))
    assert only(progress).step_times() == [1.0] * 49


def test_steps_of_one_whole_second_share_its_time() -> None:
    """A log in whole seconds with steps of 0.25 s: only each fourth step has a new time."""
    progress = FleetProgress()
    for step in range(1, 42):
        report(progress, {"step": step}, float((step - 1) // 4))
    assert only(progress).step_times() == [0.25] * 10
    report(progress, {"step": 5}, 11.0)  # restarted from a checkpoint
    report(progress, {"step": 6}, 12.0)
    assert only(progress).step_times() == [0.25] * 10 + [1.0]


def test_the_same_step_again_is_no_step() -> None:
    progress = FleetProgress()
    report(progress, {"step": 10}, 10.0)
    report(progress, {"step": 10, "loss": 1.0}, 50.0)
    writer = only(progress)
    assert (writer.stepped_at, writer.received_at) == (10.0, 50.0)


def test_a_counter_that_begins_anew_gives_no_step_time() -> None:
    progress = FleetProgress()
    for step, at in ((40, 10.0), (1, 11.0), (2, 12.0)):
        report(progress, {"step": step}, at, per_epoch=True)
    writer = only(progress)
    assert writer.step_times() == [1.0]


def test_what_is_no_number_stays_none() -> None:
    progress = FleetProgress()
    report(progress, {"step": 1, "loss": "nan", "grad_norm": "inf"}, 1.0)
    writer = only(progress)
    assert math.isnan(writer.value("loss") or 0.0)
    assert writer.value("grad_norm") == math.inf


def test_the_past_of_a_log_replaces_nothing_that_was_reported_live() -> None:
    progress = FleetProgress()
    report(progress, {"step": 500, "loss": 1.0}, 100.0, offset=5000)
    late = frame({"step": 499, "loss": 9.0, "lr": 0.5}, -3600.0, backlog=True, timed=True, offset=100)
    progress.take("n1", late, WALL + 101, 101.0)
    writer = only(progress)
    assert (writer.value("step"), writer.value("loss"), writer.value("lr")) == (500, 1.0, 0.5)
    assert 101.0 - writer.values["lr"].at == pytest.approx(3701.0)
    assert (writer.stepped_at, writer.offset) == (100.0, 5000)


@pytest.mark.parametrize("timed", [True, False])
def test_a_backlog_that_comes_in_pieces_ends_at_its_last_step(timed: bool) -> None:
    progress = FleetProgress()
    for step, at in ((177, -120.0), (260, -40.0)):
        piece = frame({"step": step, "loss": 500.0 - step}, at, backlog=True, timed=timed, offset=step)
        progress.take("n1", piece, WALL + 1, 1.0)
    writer = only(progress)
    assert (writer.value("step"), writer.value("loss"), writer.offset) == (260, 240.0, 260)


def test_of_a_past_line_without_a_time_only_the_least_age_is_known() -> None:
    progress = FleetProgress()
    report(progress, {"step": 7, "loss": 1.0}, 3.0, backlog=True)
    writer = only(progress)
    assert writer.values["loss"].sure is False
    assert list(writer.steps) == []
    report(progress, {"step": 8}, 5.0)
    assert writer.step_times() == []


def test_the_bar_of_an_evaluation_does_not_set_the_training_back() -> None:
    progress = FleetProgress()
    report(progress, {"step": 400, "total_steps": 1000}, 10.0, dialect="progress.bar")
    report(progress, {"step": 3, "total_steps": 25}, 12.0, dialect="progress.bar")
    writer = only(progress)
    assert (writer.value("step"), writer.done) == (400, 0.4)
    report(progress, {"step": 3, "total_steps": 25}, 2000.0, dialect="progress.bar")
    assert writer.value("step") == 3


def test_ranks_files_and_jobs_are_distinguished() -> None:
    progress = FleetProgress()
    for rank in range(4):
        report(progress, {"step": 10 + rank}, 1.0 + rank, rank=rank, job="a", file="/logs/all.log")
    report(progress, {"step": 99}, 9.0, rank=0, job="b", file="/logs/b.log")
    reported = {(writer.job, writer.rank): writer.value("step") for writer in progress.writers.values()}
    assert reported == {("a", 0): 10, ("a", 1): 11, ("a", 2): 12, ("a", 3): 13, ("b", 0): 99}


def test_memory_is_bounded() -> None:
    progress = FleetProgress()
    small = Progress(t=1.0, seq=1, file="/small", offset=0, at=1.0, dialect="x", fields={"step": 1})
    progress.take("small", small, 1.0, 1.0)
    for number in range(KEPT_OF_NODE + 5):
        report(progress, {"step": 1}, 1.0, file=f"/logs/{number}")
    assert len(progress.writers) == KEPT_OF_NODE + 1
    for number in range(MAX_WRITERS):
        progress.take(f"n{number % 4}", structs.replace(small, file=f"/{number}"), 1.0, 1.0)
    assert len(progress.writers) == MAX_WRITERS
    assert next(iter(progress.writers))[0] == "small"
    progress.forget("n0")
    assert {key[0] for key in progress.writers} == {"small", "n1", "n2", "n3"}
    assert not progress.only("n0").writers
    for step in range(KEPT_STEPS + 5):
        report(progress, {"step": step}, 2.0 + step, file="/logs/one")
    writer = next(writer for writer in progress.writers.values() if writer.file == "/logs/one")
    assert len(writer.steps) == KEPT_STEPS


def test_a_frame_comes_into_the_fleet_and_moves_its_version() -> None:
    fleet = Fleet(Plan((NodeSpec("n1"),)))
    before = fleet.version, fleet.progress.version
    fleet.apply(Arrival("n1", 5.0, frame({"step": 4}, 0.0, rank=2)))
    writer = only(fleet.progress)
    assert (writer.rank, writer.value("step")) == (2, 4)
    assert (fleet.version, fleet.progress.version) == (before[0] + 1, before[1] + 1)


def past(*steps: Any, per_epoch: bool = False) -> Progress:
    found = [PastStep(step, *rest) for step, *rest in steps]
    return frame({}, 0.0, backlog=True, timed=True, past=found, per_epoch=per_epoch)


def curve_of(progress: FleetProgress) -> list[tuple[int, float | None]]:
    writer = only(progress)
    return [(step.step, step.loss) for step in writer.curve()]


def test_the_past_fills_the_curve_and_nothing_else() -> None:
    progress = FleetProgress()
    report(progress, {"step": 400, "loss": 1.0, "tokens_per_s": 9.0}, 100.0)
    progress.take("n1", past((300, WALL - 50, 3.0), (350, None, 2.0)), WALL + 101, 101.0)
    assert curve_of(progress) == [(300, 3.0), (350, 2.0), (400, 1.0)]
    writer = only(progress)
    assert (writer.value("step"), writer.stepped_at, len(writer.steps)) == (400, 100.0, 1)
    assert [step.at for step in writer.past] == [-50.0, -math.inf]
    assert writer.steps[0].tokens_per_s == 9.0


def test_of_a_training_that_went_on_from_a_checkpoint_the_lost_steps_are_gone() -> None:
    progress = FleetProgress()
    progress.take("n1", past((10, None, 3.0), (20, None, 2.0), (15, None, 2.5), (18, None, 2.2)), WALL, 0.0)
    assert curve_of(progress) == [(10, 3.0), (15, 2.5), (18, 2.2)]


def test_an_agent_that_came_again_brings_the_past_up_to_its_return() -> None:
    progress = FleetProgress()
    progress.take("n1", past((10, None, 3.0), (20, None, 2.0)), WALL, 0.0)
    report(progress, {"step": 21, "loss": 1.9}, 1.0)
    progress.take("n1", past((10, None, 3.0), (30, None, 1.5)), WALL + 60, 60.0)
    report(progress, {"step": 31, "loss": 1.4}, 61.0)
    assert curve_of(progress) == [(10, 3.0), (21, 1.9), (31, 1.4)]


def test_where_each_epoch_begins_anew_all_of_them_stay() -> None:
    progress = FleetProgress()
    progress.take("n1", past((1, None, 3.0), (9, None, 2.0), (1, None, 1.0), per_epoch=True), WALL, 0.0)
    report(progress, {"step": 2, "loss": 0.5}, 1.0, per_epoch=True)
    assert [step for step, _ in curve_of(progress)] == [1, 9, 1, 2]


@pytest.mark.parametrize("odd", ["nan", "inf", "-inf", 1e300])
def test_a_hostile_node_cannot_tell_a_step_that_is_none(odd: float | str) -> None:
    progress = FleetProgress()
    report(progress, {"step": 7, "total_steps": 10}, 10.0, rank=0)
    report(progress, {"step": odd, "total_steps": odd, "step_time_s": odd, "eta_s": odd}, 11.0, rank=0)
    rank = only(progress)
    assert (rank.value("step"), rank.value("total_steps"), rank.done) == (7, 10, 0.7)
    assert (rank.value("eta_s"), len(rank.steps)) == (None, 1)
    if isinstance(odd, float):
        progress.take("n1", past((odd, None, 1.0), (6, None, 1.0, 1.0, odd)), WALL, 12.0)
    assert all(math.isfinite(step.step) for writer in progress.writers.values() for step in writer.past)
