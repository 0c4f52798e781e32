"""What a scanner tells of training: the newest values a tick, whose they are, and at what price."""

from __future__ import annotations

import itertools
import math
import random
from typing import Any

import msgspec
import pytest

from gpuwatch.agent.logs.matching import prefilter as prefilter_module
from gpuwatch.agent.logs.matching.ruleset import RuleSet
from gpuwatch.agent.logs.progress import history_lines, latest_lines
from gpuwatch.agent.logs.progress.history_lines import HISTORY_STEPS
from gpuwatch.agent.logs.scanning.progress_reader import MAX_REPORTED
from gpuwatch.agent.logs.scanning.scanner import Scanner
from gpuwatch.diagnose.training.first_nan import first_nans
from gpuwatch.fleet.logs.progress import FleetProgress
from gpuwatch.rules.compiling.compile import compiled
from gpuwatch.rules.load import load_packs
from gpuwatch.wire import Progress
from tests.agent.logs.scan_lines import NOW
from tests.packs import dialects


def scanner(speaker: Any = None, rules: RuleSet | None = None) -> Scanner:
    return Scanner(rules or dialects(), "/logs/a.log", itertools.count(1).__next__, speaker)


def reported(text: str, one: Scanner | None = None) -> list[dict[str, Any]]:
    one = one or scanner()
    one.feed(text.encode(), 0, NOW)
    one.end()
    return one.progress()


def line(step: int, loss: float = 2.5) -> str:
    return f"step: {step} loss: {loss} lr: 0.001 tps: 1,500\n"


def test_a_frame_has_the_newest_values_and_fits_the_wire() -> None:
    text = line(1) + "chatter\n" + line(2, 2.25)
    (frame,) = reported(text)
    decoded = msgspec.convert({"t": NOW, "seq": 1, "kind": "progress", **frame}, Progress)
    assert decoded.fields == {"step": 2, "loss": 2.25, "lr": 0.001, "tokens_per_s": 1500}
    assert text[decoded.offset :] == line(2, 2.25)
    assert (decoded.at, decoded.timed, decoded.backlog) == (NOW, False, False)


def test_nothing_is_reported_twice_and_a_tick_without_lines_tells_nothing() -> None:
    one = scanner()
    assert reported(line(1), one)
    assert one.progress() == []


def test_values_of_one_tick_come_together_though_lines_are_of_different_dialects() -> None:
    text = (
        "{'loss': 1.25, 'grad_norm': 0.5, 'learning_rate': 1e-05, 'epoch': 0.5}\n"
        " 25%|##5       | 30/120 [01:00<03:00,  2.00s/it]\n"
        "[Rank 0] rank=0 time (ms) | forward: 25.00 | backward: 75.00\n"
    )
    (frame,) = reported(text.replace("[Rank 0] rank=0 ", ""))
    assert frame["fields"]["loss"] == 1.25
    assert (frame["fields"]["step"], frame["fields"]["total_steps"]) == (30, 120)
    assert frame["phases_s"] == {"forward": 0.025, "backward": 0.075}
    assert frame["dialect"] == "progress.bar"


def test_a_block_of_lines_is_one_state() -> None:
    text = "[step=40/50000,epoch=1]\n    train/CrossEntropyLoss=5.25\n    optim/total_grad_norm=0.75\n"
    (frame,) = reported(text)
    assert frame["fields"] == {"step": 40, "total_steps": 50000, "epoch": 1, "loss": 5.25, "grad_norm": 0.75}


def test_a_bar_without_a_line_end_is_reported_after_a_quiet_while_with_its_last_state() -> None:
    one = scanner()
    one.feed(
        b"\r  0%|          | 0/12 [00:00<?, ?it/s]\r  8%|8         | 1/12 [00:20<03:40, 20.00s/it]", 0, NOW
    )
    one.quiet(NOW + 1)
    (frame,) = one.progress()
    assert (frame["fields"]["step"], frame["fields"]["eta_s"]) == (1, 220)


def test_ranks_of_one_file_are_distinguished() -> None:
    text = "".join(f"[rank{rank}]: {line(step, rank)}" for step in (1, 2) for rank in range(8))
    frames = reported(text)
    assert {frame["rank"]: (frame["fields"]["step"], frame["fields"]["loss"]) for frame in frames} == {
        rank: (2, rank) for rank in range(8)
    }


@pytest.mark.parametrize(
    "head",
    [
        "2026-11-22 20:17:57,577 INFO [rank{}] ",
        "2026-11-22 20:17:57 | INFO | rank {} | ",
        "[2026-11-22 20:17:57] [INFO] [trainer.py:88] [Rank {}] ",
        "INFO:train:[rank={}] ",
    ],
)
def test_the_head_of_a_logger_tells_the_rank(head: str) -> None:
    text = "".join(f"{head.format(rank)}{line(step, rank)}" for step in (1, 2) for rank in range(4))
    assert {frame["rank"]: frame["fields"]["step"] for frame in reported(text)} == dict.fromkeys(range(4), 2)


@pytest.mark.parametrize("cut", [(), (5,), (6,), (3, 6, 7)], ids=str)
@pytest.mark.parametrize("tick", [True, False])
def test_the_turn_of_a_loss_to_nan_is_reported_beside_the_newest_line(
    cut: tuple[int, ...], *, tick: bool
) -> None:
    """`cut`: steps at which a new read of the file begins; `tick`: whether what was read is reported then."""
    one, frames, at = scanner(), [], 0
    pieces: list[str] = []
    for step in range(1, 11):
        if step in cut and tick:
            frames += one.progress()
        text = "".join(
            f"[rank{rank}]: {line(step, math.nan if rank == 1 and step >= 6 else 2.5)}" for rank in range(3)
        )
        pieces = [text] if step in cut or step == 1 else [*pieces, text]
        if step + 1 in cut or step == 10:
            one.feed("".join(pieces).encode(), at, NOW)
            at += len("".join(pieces))
    one.end()
    frames += one.progress()
    steps = [frame["fields"]["step"] for frame in frames if frame["rank"] == 1]
    assert {5, 6, 10} <= set(steps)
    assert steps == sorted(steps)
    assert len(frames) <= 3 + 2 + 3 * len(cut)


def test_of_very_many_ranks_each_has_its_turn() -> None:
    one = scanner()
    ranks = 3 * MAX_REPORTED
    one.feed("".join(f"[rank{rank}]: {line(1)}" for rank in range(ranks)).encode(), 0, NOW)
    seen: set[int] = set()
    for _ in range(6):
        frames = one.progress()
        assert len(frames) <= MAX_REPORTED
        seen.update(frame["rank"] for frame in frames)
    assert seen == set(range(ranks))


def test_the_writer_of_the_file_is_the_rank_where_no_line_says_it() -> None:
    known = {"rank": 7, "rank_from": "process", "job": "j1"}
    (frame,) = reported(line(3), scanner(lambda: known))
    assert (frame["rank"], frame["rank_from"], frame["job"]) == (7, "process", "j1")


def test_what_stood_there_before_has_its_own_time_where_it_has_one() -> None:
    one = scanner()
    one.feed(("2025-06-15 12:00:00Z " + line(5)).encode(), 0, NOW, True)
    (frame,) = one.progress()
    assert (frame["at"], frame["timed"], frame["backlog"]) == (1749988800.0, True, True)


def test_of_a_record_glued_to_a_bar_the_bars_step_counts() -> None:
    bar = " 25%|##5       | 30/120 [01:00<03:00,  2.00s/it]"
    (frame,) = reported(
        bar + "[2031-01-02 03:04:05,006] [INFO] [timer.py:157:stop] 0/31, SamplesPerSec=64.5\n"
    )
    assert frame["fields"]["step"] == 30
    assert frame["fields"]["total_steps"] == 120
    assert frame["fields"]["samples_per_s"] == 64.5


def test_of_a_bar_whose_returns_were_lost_the_last_state_counts() -> None:
    states = [
        "Epoch 2:   0%|          | 0/120 [00:00<?, ?it/s]",
        "Epoch 2:  25%|##5       | 30/120 [01:00<03:00,  2.00s/it, loss=2.5, lr=[1e-3, 2e-3]]",
        "Epoch 2:  50%|#####     | 60/120 [02:00<02:00,  2.00s/it, loss=1.5, lr=[5e-4, 1e-3]]",
    ]
    for ends in ("Killed", "Evaluating:  50%|#####     | 5/10 [00:10<00:10,  2.00s/it]", ""):
        (frame,) = reported("".join(states) + ends + "\n")
        fields = frame["fields"]
        assert (fields["step"], fields["eta_s"], fields["loss"], fields["lr"]) == (60, 120, 1.5, 5e-4), ends
    (past_frame,) = past_of("".join(states) + "\n")
    assert [each.step for each in past_frame.past] == [60]


def test_a_long_line_of_bars_is_read_at_its_end() -> None:
    text = "".join(f" {n}%|##5       | {n}/100 [01:00<03:00,  2.00s/it]" for n in range(100))
    (frame,) = reported(text + "\n")
    assert frame["fields"]["step"] == 99


def test_a_record_between_two_bars_adds_to_them() -> None:
    bars = [f" {n}%|##5       | {n}/100 [01:00<03:00,  2.00s/it]" for n in (25, 26)]
    (frame,) = reported(bars[0] + "step=7, skipped=1, lr=[0.001], mom=[(0.9, 0.95)]" + bars[1] + "\n")
    assert (frame["fields"]["step"], frame["fields"]["skipped"]) == (26, 1)


def test_the_step_of_darknet_is_no_task_of_srun() -> None:
    (frame,) = reported("40: 5.25, 6.5 avg loss, 0.00025 rate, 0.5 seconds, 2560 images\n")
    assert (frame["fields"]["step"], frame["fields"]["loss"]) == (40, 5.25)


def test_a_rate_before_its_number_takes_no_other_number() -> None:
    fields = reported("step 5 loss 1.25 lr 0.001 tok/s 1200 mfu 0.25\n")[0]["fields"]
    assert fields == {"step": 5, "loss": 1.25, "lr": 0.001, "tokens_per_s": 1200, "mfu": 0.25}
    fields = reported("step 5 loss 1.25 speed 1200 tok/s 0.5 s/it\n")[0]["fields"]
    assert fields == {"step": 5, "loss": 1.25, "tokens_per_s": 1200, "step_time_s": 0.5}


def test_a_batch_of_an_epoch_gives_way_to_the_step() -> None:
    assert reported("epoch 2 batch 30/40 step 70/200 loss 1.25\n")[0]["fields"] == {
        "epoch": 2, "step": 70, "total_steps": 200, "loss": 1.25,
    }  # fmt: skip
    assert reported("epoch 2 batch 30/40 loss 1.25\n")[0]["fields"]["total_steps"] == 40


def test_a_mean_gives_way_to_the_steps_own_value_and_counts_where_there_is_none() -> None:
    assert reported("step 5 | avg_loss 2.5 | loss 1.25\n")[0]["fields"]["loss"] == 1.25
    assert reported("step 5 | avg_loss 2.5 | acc 0.5\n")[0]["fields"]["loss"] == 2.5


def test_a_unit_says_what_a_number_is_whatever_it_is_called() -> None:
    fields = reported("step 5 | loss 1.25 | speed (samples/sec) 12.5 | ips: 1.5k tokens/s | eta 1h30m\n")[0][
        "fields"
    ]
    assert fields["samples_per_s"] == 12.5
    assert fields["tokens_per_s"] == 1500
    assert fields["eta_s"] == 5400


def test_of_a_timer_across_ranks_the_slowest_one_counts() -> None:
    (frame,) = reported("    forward-backward ...........................: (250.50, 500.25)\n")
    assert frame["phases_s"] == {"forward_backward": 0.50025}


def test_a_loss_that_is_no_number_is_reported() -> None:
    (frame,) = reported("step 4 loss nan lr 0.1 grad_norm inf\n")
    assert frame["fields"] == {"step": 4, "loss": "nan", "lr": 0.1, "grad_norm": "inf"}


def test_evaluation_settings_and_other_bars_are_no_progress() -> None:
    text = (
        "validation loss at step 200: 1.25\n"
        "Loading checkpoint shards:  50%|#####     | 2/4 [00:10<00:10,  5.00s/it]\n"
        "learning_rate = 0.001  # max step size\n"
        "{'eval_loss': 1.25, 'eval_runtime': 2.5, 'epoch': 0.5}\n"
    )
    assert reported(text) == []


def test_a_flood_is_read_a_few_lines_a_tick_and_its_newest_is_reported() -> None:
    one, read = scanner(), []
    search = one._progress._search  # type: ignore[union-attr]
    reading = search.reading

    def counted(dialects: Any, text: str) -> Any:
        read.append(text)
        return reading(dialects, text)

    search.reading = counted  # type: ignore[method-assign]
    seed, at = random.Random(3), 0
    for first in range(0, 50_000, 1000):
        data = "".join(line(step, round(seed.random(), 3)) for step in range(first, first + 1000)).encode()
        one.feed(data, at, NOW)
        at += len(data)
    (frame,) = one.progress()
    assert frame["fields"]["step"] == 49_999
    assert len(read) <= latest_lines.MAX_WAITING_LINES


def test_a_shape_that_tells_nothing_is_not_read_again() -> None:
    rules = RuleSet(compiled(load_packs().dialects))
    one = scanner(rules=rules)
    prefilter = one._prefilter
    assert reported("the loss of step 3 is unknown to batch 9, too\n", one) == []
    assert prefilter._progress_shapes == {}
    assert reported("the loss of step 4 is unknown to batch 8, too\n", one) == []


def test_a_step_is_read_though_so_many_shapes_are_new_that_room_is_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(prefilter_module, "MAX_SHAPES", 50)
    one = scanner(rules=RuleSet(compiled(load_packs().dialects)))
    assert [each["fields"]["step"] for each in reported("step 3 loss 2.5\n", one)] == [3]
    many = "".join(f"{'ab' * n}\n" for n in range(1, 60))
    assert [each["fields"]["step"] for each in reported(f"{many}step 4 loss 2.4\n", one)] == [4]


def test_a_pattern_that_this_python_cannot_use_suspends_its_dialect_alone() -> None:
    plain = compiled(load_packs().dialects)
    broken = {
        "id": "my.trainer",
        "kind": "progress",
        "match": ["step (?P<step>"],
        "literals": [{"text": "step"}],
    }
    rules = RuleSet([broken, *plain])
    (frame,) = reported(line(3), scanner(rules=rules))
    assert frame["fields"]["step"] == 3
    assert list(rules.suspended) == ["my.trainer"]


def past_of(text: str, one: Scanner | None = None, piece: int = 4096) -> list[Progress]:
    """The past of a file that is read as a backlog, piece by piece."""
    one = one or scanner()
    data = text.encode()
    for at in range(0, len(data), piece):
        one.feed(data[at : at + piece], at, NOW, True)
        one.progress()
    frames = one.past(NOW)
    assert one.past(NOW) == [], "it is reported once"
    one.feed(line(10**6).encode(), len(data), NOW, True)
    assert one.past(NOW) == []
    return [msgspec.convert({"t": NOW, "seq": 1, "kind": "progress", **frame}, Progress) for frame in frames]


def test_the_past_is_reported_thinned_with_its_ends() -> None:
    text = "".join(line(step, 9.0 - step / 1000) + "chatter\n" for step in range(5000))
    (frame,) = past_of(text)
    steps = [each.step for each in frame.past]
    assert 100 <= len(steps) <= HISTORY_STEPS
    assert steps == sorted(set(steps))
    assert (steps[0], steps[-1]) == (0, 4999)
    assert max(later - before for before, later in itertools.pairwise(steps)) <= 64
    assert all(each.loss == 9.0 - each.step / 1000 and each.tokens_per_s == 1500 for each in frame.past)
    assert (frame.backlog, frame.fields, frame.past[0].at) == (True, {}, None)


@pytest.mark.parametrize(
    "form",
    [
        "[rank{rank}]: step {step}/9000 | loss {loss} | grad_norm 1.0\n",
        "rank {rank} step {step} loss {loss}\n",
        '{{"step": {step}, "loss": {loss}, "grad_norm": 1.0, "rank": {rank}}}\n',
    ],
)
def test_the_past_keeps_where_the_loss_of_each_rank_turns_to_nan(form: str) -> None:
    began = {0: 1250, 1: 1249, 2: 1147, 3: 1251}
    json = form.startswith("{")
    text = "".join(
        form.format(rank=rank, step=step, loss=("NaN" if json else "nan") if step >= began[rank] else 2.5)
        for step in range(1, 4000)
        for rank in began
    )
    turns = {}
    for frame in past_of(text):
        assert len(frame.past) <= HISTORY_STEPS
        reported = [(each.step, float(each.loss)) for each in frame.past if each.loss is not None]
        first = next(at for at, (_, loss) in enumerate(reported) if math.isnan(loss))
        turns[frame.rank] = (reported[first - 1][0], reported[first][0])
    assert turns == {rank: (step - 1, step) for rank, step in began.items()}


@pytest.mark.parametrize("lag", [0, 6])
@pytest.mark.parametrize("steps", [80, 4000])
def test_ranks_that_share_a_file_without_numbers_hide_no_turn_to_nan(lag: int, steps: int) -> None:
    began = (50, 51)
    text = "".join(
        f"step {step} loss {'nan' if step >= began[rank] else 2.5}\n"
        for at in range(1, steps)
        for rank, step in ((0, at), (1, at - lag))
        if step > 0
    )
    known = FleetProgress()
    for frame in past_of(text):
        known.take("n1", frame, frame.t, 1.0)
    for writer in known.writers.values():
        writer.stepped_at = 1.0
    (first,) = first_nans(known.writers.values()).values()
    assert first.sign.step == 50


def test_a_short_past_is_reported_whole_with_the_lines_own_times() -> None:
    text = "".join(f"2025-06-15 12:00:{step:02}Z " + line(step) for step in range(30))
    (frame,) = past_of(text)
    assert [(each.step, each.at) for each in frame.past] == [(n, 1749988800.0 + n) for n in range(30)]
    assert (frame.at, frame.timed) == (1749988829.0, True)


def test_each_rank_of_a_file_has_its_own_past() -> None:
    text = "".join(f"[rank{rank}]: {line(step, rank)}" for step in range(40) for rank in range(4))
    frames = past_of(text)
    assert {frame.rank: {each.loss for each in frame.past} for frame in frames} == {r: {r} for r in range(4)}
    assert all(len(frame.past) > 20 for frame in frames)


def test_a_loss_without_a_step_is_of_the_bar_before_it_and_an_evaluation_s_bar_is_none() -> None:
    text = ""
    for step in range(10, 310, 10):
        text += f" {step // 10}%|##5       | {step}/1000 [01:00<03:00,  2.00s/it]\n"
        text += f"{{'loss': {1 + step}, 'grad_norm': 0.5, 'learning_rate': 1e-05, 'epoch': 0.5}}\n"
        if step % 100 == 0:
            text += " 12%|#         | 3/25 [00:01<00:09,  2.00s/it]\n"
    (frame,) = past_of(text)
    assert [(each.step, each.loss) for each in frame.past] == [(n, 1 + n) for n in range(10, 310, 10)]
    assert {each.step_time_s for each in frame.past} == {2.0}


def test_the_past_of_a_file_of_many_shapes_is_bounded() -> None:
    kept = history_lines.Past()
    shapes = [b"step loss " + bytes([97 + n % 26, 97 + n // 26 % 26]) for n in range(20_000)]
    dialects: dict[bytes, list[Any]] = {shape: [] for shape in shapes}
    kept.take([shape + b"1" for shape in shapes], shapes, dialects)
    assert len(kept.lines()) <= history_lines.KEPT_IN_ALL + history_lines.MAX_SHAPES
    numbers = [row.number for row, _ in kept.lines()]
    assert numbers == sorted(numbers)


def test_numbers_without_measure_cost_no_dialect_and_no_frame() -> None:
    """One garbled line would suspend its dialect on the whole node, or make a frame that is refused."""
    rules = RuleSet(compiled(load_packs().dialects))
    one = scanner(rules=rules)
    nines = "9" * 500
    for text in ("step: 5/1e999 loss: 2.1", f"step: 6/{nines} loss: 2.1", f"step: 7 loss: {nines}"):
        for frame in reported(f"{text} eta: {nines}h 5m 1s step_time: 1e400 ms lr: 1e-999\n", one):
            assert all(abs(value) < 1e18 for value in frame["fields"].values()), frame
    (frame,) = reported(line(8), one)
    assert frame["fields"]["step"] == 8
    assert rules.suspended == {}
