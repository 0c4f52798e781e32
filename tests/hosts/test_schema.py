"""The schema, the example and the reference all tell of the same keys, and of nothing that does not load."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from msgspec.structs import asdict

from gpuwatch.hosts.keys import json_schema
from gpuwatch.hosts.load import load_plan, parse_plan
from gpuwatch.hosts.plan import Plan, Thresholds
from gpuwatch.hosts.validation.errors import HostsError

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "hosts.example.yaml"
REFERENCE = ROOT / "docs" / "hosts.md"
TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "number": (int, float),
    "integer": (int,),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
}


def accepts(schema: dict[str, Any], value: object) -> bool:
    """A validator of the few words that the schema uses."""
    known = {"$schema", "title", "description", "anyOf", "enum", "type", "pattern", "maxLength", "minimum"}
    known |= {
        "maximum",
        "items",
        "minItems",
        "properties",
        "additionalProperties",
        "required",
        "propertyNames",
    }
    assert set(schema) <= known, set(schema) - known
    if "anyOf" in schema:
        return any(accepts(each, value) for each in schema["anyOf"])
    if "enum" in schema:
        return value in list(schema["enum"])
    kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    wanted = tuple(kind for name in kinds for kind in TYPES[name])
    if not isinstance(value, wanted) or (isinstance(value, bool) and bool not in wanted):
        return False
    if isinstance(value, str):
        return bool(
            re.search(schema.get("pattern", ""), value) and len(value) <= schema.get("maxLength", 1e9)
        )
    if isinstance(value, (int, float)):
        return bool(schema.get("minimum", value) <= value <= schema.get("maximum", value))
    if isinstance(value, list):
        return len(value) >= schema["minItems"] and all(accepts(schema["items"], item) for item in value)
    assert isinstance(value, dict)
    return _accepts_object(schema, value)


def _accepts_object(schema: dict[str, Any], value: dict[str, Any]) -> bool:
    properties = schema.get("properties", {})
    names = {"type": "string", **schema.get("propertyNames", {})}
    for key, item in value.items():
        rest = properties.get(key, schema["additionalProperties"])
        if rest is False or not accepts(names, key) or not accepts(rest, item):
            return False
    return set(schema.get("required", ())) <= set(value)


def keys(schema: object) -> Iterator[str]:
    """Every key that the schema lets one write, at any depth."""
    if isinstance(schema, dict):
        yield from schema.get("properties", {})
        for inner in schema.values():
            yield from keys(inner)
    elif isinstance(schema, list):
        for inner in schema:
            yield from keys(inner)


def loads(text: str) -> bool:
    try:
        parse_plan(text, "hosts.yaml")
    except HostsError:
        return False
    return True


DOCUMENTS = [
    "hosts: [n1]",
    "hosts: n[1-3]",
    "[n1, {name: n2, port: 22}]",
    "hosts: [n1, 7, u@n2]",
    "hosts: [{name: n1, labels: {rack: 012, ok: yes}, identity_file: [a, b], slots: 0}]",
    "hosts: [{name: n1, link: local}, {name: n2, link: {command: [x]}}, {name: n3, command: [a, '{name}']}]",
    "hosts: [n1]\ngroups: {a: n1, b: [n1], c: {hosts: n1, user: u}, d: '@a'}",
    "hosts: [n1]\nlogs: ['/a/{rank}', ~/b]\ninterval: 0.5\nthresholds: {memory_pct: 99.5}",
    "hosts: [n1]\ndefaults: {jump: 'a@b:22,[::1]:22', address: '{name}.x', python: python3.11}",
    "hosts: [n1]\ndefaults: {activate: 'module load x && . y'}",
    "hosts: [n1]\ndefaults: {activate: ' '}",
    "hosts: [n1]\ndefaults: {activate: [module, load]}",
    "hosts: []",
    "{}",
    "port: 22",
    "hosts: [n1]\nwhat: 1",
    "hosts: [n1]\ndefaults: {prot: 22}",
    "hosts: [n1]\ndefaults: {port: 70000}",
    "hosts: [n1]\ndefaults: {port: '22'}",
    "hosts: [n1]\ndefaults: {port: 2.5}",
    "hosts: [n1]\ndefaults: {user: -x}",
    "hosts: [n1]\ndefaults: {user:}",
    "hosts: [n1]\ndefaults: {address: 'u@h'}",
    "hosts: [n1]\ndefaults: {jump: '-x'}",
    "hosts: [n1]\ndefaults: {labels: {a b: c}}",
    "hosts: [n1]\ndefaults: {labels: [a]}",
    "hosts: [n1]\ndefaults: {command: ssh}",
    "hosts: [n1]\ndefaults: {command: ['{hostname}']}",
    "hosts: [n1]\ndefaults: {link: demo}",
    "hosts: [n1]\nlogs: rel.log",
    "hosts: [n1]\nlogs: '/a/{rnk}'",
    "hosts: [n1]\ninterval: fast",
    "hosts: [n1]\ninterval: 100",
    "hosts: [n1]\nthresholds: {disk_pct: 0}",
    "hosts: [{port: 22}]",
    "hosts: ['-x']",
    "hosts: [[n1]]",
    "hosts: {n1: {}}",
    "hosts: [n1]\ngroups: [a]",
    "hosts: [n1]\ngroups: {a: {user: x}}",
]


@pytest.mark.parametrize("text", DOCUMENTS)
def test_the_schema_accepts_what_the_parser_loads_and_nothing_else(text: str) -> None:
    assert accepts(json_schema(), yaml.safe_load(text)) == loads(text)


def test_the_schema_is_json() -> None:
    assert json.loads(json.dumps(json_schema())) == json_schema()


def test_every_key_has_a_description() -> None:
    found = list(_properties(json_schema()))
    assert len(found) > 30
    assert all(each.get("description", "").endswith(".") for each in found)


def _properties(schema: object) -> Iterator[dict[str, Any]]:
    if isinstance(schema, dict):
        yield from schema.get("properties", {}).values()
        for inner in schema.values():
            yield from _properties(inner)
    elif isinstance(schema, list):
        for inner in schema:
            yield from _properties(inner)


def test_the_example_loads_and_has_every_key() -> None:
    plan = load_plan(EXAMPLE)
    assert {node.link for node in plan.nodes} == {"ssh", "command", "local"}
    text = EXAMPLE.read_text()
    assert accepts(json_schema(), yaml.safe_load(text))
    missing = {key for key in keys(json_schema()) if not re.search(rf"\b{key}:", text)}
    assert not missing


def test_the_example_states_the_values_that_hold_without_it() -> None:
    plan = load_plan(EXAMPLE)
    assert plan.thresholds == Thresholds()
    assert plan.interval_s == Plan(()).interval_s


def blocks() -> list[str]:
    found = re.findall(r"^```yaml\n(.*?)^```", REFERENCE.read_text(), re.MULTILINE | re.DOTALL)
    assert len(found) >= 6
    return found


@pytest.mark.parametrize("block", blocks())
def test_every_example_of_the_reference_loads(block: str) -> None:
    plan = parse_plan(block, "docs")
    assert plan.nodes
    assert accepts(json_schema(), yaml.safe_load(block))


def test_the_reference_tells_of_every_key_and_every_default() -> None:
    text = REFERENCE.read_text()
    assert not {key for key in keys(json_schema()) if f"`{key}`" not in text}
    for name, value in asdict(Thresholds()).items():
        assert re.search(rf"\| `{name}` \| [^|]+ \| {value:g} \|", text)


def test_the_table_of_ranges_in_the_reference_is_right() -> None:
    rows = re.findall(r"^\| `(\S+)` \| ((?:\w[\w-]*\d ?)+)\|$", REFERENCE.read_text(), re.MULTILINE)
    assert len(rows) == 8
    for written, names in rows:
        assert [node.name for node in parse_plan(f"- {written}", "docs").nodes] == names.split()
