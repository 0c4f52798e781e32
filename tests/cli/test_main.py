from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import click
import pytest

from gpuwatch import __version__
from gpuwatch.cli.main import COMMANDS
from gpuwatch.cli.main import gpuwatch as group
from tests.cli.loaded import HEAVY, loaded
from tests.cli.running import gpuwatch
from tests.sentences import Sentences, line_of


@pytest.mark.parametrize(
    "arguments",
    [("--version",), ("--help",), ("-h",), ("once", "--help"), ("dmon", "--help"), ("once",), ("onec",)],
)
def test_help_version_and_mistakes_import_nothing_heavy(arguments: tuple[str, ...]) -> None:
    modules = loaded(*arguments)
    assert "click" in modules
    facts = set() if arguments[0] in COMMANDS else {"msgspec"}  # the options of a command are a struct
    assert modules & (HEAVY | facts) == set()


def test_a_report_imports_neither_textual_nor_paramiko() -> None:
    modules = loaded("once", "--demo", "--json")
    assert "msgspec" in modules
    assert modules & {"textual", "paramiko", "torch", "rich"} == set()


def test_version() -> None:
    done = gpuwatch("--version")
    assert (done.returncode, done.stdout) == (0, f"gpuwatch {__version__}\n")


def test_help_lists_every_command_with_examples() -> None:
    done = gpuwatch("--help")
    assert done.returncode == 0
    for name in COMMANDS:
        assert re.search(rf"^  {name} +\w", done.stdout, re.MULTILINE)
    for example in ("gpuwatch hosts.yaml", "gpuwatch --local", "gpuwatch --demo", "gpuwatch once hosts.yaml"):
        assert example in done.stdout


def test_a_misspelt_command_is_named_and_nothing_is_connected(sentences: Sentences) -> None:
    done = gpuwatch("onec", "hosts.yaml")
    assert done.returncode == 2
    sentences(line_of(done.stderr, "mean"))


@pytest.mark.parametrize(
    "arguments",
    [("once",), ("once", "--local", "--demo"), ("once", "hosts.yaml", "--demo"), ("dmon",)],
)
def test_exactly_one_source_has_to_be_named(arguments: tuple[str, ...]) -> None:
    done = gpuwatch(*arguments)
    assert done.returncode == 2
    assert "--local, --demo" in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("once", "/nowhere/hosts.yaml"), "no such file"),
        (("once", "--demo", "--interval", "0.01"), "0.2"),
        (("once", "--demo", "-F", "/nowhere/config"), "/nowhere/config: no such file"),
        (("once", "--demo", "--ask-password"), "needs a terminal"),
        (("once", "--demo", "--wait", "-1"), "0"),
        (("once", "--demo", "--jsno"), "--json"),
        (("dmon", "--demo", "-s", "px"), "p (power and temperature)"),
        (("dmon", "--demo", "-o", "X"), "not D, T or DT"),
        (("dmon", "--demo", "-c", "0"), "0"),
    ],
)
def test_a_wrong_command_line_is_reported_in_a_sentence(arguments: tuple[str, ...], sentence: str) -> None:
    done = gpuwatch(*arguments)
    assert done.returncode == 2
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_without_arguments_it_is_this_machine() -> None:
    assert group.make_context("gpuwatch", [])._protected_args == ["watch"]
    assert group.make_context("gpuwatch", []).args == ["--local"]


def test_a_missing_hosts_file_is_named_with_the_nearest_one(tmp_path: Path) -> None:
    (tmp_path / "hosts.yaml").write_text("hosts: [a]\n")
    done = gpuwatch("hosts.yml", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith("hosts.yml: ")
    assert "hosts.yaml" in done.stderr
    assert "command" not in done.stderr


def test_a_signal_stays_the_status_when_the_output_is_gone() -> None:
    """Python itself ends with 120 where it cannot flush stdout at exit, as on a terminal that was closed."""
    code = (
        "import sys; from gpuwatch.cli.shared.output import drop_unwritable_output;"
        "sys.stdout.write('x'); drop_unwritable_output(); sys.exit(129)"
    )
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-c", code], stdout=full, stderr=subprocess.PIPE, env=buffered, check=False
        )
    assert (done.returncode, done.stderr) == (129, b"")


def test_no_line_of_a_command_list_is_cut_off() -> None:
    context = click.Context(group, info_name="gpuwatch")
    for name in COMMANDS:
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            text = command.get_help(click.Context(command, info_name=name, terminal_width=80))
            assert "..." not in text.partition("Commands:")[2], name
