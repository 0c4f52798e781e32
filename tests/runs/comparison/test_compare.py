"""Speed-up, efficiency and scaling; what is unlike is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuwatch.blocks.html import html
from gpuwatch.report.sessions.comparison import comparison_facts, comparison_lines
from gpuwatch.report.sessions.document import build_document
from gpuwatch.runs.comparison.compare import compare
from gpuwatch.runs.sessions.find import find_sessions
from gpuwatch.runs.sessions.model.session import TrainingSession
from gpuwatch.runs.sessions.model.summary import SessionBatch, SessionModel, SessionSummary
from gpuwatch.telemetry.session.summary_text import summary_text
from tests.runs.sessions.written import write_documented_pair


def session(name: str, workers: int, rate: float | None, **facts: object) -> TrainingSession:
    steps, duration = (None, None) if rate is None else (1000, 1000 / rate)
    summary = SessionSummary(id=name, gpu_count=workers, steps=steps, duration_s=duration)
    for key, value in facts.items():
        setattr(summary, key, value)
    return TrainingSession(Path(name), "session folder", summary)


def test_the_documented_pair_gives_the_documented_speedup(tmp_path: Path) -> None:
    """Document 002, lines 219 and 220: 1.85x from unrounded rates; 92.3 % (its 92.5 % is a rounding)."""
    write_documented_pair(tmp_path)
    found = compare(find_sessions((), tmp_path).sessions)
    assert found.speedup == pytest.approx(1.846, abs=5e-4)
    assert found.efficiency == pytest.approx(0.923, abs=5e-4)


def test_several_gpu_counts_are_never_averaged() -> None:
    """Document 002, line 211."""
    found = compare(
        [session("a", 1, 1.0), session("b", 8, 6.0), session("c", 64, 32.0), session("d", 64, 40.0)]
    )
    assert (found.speedup, found.efficiency, found.multi.steps_per_s) == (None, None, None)
    assert [(point.workers, point.speedup, point.efficiency) for point in found.scaling] == [
        (1, 1.0, 1.0),
        (8, 6.0, 0.75),
        (64, pytest.approx(36.0), pytest.approx(0.5625)),
    ]


def test_without_a_single_gpu_session_the_lowest_count_is_the_baseline() -> None:
    found = compare([session("b", 8, 6.0), session("c", 16, 9.0)])
    assert found.speedup is None
    last = found.scaling[-1]
    assert (last.baseline_workers, last.speedup, last.efficiency) == (8, 1.5, 0.75)


def test_short_runs_are_also_compared_by_their_median_step() -> None:
    found = compare(
        [
            session("a", 1, 1.0, steady_steps_per_s=10.0, batch=SessionBatch(global_size=8)),
            session("b", 2, 0.9, steady_steps_per_s=9.0, batch=SessionBatch(global_size=16)),
        ]
    )
    last = found.scaling[-1]
    assert last.steady_speedup == pytest.approx(0.9)
    assert last.steady_throughput_speedup == pytest.approx(1.8)


def test_ranks_count_where_no_gpu_is_used() -> None:
    found = compare([session("a", 0, 1.0, world_size=1), session("b", 0, 1.8, world_size=2)])
    assert found.speedup == pytest.approx(1.8)
    assert found.efficiency == pytest.approx(0.9)


def test_different_models_and_batches_are_named() -> None:
    found = compare(
        [
            session("a", 1, 1.0, model=SessionModel(name="m"), batch=SessionBatch(global_size=8)),
            session("b", 2, 1.0, model=SessionModel(name="n"), batch=SessionBatch(global_size=16)),
            session("c", 2, 1.0),
        ]
    )
    assert {each.what: each.values for each in found.differences} == {
        "model": {"a": "m", "b": "n"},
        "global_batch_size": {"a": "8", "b": "16"},
    }


def test_durations_of_a_command_and_of_a_training_alone_are_not_alike() -> None:
    """`gpuwatch run` times the whole command with its imports, the library from the start of the training."""
    writers = {"a": "gpuwatch run 0.2.0", "b": "gpuwatch.telemetry 0.2.0", "c": None}
    found = compare([session(name, 1, 1.0, writer=writer) for name, writer in writers.items()])
    assert {each.what: each.values for each in found.differences} == {
        "duration_of": {"a": "the command", "b": "the training"}
    }
    assert not compare([session(name, 1, 1.0, writer=writers["a"]) for name in "ab"]).differences


@pytest.mark.parametrize(
    ("loss", "text"),
    [
        (1.2345, "1.2345"),
        (0.0321, "0.0321"),
        (0.0, "0.0000"),
        (-0.00123456, "-0.001235"),
        (3.2e-6, "3.2e-06"),
    ],
)
def test_a_small_loss_is_not_shown_as_zero(loss: float, text: str) -> None:
    one = session("a", 1, 1.0, final_loss=loss)
    assert any(each.text == f"  Final Loss: {text}" for each in comparison_lines(compare([one])))
    assert f"Final loss:   {text}\n" in summary_text({"final_loss": loss})


def test_settings_that_differ_are_named() -> None:
    one = session("a", 1, 1.0, configuration={"optimizer": {"lr": 0.1, "name": "adamw"}, "seed": 1})
    two = session("b", 1, 1.0, configuration={"optimizer": {"lr": 0.2, "name": "adamw"}, "steps": 5})
    found = compare([one, two, session("c", 1, 1.0)])
    assert [(each.what, each.values) for each in found.configuration] == [
        ("optimizer.lr", {"a": "0.1", "b": "0.2"})
    ]
    assert comparison_facts(found)["configuration_differences"][0]["name"] == "optimizer.lr"
    assert any(each.text == "  optimizer.lr: a: 0.1; b: 0.2" for each in comparison_lines(found))
    assert "optimizer.lr" in html(build_document([one, two]))


@pytest.mark.parametrize("rate", [None, 1.0])
def test_what_has_no_rate_gives_no_speedup(rate: float | None) -> None:
    found = compare([session("a", 1, rate), session("b", 2, None)])
    assert (found.speedup, found.efficiency) == (None, None)


def test_a_session_without_counts_is_in_no_group() -> None:
    bare = TrainingSession(Path("x"), "session folder", SessionSummary(id="x", steps=10, duration_s=5))
    found = compare([bare])
    assert [len(each.sessions) for each in (found.single, found.multi, found.unknown)] == [0, 0, 1]
    assert found.scaling == ()
