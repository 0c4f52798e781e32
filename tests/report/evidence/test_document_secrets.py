"""Secrets of YAML and JSON whose name and value stand apart."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest
import yaml

from gpuwatch.report.evidence.log_files import MAX_DOCUMENT_CHARS, masked_text

NAMES = ("DB_PASSWORD", "HF_TOKEN", "apiKey")
VALUES = ("Zx9tQ4wLm27RkP", "hunter2", "correct-horse", "p@ss:w0rd!", "12345678")
KEPT = "\n- name: KEPT\n  value: kept-1\n"
YAML = (
    "- name: {n}\n  value: {v}",
    '- name: "{n}"\n  value: "{v}"',
    "- value: {v}\n  name: {n}",
    "- name: {n}\n  value: |-\n    {v}\n    {v}",
    "- name: {n}\n  value: >\n    {v}",
    "- name: {n}\n  value:\n    {v}",
    "- name: {n}\n  value: &pw {v}",
    "- name: {n}\n  value: !!str {v}",
    "- {{name: {n}, value: {v}}}",
    "- {{name: {n},\n   value: {v}}}",
    "- name: {n}\n  description: it\n  type: string\n  required: true\n  value: {v}",
    "- name: {n}\n  # 1\n  # 2\n  # 3\n  # 4\n  # 5\n  # 6\n  # 7\n  # 8\n  # 9\n  value: {v}",
    "- ParameterKey: {n}\n  ParameterValue: {v}",
    "- Key: {n}\n  Value: {v}",
    "- OptionName: {n}\n  Value: {v}",
    "- name: {n}\n  secureValue: {v}",
    "- env: {n}\n  val: {v}",
    "- kind: Secret\n  stringData:\n    a.txt: {v}",
    "- kind: Secret\n  data: {{x: {v}, y: {v}}}",
    "- {n}: &t\n    {v}",
    "- {n}: !!str\n    {v}",
    "- {n}: !!str |-\n    {v}",
    "- ? {n}\n  : {v}",
    "- ? {n}\n  :\n    {v}",
    "- {n}:  # it\n    {v}",
    "- {n}:\n    # it\n    {v}",
    '- {n}: "abcd\\\n    {v}"',
    "- {n}: abcd\n    {v}",
    "- {n}: 'abcd\n    {v}'",
    "- {n}:\n  - {v}\n  - {v}",
    "- {n}: [\n  {v},\n  {v}\n  ]",
    "- {n}:\n    desc: null\n    value: {v}",
    "- - --{n}\n  - {v}",
    "- &p {v}\n- {n}: *p",
    "- api:\n    key: {v}",
    "- tokens:\n    hf: {v}",
)
JSON = (
    '{{"name": "{n}",\n"value": "{v}"}}',
    '{{"value": "{v}",\n\n"name": "{n}"}}',
    '{{"Name":"{n}",\n"Value":\n"{v}"}}',
    '{{"name"\n:\n"{n}"\n,\n"value"\n:\n"{v}"\n}}',
    '{{"ParameterKey": "{n}",\n"ParameterValue": "{v}"}}',
    '{{"key": "{n}",\n"value": {{\n"stringValue": "{v}"}}}}',
    '{{"{n}": [\n"{v}",\n"{v}"]}}',
    '{{"{n}":\n{{"x":\n"{v}"}}}}',
    '["--{n}",\n"{v}"]',
    '{{"name": "\\u0064b_password",\n"value": "{v}"}}',
    '{{"environment": [{{"name": "{n}", "secret": true,\n"value": "{v}"}}]}}',
    '{{"k": {{"kind": "secret",\n"value": "{v}"}}}}',
)
PLAIN = (
    "- name: RANK\n  value: kept-12",
    "- name: DB_PASSWORD\n  valueFrom:\n    secretKeyRef: {name: db, key: password}",
    "- name: DB_PASSWORD\n  value: $(FROM_SECRET)",
    "- name: eos_token\n  value: </s>",
    "- kind: ConfigMap\n  data: {a: b1}",
    "- tokens: 131072\n- max_token_count: 4096\n- tokenizer: {type: bpe}",
    "- password: null",
    "- token: <pad>",
    "- secrets: {rotated_days: 90}\n- exclude: [token, loss]",
)
ALIASES = "y{0}: &y{0} {{a: *y{1}, b: *y{1}, password: *y{1}}}\n"


def shown(folder: Path, name: str, text: str) -> str:
    (folder / name).write_text(text, encoding="utf-8")
    return "".join(masked_text(folder, name))


@pytest.mark.parametrize("form", YAML)
def test_no_secret_of_yaml_is_left(form: str, tmp_path: Path) -> None:
    for name, value in itertools.product(NAMES, VALUES):
        text = form.format(n=name, v=value) + KEPT
        found = shown(tmp_path, "values.yaml", text)
        assert value not in found, text
        assert "kept-1" in found, found
        assert len(found.splitlines()) == len(text.splitlines())


@pytest.mark.parametrize("form", JSON)
def test_no_secret_of_json_is_left(form: str, tmp_path: Path) -> None:
    for name, value in itertools.product(NAMES, VALUES):
        text = f'[{form.format(n=name, v=value)},\n{{"name": "KEPT", "value": "kept-1"}}]'
        for ending, whole in ((".json", text), (".json", text[: text.index("KEPT")]), (".yaml", text)):
            if ending == ".yaml" and "\n:" in form:
                continue  # no YAML
            found = shown(tmp_path, f"task{ending}", whole)
            assert value not in found, whole
            if whole == text:
                assert json.loads(found)[1]["value"] == "kept-1"


@pytest.mark.parametrize("text", PLAIN)
def test_what_is_no_secret_stays(text: str, tmp_path: Path) -> None:
    assert shown(tmp_path, "values.yml", text + KEPT) == text + KEPT


@pytest.mark.parametrize(
    "text",
    [
        "a: {{ .Values.x }}\n- name: DB_PASSWORD\n  value: Zx9tQ4wLm27RkP\n",
        "- name: DB_PASSWORD\n  value: Zx9tQ4wLm27RkP\n@",
        "- name: DB_PASSWORD\n  value: Zx9tQ4wLm27RkP\n  a: \x00\x1b\n",
        "- " * 3000 + "[" * 3000 + "\n- name: DB_PASSWORD\n  value: Zx9tQ4wLm27RkP\n",
        "x: &y0 [Zx9tQ4wLm27RkP]\n" + "".join(ALIASES.format(n, n - 1) for n in range(1, 60)),
        "password: Zx9tQ4wLm27RkP\n" + "#" * MAX_DOCUMENT_CHARS,
    ],
    ids=["template", "cut", "control", "deep", "aliases", "large"],
)
def test_a_document_of_any_form_is_masked(text: str, tmp_path: Path) -> None:
    for name in ("a.yaml", "a.json") if "*" not in text else ("a.yaml",):
        found = shown(tmp_path, name, text)
        assert "Zx9tQ4wLm27RkP" not in found
        assert "\x1b" not in found


def test_a_masked_manifest_is_still_yaml(tmp_path: Path) -> None:
    manifest = {"env": [{"name": "DB_PASSWORD", "value": "Zx9tQ4wLm27RkP"}, {"name": "RANK", "value": "3"}]}
    found = yaml.safe_load(shown(tmp_path, "a.yaml", yaml.safe_dump(manifest)))
    assert found["env"][1] == manifest["env"][1]
