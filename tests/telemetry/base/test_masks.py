"""Secrets that a configuration, an environment or a command line holds."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpuwatch.telemetry.base.json_files import jsonable, mask_arguments, mask_secrets, write_json


@pytest.mark.parametrize(
    "secret",
    [
        {"hf_token": "x1"}, {"hub": {"api_key": "x1"}}, {"PASSWORD": "x1"}, {"SLURM_JWT": "x1"},
        {"token": "x1"},
        {"url": "https://me:x1@example.org/"}, {"note": "use hf_x1x1x1x1x1x1x1x1"}, {"wandb.api-key": "x1"},
    ],
)  # fmt: skip
def test_a_secret_is_masked(secret: dict[str, object]) -> None:
    assert "x1" not in json.dumps(mask_secrets(secret))


@pytest.mark.parametrize(
    "name", ["tokenizer", "max_tokens", "pad_token", "num_key_value_heads", "key_dim", "passes", "author"]
)
def test_what_only_sounds_like_one_stays(name: str) -> None:
    assert mask_secrets({name: "value"}) == {name: "value"}


def test_a_command_line() -> None:
    argv = ["train.py", "--hf-token", "x1", "--api_key=x1", "--lr", "1e-4", "WANDB_API_KEY=x1", "tokens=5"]
    assert mask_arguments(argv) == [
        "train.py", "--hf-token", "***", "--api_key=***", "--lr", "1e-4", "WANDB_API_KEY=***", "tokens=5",
    ]  # fmt: skip


def test_numbers_without_a_form_in_json_are_texts(tmp_path: Path) -> None:
    value = {"loss": float("nan"), "norm": float("-inf"), 3: {1}}
    assert jsonable(value) == {"loss": "nan", "norm": "-inf", "3": [1]}
    write_json(tmp_path / "x.json", {"path": tmp_path})
    assert json.loads((tmp_path / "x.json").read_text()) == {"path": str(tmp_path)}
    assert [path.name for path in tmp_path.iterdir()] == ["x.json"]


def test_a_configuration_that_holds_itself(tmp_path: Path) -> None:
    configuration: dict[str, object] = {"lr": 0.1}
    configuration["again"] = [configuration]
    write_json(tmp_path / "x.json", mask_secrets(configuration))
    assert json.loads((tmp_path / "x.json").read_text())["again"][0]["lr"] == 0.1
    assert jsonable(configuration)["lr"] == 0.1
