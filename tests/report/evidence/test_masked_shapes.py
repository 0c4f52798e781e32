"""A bundle masks by the structure of a document and by its lines: no secret passes either of them."""

from __future__ import annotations

import string

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuwatch.agent.masking.secret_names import SECRET_KEYS
from gpuwatch.report.evidence.document_secrets import without_secrets
from gpuwatch.report.evidence.masked_lines import masked_lines

YAML = (
    "{n}: {v}", '{n}: "{v}"', "{n}: '{v}'", "{n}: |\n  {v}", "{n}: >-\n  {v}", "{n}: !!str {v}",
    "{n}: &a {v}",
    "{n}: # why\n  {v}", "{n}:\n  {v}", "? {n}\n: {v}", "{n}: [{v}, {v}]", "{n}:\n  - {v}\n  - {v}",
    "{n}:\n  value: {v}", '{n}: "x\\\n  {v}"', "a: {{b: {{{n}: {v}}}}}", "spec:\n  - {n}: {v}\n    x: 1",
    "- name: {n}\n  value: {v}", '- name: {n}\n  value: "{v}"', "- value: {v}\n  name: {n}",
    "env: {{name: {n}, value: {v}}}", "env: {{value: {v}, name: {n}}}",
    'args: ["--{o}", "{v}"]', "args:\n- --{o}\n- {v}", "args:\n- --{o}={v}",
    "env:\n- {n}={v}", "cmd: tool --{o} {v} run", "cmd: export {n}={v}; run",
)  # fmt: skip
JSON = (
    '{{"{n}": "{v}"}}', '{{"{n}":"{v}"}}', '{{\n  "{n}":\n    "{v}"\n}}', '{{"{n}": ["{v}", "{v}"]}}',
    '{{"name": "{n}", "value": "{v}"}}', '{{\n  "name": "{n}",\n  "value": "{v}"\n}}',
    '{{\n  "value": "{v}",\n  "name": "{n}"\n}}', '{{"{n}": {{"value": "{v}"}}}}',
    '{{\n"{n}": {{\n"a": {{"b": 1}},\n"value": "{v}"\n}}\n}}', '{{"a":{{"b":[{{"{n}":"{v}"}}]}}}}',
    '{{"args": ["--{o}", "{v}"]}}', '{{"args": [\n"--{o}",\n"{v}"\n]}}', '{{"args": ["--{o}={v}"]}}',
    '{{"env": ["{n}={v}"]}}', '{{"cmd": "tool --{o} {v} run"}}',
)  # fmt: skip
SHAPES = [*((shape, False) for shape in YAML), *((shape, True) for shape in JSON)]
OWNERS = sorted(SECRET_KEYS)
NAMES = st.builds(
    lambda owner, end, style: style.format(owner, end),
    st.sampled_from(OWNERS),
    st.sampled_from(("password", "secret", "token", "key", "pass", "api_key", "credentials", "apikey")),
    st.sampled_from(("{}_{}", "{}-{}", "X_{}_{}", "{}.{}")),
)
VALUES = st.builds(
    lambda text, letter, digit: f"{letter}{text}{digit}",
    st.text(string.ascii_letters + string.digits + "+/-_.", min_size=8, max_size=30),
    st.sampled_from("qXz"),
    st.sampled_from("479"),
)


@pytest.mark.parametrize(("shape", "is_json"), SHAPES)
@settings(max_examples=8, deadline=None)
@given(name=NAMES, value=VALUES)
def test_no_secret_passes_the_structure_or_the_lines(
    shape: str, is_json: bool, name: str, value: str
) -> None:
    option = name.lower().replace("_", "-").replace(".", "-")
    text = shape.format(n=name, v=value, o=option)
    masked, is_whole = without_secrets(text, is_json=is_json)
    by_structure = "\n".join(masked_lines(masked.split("\n"), is_masked=True))
    by_lines = "\n".join(masked_lines(text.split("\n")))
    assert is_whole
    assert value not in by_structure
    assert value not in by_lines
