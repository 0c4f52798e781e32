"""Secrets of configurations whose value does not stand on the line of its name."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuwatch.report.evidence.log_files import MAX_LINE_CHARS, masked_text
from gpuwatch.report.evidence.masked_lines import masked_lines

YAML = """password: SECRETAA1
key: >
  -----BEGIN PRIVATE KEY-----
  SECRETBBBBBBBBBBBB
  -----END PRIVATE KEY-----
wandb:
  api_key:
    - SECRETCC6
  project: kept-project
args:
  - --password
  - SECRETDD7
  - --epochs
  - kept-7
learning_rate: 0.1"""
JSON = """{"db":{"password":
"SECRETAA7"},"token" :
  "SECRETBB8", "dbPassword":"SECRETCC9","args":["--password","SECRETDD1","--lr","kept-lr"],
 "name": "kept-name"}"""
TOML = '''password = """
SECRETAA2
"""
[kept-section]
huggingface_token = 'SECRETBB3\''''


LINES = (
    "DB_PASSWORD: &t\n  {v}\nkept: kept", "? DB_PASSWORD\n: {v}\nkept: kept",
    'api_key: "abcd\\\n  {v}"\nkept: kept', "token = '''{v}\n{v}'''\nkept = 'kept'",
    "[db_password]\nvalue = {v}\n[kept]\nvalue = kept",
    "[[env]]\nname = 'DB_PASSWORD'\nvalue = '{v}'\n[[env]]\nname = 'X'\nvalue = 'kept'",
    'variable "db_password" {{\n  default = "{v}"\n}}\nvariable "kept" {{\n  default = "kept"\n}}',
    "API_KEY=$(cat <<EOF\n{v}\nEOF\n)\nX=kept", "api_key = <<EOH\n{v}\nEOH\nx = kept",
    "args=(\n--api-key\n{v}\n--lr kept)", "train --api-key \\\n  {v} \\\n  --kept",
    "read -r API_KEY <<< '{v}'\nkept", "DB_PASSWORD,{v}\nkept,kept",
    '"DB_PASSWORD=two {v} words {v}"\nkept',
    "helm x --set 'env[0].name=API_KEY' --set 'env[0].value={v}' --set kept",
    "declare -A env=(\n  [API_KEY]={v}\n  [KEPT]=kept)",
    "- name: API_KEY\n  value: {v}\n- name: X\n  value: kept",
)  # fmt: skip


@pytest.mark.parametrize("text", LINES)
def test_a_value_apart_from_its_name_is_masked_in_any_text(text: str) -> None:
    for value in ("Zx9tQ4wLm27RkP", "hunter2x9"):
        shown = "\n".join(masked_lines(text.format(v=value).splitlines()))
        assert value not in shown, shown
        assert shown.count("kept") == text.count("kept"), shown


@pytest.mark.parametrize("text", [YAML, JSON, TOML], ids=["yaml", "json", "toml"])
def test_no_value_of_a_secret_is_left_and_nothing_else_is_lost(text: str) -> None:
    shown = "\n".join(masked_lines(text.splitlines()))
    assert "SECRET" not in shown, shown
    assert shown.count("kept") == text.count("kept"), shown
    assert len(shown.splitlines()) == len(text.splitlines())


def test_a_line_without_an_end_is_read_in_bounded_pieces(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    with path.open("wb") as file:
        file.write(b"first\n")
        file.truncate(16 << 20)
        file.seek(16 << 20)
        file.write(b"\nlast\n")
    lines = list(masked_text(tmp_path, path.name))
    assert [lines[0], lines[2]] == ["first\n", "last\n"]
    assert len(lines[1]) < 2 * MAX_LINE_CHARS
