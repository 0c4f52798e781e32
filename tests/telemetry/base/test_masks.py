"""Secrets that a configuration, an environment or a command line holds."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from gpuwatch.telemetry.base.json_files import jsonable, write_json
from gpuwatch.telemetry.base.masks import mask_arguments, mask_secrets, mask_text


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


SECRET = "SECRETabc1"  # noqa: S105 - plays one
NAMES = (
    "huggingface_token", "slack_token", "bot_token", "mlflow_tracking_token", "wandbApiKey", "clientSecret",
    "dbPassword",
    "sshkey", "accessToken", "refreshToken", "aws_secret_access_key", "encryption_passphrase", "smtp_pass",
)  # fmt: skip
TEXTS = (
    "Authorization: Bearer {}", "curl -H 'Authorization: Basic {}' x", "mysql -u root -p{} db",
    "train.py --api-key {}",
    "--dbPassword={} --lr 1", "export SLACK_TOKEN={} X=1", "postgres://u:{}@h/db",
    "https://x/y?sv=2020&sig={}%3D",
    "https://hooks.slack.com/services/T000/B000/{}", "-----BEGIN OPENSSH PRIVATE KEY-----\n{}\n-----END",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.{}abcdefghij", "ghp_{}abcdefghijklmnopqr",
    "sk-proj-{}abcdefgh",
    "-u me:{} https://h", "password is {}", "{{'auth': ('u', '{}')}}", "docker login -u u -p {} reg",
    "echo {} | docker login --password-stdin", '$env:API_KEY="{}"', "setenv API_KEY {}",
    "machine h login u password {}", "<password>{}</password>", "PASSWORD\u00a0=\u00a0{}",
    "pass\U0001d173word={}", "pass\u034fword={}",
    "- name: DB_PASSWORD\n  value: {}", '{{"name": "HF_TOKEN", "value": "{}"}}', "os.putenv('API_KEY', '{}')",
    '{{"key": "HF_TOKEN", "value": {{"stringValue": "{}"}}}}', "ParameterKey=DB_PASS,ParameterValue={}",
    "set -x API_KEY {}", "DB_PASSWORD -> {}", '[["DB_PASSWORD", "{}"]]',
    "{{'api_key': '{}', 'lr': 1}}", '{{"client_secret": "{}"}}', "Namespace(lr=1, db_password='{}')",
)  # fmt: skip


def styles(name: str) -> list[str]:
    """`a_b`, `A_B`, `a-b`, `aB`, `AB`, `x.a_b`."""
    words = re.findall("[A-Z]?[a-z0-9]+", name)
    camel = "".join(word.capitalize() for word in words)
    low = [word.lower() for word in words]
    return [
        "_".join(low),
        "_".join(low).upper(),
        "-".join(low),
        camel,
        camel[0].lower() + camel[1:],
        f"x.{name}",
    ]


@pytest.mark.parametrize("name", NAMES)
def test_a_name_in_any_style_hides_its_value(name: str) -> None:
    for each in styles(name):
        configuration = {
            "a": [{each: SECRET}],
            "argv": ["train.py", f"--{each}", SECRET, f"--{each}={SECRET}"],
        }
        text = {
            "note": f"{each}={SECRET}",
            "object": Path(f"{each}='{SECRET}'"),
            "cmd": f"x --{each} {SECRET}",
        }
        for one in (configuration, text, {each: SECRET.encode()}, {each: Path(SECRET)}):
            assert SECRET not in json.dumps(jsonable(mask_secrets(one))), (each, one)


@pytest.mark.parametrize("text", TEXTS)
def test_a_secret_in_a_text_is_masked(text: str) -> None:
    assert SECRET not in mask_text(text.format(SECRET))
    assert SECRET not in json.dumps(mask_secrets({"x": {"y": [text.format(SECRET), 1]}}))


@pytest.mark.parametrize(
    "held",
    [
        {"secrets": {"a": {"b": SECRET}}}, {"passwords": {"db": SECRET}}, {"creds": [SECRET, SECRET]},
        {"key": {"value": SECRET}}, {"db_password": {"prod": [{"x": SECRET}]}},
        {"env": [{"name": "DB_PASSWORD", "value": SECRET}]}, {"env": [{"Value": SECRET, "Name": "HF_TOKEN"}]},
        [{"ParameterKey": "api_key", "ParameterValue": SECRET}], {"k": {"kind": "secret", "value": SECRET}},
        [{"name": "db_pass", "value": {"x": SECRET}}], {"tokens": {"hf": SECRET}}, [["DB_PASSWORD", SECRET]],
        {"keys": {"openai": {"value": SECRET}}}, {"db": {"pass": {"v": {"deep": [SECRET]}}}},
        {"conn": f"Server=x;Pwd={SECRET};"}, ("run", "-p", "Zx9tQ4wLm27RkP" + SECRET), [("HF_TOKEN", SECRET)],
    ],
)  # fmt: skip
def test_every_text_below_the_name_of_a_secret_is_masked(held: object) -> None:
    assert SECRET not in json.dumps(mask_secrets(held))
    kept: dict[str, object] = {"token": {"type": "bpe", "count": 3}, "secrets": {"rotated_days": 90}}
    kept["env"] = [{"name": "RANK", "value": "x1"}, {"name": "eos_token", "value": "<s>1"}]
    kept["tokens"] = {"total": "7b1", "eos": "</s>"}
    kept["run"] = ["srun", "-p", "a100-80gb", "-p", "8080:80", "-p", "gpupartition2"]
    kept["keys"] = ["token", "layer.1"]
    assert mask_secrets(kept) == kept


PLAIN = (
    "docker run -u 1000:1000 https://h", "<name>llama</name>", "the token is here",
    "| next token | accuracy |", "tokens per second: 4096", "--max-tokens 4096 --tokenizer meta/llama-3",
    "pad_token='<pad>'",
    "password: None", "PWD=/home/user", "key=value sort_key=length cache_key=fa0b1c2d3e4f",
    "secret = $SECRET",
    "tcp://10.0.0.1:29500/path@x and s3://bucket/path@v2", "add_bos_token=True, token=None",
    "forward_pass=12.3ms",
    "commit 0123456789abcdef0123456789abcdef01234567", "num_key_value_heads=8", "wandb login required",
)  # fmt: skip


@pytest.mark.parametrize("text", PLAIN)
def test_a_text_without_a_secret_stays(text: str) -> None:
    assert mask_text(text) == text


def test_values_of_any_kind_have_a_form() -> None:
    class Broken:
        def __str__(self) -> str:
            raise KeyError("x")

    values = [10**400, -(10**6000), 1e308, float("inf"), Broken(), b"\xff", "\ud800"]
    assert json.loads(json.dumps(jsonable(mask_secrets(values))))[:2] == ["inf", "-inf"]


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
