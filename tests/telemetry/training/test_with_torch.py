"""Models and gradients of torch: document 000, lines 35 to 47 and 130, document 001, line 47."""

from __future__ import annotations

import math
from typing import Any

import pytest

from gpuwatch.telemetry.training.consistency import different_sums, tensor_checksum
from gpuwatch.telemetry.training.gradients import GradientHistory, gradient_report
from gpuwatch.telemetry.training.model_facts import (
    model_facts,
    model_memory_mb,
    model_summary,
    parameter_table,
    parameter_table_text,
)
from tests.parts import need_torch


@pytest.fixture
def torch() -> Any:
    need_torch()
    import torch  # noqa: PLC0415 - loaded by this test alone

    return torch


@pytest.fixture
def model(torch: Any) -> Any:
    torch.manual_seed(0)
    layers = torch.nn.Sequential(torch.nn.Linear(8, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2))
    layers[0].bias.requires_grad = False
    return layers


def test_the_parameters_of_a_model(model: Any) -> None:
    rows = [(row.name, row.shape, row.dtype, row.count, row.is_trainable) for row in parameter_table(model)]
    assert rows == [
        ("0.weight", (4, 8), "float32", 32, True),
        ("0.bias", (4,), "float32", 4, False),
        ("2.weight", (2, 4), "float32", 8, True),
        ("2.bias", (2,), "float32", 2, True),
    ]
    text = parameter_table_text(model, most=2).splitlines()
    assert "4x8" in text[0]
    assert "frozen" in text[1]
    assert "46" in text[-1]
    assert "Linear(in_features=8" in model_summary(model)


def test_the_name_of_a_model_is_that_of_what_is_trained(model: Any, torch: Any) -> None:
    """One rank trains the module, several its DDP: that is no other model (document 002, line 188)."""
    parallel = torch.nn.DataParallel(model)
    assert model_facts(parallel)["name"] == model_facts(torch.compile(parallel))["name"] == "Sequential"
    assert model_facts(parallel)["parameters"] == 46


def test_the_memory_is_numbers_times_bytes(model: Any, torch: Any) -> None:
    assert model_memory_mb(model) == model_memory_mb(model, "fp32") == pytest.approx(46 * 4 / 1e6)
    assert model_memory_mb(model, torch.bfloat16) == pytest.approx(46 * 2 / 1e6)
    with pytest.raises(ValueError, match="float32"):
        model_memory_mb(model, "complex9")
    assert model_facts(model) == {
        "name": "Sequential", "parameters": 46, "trainable_parameters": 42, "dtype": "float32",
        "memory_bytes": 184,
    }  # fmt: skip


def test_the_norm_is_that_of_torch(model: Any, torch: Any) -> None:
    model(torch.ones(3, 8)).sum().backward()
    report = gradient_report(model, per_layer=True)
    gradients = [each.grad for each in model.parameters() if each.grad is not None]
    assert report.norm == pytest.approx(float(torch.nn.utils.get_total_norm(gradients)))
    assert list(report.per_layer) == ["0.weight", "2.weight", "2.bias"]
    assert report.per_layer["2.bias"] == pytest.approx(math.sqrt(2 * 9))
    assert (report.non_finite, report.without_gradient) == ([], [])


def test_parameters_that_no_gradient_reaches(model: Any, torch: Any) -> None:
    model[2](torch.ones(3, 4)).sum().backward()
    assert gradient_report(model).without_gradient == ["0.weight"]
    assert gradient_report(torch.nn.Linear(2, 2)).norm is None


@pytest.mark.parametrize(("value", "norm"), [(math.nan, "nan"), (math.inf, "inf")])
def test_a_gradient_of_no_number_names_its_parameter(model: Any, torch: Any, value: float, norm: str) -> None:
    model(torch.ones(3, 8)).sum().backward()
    model[2].bias.grad[1] = value
    report = gradient_report(model)
    assert (str(report.norm), report.non_finite) == (norm, ["2.bias"])


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int64", "bool", "uint8"])
def test_a_checksum_follows_the_bits(torch: Any, dtype: str) -> None:
    one = torch.arange(0, 60).reshape(12, 5).to(getattr(torch, dtype))
    other = one.clone()
    assert tensor_checksum(one) == tensor_checksum(other)
    swapped = one.clone()
    swapped[0, 0], swapped[5, 1] = one[5, 1].clone(), one[0, 0].clone()
    assert tensor_checksum(one) != tensor_checksum(swapped)
    assert dtype == "bool" or tensor_checksum(one.t()) != tensor_checksum(one)
    assert tensor_checksum(one[:0]) == tensor_checksum(one[:0].clone())


def test_nan_equals_itself_in_a_checksum(torch: Any) -> None:
    one = torch.tensor([math.nan, 0.0])
    assert tensor_checksum(one) == tensor_checksum(one.clone())
    assert tensor_checksum(torch.tensor(1.0)) != tensor_checksum(torch.tensor(-1.0))


@pytest.mark.parametrize(
    ("sums", "ranks"),
    [([1, 1, 2, 1], [2]), ([1, 2], [1]), ([1, 2, 3], [1, 2]), ([1, 1, 1], []), ([None, 5, 5], [0])],
)
def test_ranks_that_differ_from_most(sums: list[int | None], ranks: list[int]) -> None:
    found = different_sums([{"w": each} for each in sums])
    assert [each.ranks for each in found] == ([ranks] if ranks else [])


def test_a_norm_explodes_or_vanishes_against_its_own_past() -> None:
    history = GradientHistory()
    assert history.judge(1e9) == (False, False), "nothing to compare with"
    usual = GradientHistory()
    for _ in range(16):
        assert usual.judge(2.0) == (False, False)
    assert usual.judge(19.0) == (False, False)
    assert usual.judge(21.0) == (True, False)
    assert usual.judge(1e-9) == (False, True)
    assert usual.judge(math.nan) == (False, False)
