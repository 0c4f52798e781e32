"""The settings file: read, refused with place and remedy, laid under variables, changed in place."""

from __future__ import annotations

import os
import re
from functools import partial
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from textual.widgets import SelectionList

from gpuwatch.cli.config.settings import config
from gpuwatch.clock import SessionClock
from gpuwatch.hosts.validation.errors import HostsError
from gpuwatch.tui.app import GpuwatchApp
from gpuwatch.tui.chrome.key_hints import KeysLine
from gpuwatch.tui.model.preferences import Preferences
from gpuwatch.tui.preferences.file import keep, load, load_valid
from gpuwatch.tui.preferences.shape import COLUMNS
from tests.tui.screen_text import fleet_of, text_on
from tests.tui.still import NOW, demo_session

WRITTEN = """\
# mine
metric: temp   # hot ones first
columns:
  nodes: [node, util]

  # and these
  ranks: [step, lag]
bell: on
"""


def test_a_file_is_read_and_variables_lie_over_it(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    assert load(file, {}).values == Preferences()
    file.write_text(WRITTEN)
    found = load(file, {"GPUWATCH_METRIC": "mem", "GPUWATCH_BELL": "off"})
    assert (found.values.metric, found.values.bell, found.values.columns["ranks"]) == (
        "mem",
        False,
        ["step", "lag"],
    )
    assert (found.homes["metric"], found.homes["columns"], found.homes["theme"]) == (
        "variable",
        "config.yaml",
        "default",
    )


def test_a_column_is_read_under_its_old_name(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("columns: {ranks: [step, told]}\nsort: {ranks: -told}\n")
    found = load(file, {}).values
    assert (found.columns["ranks"], found.sort["ranks"]) == (["step", "step_age"], "-step_age")


@pytest.mark.parametrize(
    ("text", "place", "hint"),
    [
        ("metrik: temp", "1:1", "'metric'"),
        ("bell: on\nmetric: tmep", "2:9", "'temp'"),
        ("columns:\n  nodes: [node, utl]", "2:17", "'util'"),
        ("keys: {app.freze: f5}", "1:8", "'app.freeze'"),
        ("theme: gpuwatch-ligth", "1:8", "'gpuwatch-light'"),
        ("sort: {nodes: -tmp}", "1:15", "'-temp'"),
    ],
)
def test_a_mistake_is_named_with_its_place_and_the_nearest_word(
    tmp_path: Path, text: str, place: str, hint: str
) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(text)
    with pytest.raises(HostsError) as refused:
        load(file, {})
    (problem,) = refused.value.problems
    assert problem.startswith(f"{file}:{place}:")
    assert f"mean {hint}?" in problem


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("keys: {app.freeze: q}", {"1:20": "app.quit"}),
        ("keys:\n  fleet.zoom: f5\n  fleet.sort: f5", {"2:15": "fleet.sort", "3:15": "fleet.zoom"}),
        ("keys: {move.up: 'k,?'}", {"1:17": "app.help"}),
        ("keys: {fleet.sort: '['}", {"1:20": "training.before"}),
        ("keys: {logs.level: f5, node.pane: f5}", {}),
        ("keys: {app.freeze: q, app.quit: p}", {}),
        ("keys: {app.quit.now: ctrl+c}", {}),
    ],
)
def test_two_actions_of_one_screen_cannot_share_a_key(
    tmp_path: Path, text: str, found: dict[str, str]
) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(text)
    if not found:
        assert load(file, {}).values.keys
        return
    with pytest.raises(HostsError) as refused:
        load(file, {})
    for problem, (place, other) in zip(refused.value.problems, found.items(), strict=True):
        assert problem.startswith(f"{file}:{place}:")
        assert f"'{other}'" in problem


def test_settings_without_problems_are_used_beside_those_that_have_some(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("theme: nord\nmetrik: temp\ncolumns: {nodes: [node, utl]}\nkeys: {app.freeze: q}\n")
    found = load_valid(file, {"GPUWATCH_METRIC": "mem", "GPUWATCH_BELL": "loud"})
    assert (found.values.theme, found.values.metric, found.values.bell) == ("nord", "mem", False)
    assert (dict(found.values.columns), dict(found.values.keys)) == ({}, {})
    assert [problem.rpartition("config.yaml:")[2][:4] for problem in found.problems[:3]] == [
        "2:1:",
        "3:25",
        "4:20",
    ]
    assert len(found.problems) == 4
    assert not found.values.actions  # `actions: off` may be what was misspelt
    file.write_text("theme: [\n")
    assert load_valid(file, {}).values.theme == "gpuwatch"
    file.write_text("actions: on\nmetrik: temp\n")
    assert load_valid(file, {}).values.actions
    file.write_text("metric: temp\n")
    assert (load_valid(file, {}).problems, load_valid(file, {}).values.actions) == ((), True)


async def test_the_first_screen_states_the_settings_that_are_left_out() -> None:
    app = GpuwatchApp(demo_session(14), clock=SessionClock(lambda: NOW))
    app.settings_problems = ("config.yaml:1:1: unknown key 'metrik'", "config.yaml:2:1: another")
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        (notice,) = app._notifications
        assert "config.yaml:1:1" in notice.message
        assert "1 other" in notice.message


def test_a_change_leaves_the_rest_of_the_file_as_it_was(tmp_path: Path) -> None:
    file = tmp_path / "gpuwatch" / "config.yaml"
    keep(file, "refresh", 4.0)
    assert file.read_text() == "refresh: 4\n"
    file.write_text(WRITTEN)
    keep(file, "metric", "mem")
    keep(file, "columns", {"nodes": ["node", "job"]})
    keep(file, "notify", True)
    text = file.read_text()
    assert text.startswith("# mine\nmetric: mem   # hot ones first\n")
    assert "bell: on\nnotify: on\n" in text
    values = load(file, {}).values
    assert (values.metric, values.columns, values.bell, values.notify) == (
        "mem",
        {"nodes": ["node", "job"]},
        True,
        True,
    )
    file.write_text("metrik: x\n")
    with pytest.raises(HostsError):
        keep(file, "metric", "mem")
    assert file.read_text() == "metrik: x\n"


async def test_what_is_changed_in_the_screen_is_kept(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("keys: {app.freeze: f5}\n")

    def app() -> GpuwatchApp:
        changed = GpuwatchApp(
            demo_session(14), clock=SessionClock(lambda: NOW), preferences=load(file, {}).values
        )
        changed.keep = partial(keep, file)
        return changed

    first = app()
    async with first.run_test(size=(160, 45)) as pilot:
        await pilot.press("m", "s", "s", "S", "underscore", "f5")
        assert first.view_state.frozen
        assert "f5" in {each.key_display for each in first.screen.query_one(KeysLine).hints}
        first.theme = "nord"
        await pilot.press("C")
        await pilot.pause()
        choice = first.screen.query_one(SelectionList)
        choice.deselect("power")
        choice.select("user")
        await pilot.press("escape")
        await pilot.pause()
        chosen = fleet_of(first).table.sort_name, fleet_of(first).table.falling
        assert "demo-ada" in text_on(first)
    second = app()
    async with second.run_test(size=(160, 45)) as pilot:
        await pilot.pause()
        fleet = fleet_of(second)
        assert (fleet.heat.metric.name, second.theme, second.pace.hz) == ("mem", "nord", 4.0)
        assert (fleet.table.sort_name, fleet.table.falling) == chosen
        heading = next(line for line in text_on(second).splitlines() if line.startswith("  node"))
        assert "user" in heading
        assert "power" not in heading
        await pilot.press("6", "C")
        await pilot.pause()
        assert second.screen.query_one(SelectionList).option_count == len(COLUMNS["ranks"])
        await pilot.press("escape", "3", "C")
        await pilot.pause()
        assert second.where == "logs"


@pytest.mark.parametrize(("size", "mark"), [((100, 30), "SM MHz"), ((200, 60), "PCIe gen5")])
async def test_the_values_of_gpus_are_chosen_on_the_node_screen(size: tuple[int, int], mark: str) -> None:
    app = GpuwatchApp(demo_session(14), clock=SessionClock(lambda: NOW))
    app.keep = lambda *_: None
    async with app.run_test(size=size) as pilot:
        await pilot.press("2", "C")
        await pilot.pause()
        choice = app.screen.query_one(SelectionList)
        assert choice.option_count == len(COLUMNS["gpus"])
        for dropped in ("power", "tensor"):
            choice.deselect(dropped)
        choice.select("dram")
        await pilot.press("escape")
        await pilot.pause()
        text = text_on(app)
        assert mark in text
        assert "DRAM" in text
        assert "tensor" not in text
        await pilot.press("tab", "C")
        await pilot.pause()
        assert app.screen.query_one(SelectionList).option_count == len(COLUMNS["processes"])


def test_the_command_shows_every_value_with_its_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("GPUWATCH_THEME", "nord")
    monkeypatch.setenv("EDITOR", 'sh -c \'printf "metric: temp\\n" > "$0"\'')
    run = CliRunner().invoke
    assert run(config, ["path"]).output.strip() == str(tmp_path / "gpuwatch" / "config.yaml")
    assert run(config, ["edit"]).exit_code == 0
    shown = run(config, ["show"]).output
    assert re.search(r"^theme +nord +variable$", shown, re.MULTILINE)
    assert re.search(r"^metric +temp +config.yaml$", shown, re.MULTILINE)
    assert re.search(r"^bell +off +default$", shown, re.MULTILINE)
    assert '"additionalProperties": false' in run(config, ["schema"]).output
    monkeypatch.setenv("EDITOR", 'sh -c \'printf "metrik: temp\\n" > "$0"\'')
    refused = run(config, ["edit"])
    assert refused.exit_code == 2
    assert "config.yaml:1:1" in refused.output


@pytest.mark.parametrize("linked", [False, True])
@pytest.mark.parametrize("mode", [0o666, 0o620])
def test_a_settings_file_that_others_may_write_is_refused(tmp_path: Path, mode: int, *, linked: bool) -> None:
    file = target = tmp_path / "config.yaml"
    if linked:
        target = tmp_path / "elsewhere.yaml"
        file.symlink_to(target)
    target.write_text("refresh: 3\n")
    target.chmod(mode)
    with pytest.raises(HostsError) as refused:
        load(file, {})
    assert str(file) in str(refused.value)
    target.chmod(0o644)
    assert load(file, {}).values.refresh == 3


def test_edit_makes_a_file_of_the_persons_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("VISUAL", "true")
    (tmp_path / "gpuwatch").mkdir()
    (tmp_path / "gpuwatch/config.yaml").symlink_to(tmp_path / "target.yaml")
    before = os.umask(0)
    try:
        assert config.main(["edit"], standalone_mode=False) == 0
    finally:
        os.umask(before)
    file = tmp_path / "gpuwatch/config.yaml"
    assert not (tmp_path / "target.yaml").exists()
    assert file.stat().st_mode & 0o777 == 0o600
    monkeypatch.setenv("VISUAL", "vi 'x")
    with pytest.raises(click.UsageError):
        config.main(["edit"], standalone_mode=False)
