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
