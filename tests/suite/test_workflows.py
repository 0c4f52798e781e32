"""Workflows and hooks call `.ci/run` and `make` and repeat nothing of them; no file names a registry."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
GITHUB = ROOT / ".github"
WORKFLOWS = sorted((GITHUB / "workflows").glob("*.yml"))
FORMS = sorted((GITHUB / "ISSUE_TEMPLATE").glob("*.yml"))
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
ACTIONS = {"actions/checkout", "actions/setup-python", "actions/upload-artifact"}
REGISTRIES = (
    "py" + "pi.org",
    "python" + "hosted",
    "npm" + "js",
    "anaconda" + ".org",
    "docker" + ".io",
    "ghcr" + ".io",
)


def jobs(workflow: Path) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(workflow.read_text())["jobs"]
    return found


def versions(workflow: Path, job: str) -> list[str]:
    found: list[str] = jobs(workflow)[job]["strategy"]["matrix"]["python"]
    return found


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_calls_ci_run_and_make_alone(workflow: Path) -> None:
    assert yaml.safe_load(workflow.read_text())["permissions"] == {"contents": "read"}
    for name, job in jobs(workflow).items():
        assert job["timeout-minutes"], name
        assert job.keys() <= {"if", "runs-on", "timeout-minutes", "strategy", "steps"}, name
        for step in job["steps"]:
            if "uses" in step:
                assert step["uses"].partition("@")[0] in ACTIONS, step
                continue
            assert step.keys() == {"run"}, step
            command, _, target = step["run"].partition(" ")
            assert (command, target) == (".ci/run", "") or (command == "make" and target in TARGETS), step


def test_every_supported_python_is_checked() -> None:
    check, package = GITHUB / "workflows/check.yml", GITHUB / "workflows/package.yml"
    matrix = versions(check, "check")
    (oldest,) = re.findall(
        r'^requires-python = ">=(3\.\d+)"', (ROOT / "pyproject.toml").read_text(), re.MULTILINE
    )
    assert matrix == [f"3.{minor}" for minor in range(int(oldest[2:]), 15)]
    assert {matrix[0], matrix[-1]} == set(versions(package, "wheel"))


def test_the_old_pythons_of_nodes_are_those_of_the_agent() -> None:
    (wanted,) = re.findall(r"^NODE_PYTHONS := (.*)", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert wanted.split() == ["3.6", "3.8"]


def test_hooks_are_the_linters_of_make() -> None:
    (repo,) = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    lint, subject = repo["hooks"]
    assert (repo["repo"], lint["entry"]) == ("local", "make lint")
    assert not re.search(subject["entry"], "x" * 72 + "\n\n" + "y" * 90)
    assert re.search(subject["entry"], "x" * 73)


@pytest.mark.parametrize("form", FORMS, ids=lambda path: path.stem)
def test_an_issue_form_has_what_github_needs(form: Path) -> None:
    read = yaml.safe_load(form.read_text())
    if form.stem == "config":
        assert read == {"blank_issues_enabled": True}
        return
    assert read["name"] and read["description"]
    ids = [part["id"] for part in read["body"]]
    assert len(ids) == len(set(ids))
    assert all(part["attributes"]["label"] for part in read["body"])
    assert any(part.get("validations", {}).get("required") for part in read["body"])


def test_no_file_names_a_package_registry() -> None:
    pattern = "|".join(re.escape(host) for host in REGISTRIES)
    found = subprocess.run(
        ["git", "grep", "-lIE", pattern, "--", ":!tests/corpus", ":!gpuwatch/rules"],
        cwd=ROOT, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert found.stdout.split() == []
