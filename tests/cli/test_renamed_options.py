"""Options that were renamed: both names do the same, and help shows the new one."""

from __future__ import annotations

import click
import pytest

from gpuwatch.cli.analysis.stacks import stacks
from gpuwatch.cli.monitor.watch import watch
from gpuwatch.cli.probe.command import probe

RENAMED = [
    (probe, "busy_too", "--allow-busy", "--busy-too", []),
    (probe, "iface", "--interface", "--iface", ["eth7"]),
    (probe, "budget_s", "--time-limit", "--budget", ["7"]),
    (stacks, "upload_py_spy", "--upload-py-spy", "--lend-py-spy", [__file__]),
    (watch, "upload_py_spy", "--upload-py-spy", "--lend-py-spy", [__file__]),
    (stacks, "dumps", "--trigger-dumps", "--fresh-dumps", []),
]


@pytest.mark.parametrize(("command", "field", "new", "old", "value"), RENAMED)
def test_the_old_name_does_the_same_and_is_hidden(
    command: click.Command, field: str, new: str, old: str, value: list[str]
) -> None:
    default = command.make_context("gpuwatch", ["--demo"]).params[field]
    read = [command.make_context("gpuwatch", ["--demo", name, *value]).params[field] for name in (new, old)]
    assert read[0] == read[1] != default
    text = command.get_help(command.make_context("gpuwatch", ["--demo"]))
    assert new in text
    assert old not in text


def test_an_error_names_the_new_option() -> None:
    with pytest.raises(click.BadParameter) as raised:
        probe.make_context("gpuwatch", ["--demo", "--budget", "0"])
    assert raised.value.param is not None
    assert raised.value.param.opts == ["--time-limit"]
