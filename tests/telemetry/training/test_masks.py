"""Masks of a batch: document 000, line 128."""

from __future__ import annotations

from typing import Any

import pytest

from gpuwatch.telemetry import TelemetryTracker
from gpuwatch.telemetry.training.masks import check_masks
from tests.parts import need_torch

PAD = 0
TOKENS = [[5, 6, 7, 8], [5, 6, PAD, PAD]]
VISIBLE = [[1, 1, 1, 1], [1, 1, 0, 0]]
RIGHT = [[5, 6, 7, 8], [5, 6, -100, -100]]


@pytest.fixture(autouse=True)
def _torch() -> None:
    need_torch()
    import torch  # noqa: F401, PLC0415 - loaded by these tests alone


def test_a_right_batch_has_no_problem() -> None:
    report = check_masks(RIGHT, VISIBLE, TOKENS, pad_id=PAD)
    assert (report.counted, report.problems, report.are_shifted) == (6, [], False)


@pytest.mark.parametrize(
    ("labels", "mask", "found"),
    [
        (TOKENS, VISIBLE, {"padding_in_loss": 2}),
        (RIGHT, None, {"visible_padding": 2}),
        (RIGHT, [[1] * 4] * 2, {"visible_padding": 2}),
        ([RIGHT[0], [-100] * 4], VISIBLE, {"rows_without_labels": (1,)}),
        ([[-100] * 4] * 2, VISIBLE, {"counted": 0, "rows_without_labels": (0, 1)}),
    ],
)
def test_what_a_mask_does_wrong_is_named(
    labels: Any, mask: Any, found: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    tracker = TelemetryTracker(logs_dir=None)
    warned: list[str] = []
    monkeypatch.setattr(tracker, "warn", lambda name, _text: warned.append(name))
    report = tracker.check_masks(labels, mask, TOKENS, pad_id=PAD)
    assert {name: getattr(report, name) for name in found} == found
    assert warned == ["data.mask"]
    assert len(report.problems) == 1


def test_labels_that_are_shifted_already_are_reported() -> None:
    shifted = [[6, 7, 8, -100], [6, -100, -100, -100]]
    report = check_masks(shifted, VISIBLE, TOKENS, pad_id=PAD)
    assert report.are_shifted
    assert report.problems == []


def test_shapes_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match=r"\(2, 4\), \(1, 4\)"):
        check_masks(RIGHT, [[1, 1, 1, 1]])
    with pytest.raises(ValueError, match=r"\(4,\)"):
        check_masks(RIGHT[0])
