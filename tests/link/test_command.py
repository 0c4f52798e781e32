"""Where the remote command goes in a person's argv."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from gpuwatch.hosts.plan import NodeSpec
from gpuwatch.link.command import CommandDialer, command_argv
from gpuwatch.link.start.bundle import bundle, loader_command
from gpuwatch.link.stream.carrier import CarrierError
from tests.link.stub_agent import stub_agent

LINE = loader_command(None)


@pytest.mark.parametrize(
    ("argv", "wanted"),
    [
        (["ssh", "-T", "{address}"], ["ssh", "-T", "10.0.0.1", LINE]),
        (["/usr/bin/ssh", "{name}"], ["/usr/bin/ssh", "n1", LINE]),
        (
            ["kubectl", "exec", "-i", "{name}", "--"],
            ["kubectl", "exec", "-i", "n1", "--", "/bin/sh", "-c", LINE],
        ),
        (["docker", "exec", "-i", "c-{name}"], ["docker", "exec", "-i", "c-n1", "/bin/sh", "-c", LINE]),
        (["tsh", "ssh", "{address}", "{command}"], ["tsh", "ssh", "10.0.0.1", LINE]),
        (["gw", "--run={command}", "{name}"], ["gw", f"--run={LINE}", "n1"]),
    ],
)
def test_the_command_goes_where_the_program_wants_it(argv: list[str], wanted: list[str]) -> None:
    spec = NodeSpec("n1", link="command", address="10.0.0.1", command=tuple(argv))
    assert command_argv(spec, LINE) == wanted


def test_without_an_address_the_name_stands_for_it() -> None:
    assert command_argv(NodeSpec("n1", command=("nc", "{address}")), "x")[1] == "n1"


def test_a_command_link_without_an_argv_is_refused() -> None:
    with pytest.raises(CarrierError, match="needs `command:`") as caught:
        CommandDialer(NodeSpec("n1", link="command"))("x")
    assert caught.value.final


# ssh joins its arguments and lets a login shell split them.
FAKE_SSH = """#!/bin/sh
shift
exec sh -c "$*"
"""
# kubectl runs what follows -- as it is.
FAKE_KUBECTL = """#!/bin/sh
while [ "$1" != -- ]; do shift; done
shift
exec "$@"
"""


@pytest.mark.parametrize(
    ("program", "script", "arguments"),
    [("ssh", FAKE_SSH, ["{name}"]), ("kubectl", FAKE_KUBECTL, ["exec", "-i", "{name}", "--"])],
)
def test_both_ways_start_the_same_agent(
    tmp_path: Path, program: str, script: str, arguments: list[str]
) -> None:
    path = tmp_path / program
    path.write_text(script)
    path.chmod(0o755)
    spec = NodeSpec("n1", link="command", command=(str(path), *arguments))
    argv = command_argv(spec, loader_command(sys.executable))
    stdin = bundle({"nonce": "abc", "interval_s": 60.0}, stub_agent())
    done = subprocess.run(argv, input=stdin, capture_output=True, timeout=60, check=False)
    assert done.stdout.startswith(b"\nGPUWATCH1 abc\n"), shlex.join(argv)
