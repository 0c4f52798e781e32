"""`gpuwatch config`: shows, checks and edits the user's settings file."""

# ruff: noqa: PLC0415  a command imports only what it uses, so that --help and usage errors stay fast

from __future__ import annotations

import json
import os
import shlex
import subprocess
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from gpuwatch.cli.shared import exit_codes
from gpuwatch.cli.shared.output import writing

if TYPE_CHECKING:
    from gpuwatch.hosts.receivers import ReceiverSpec
    from gpuwatch.tui.preferences.file import LoadedPreferences

TEMPLATE = """\
# gpuwatch settings; `gpuwatch config schema` lists all, `gpuwatch config show` the current ones.
# theme: gpuwatch-light
# metric: temp
# sort: {nodes: temp}
# columns: {nodes: [node, gpus, util, mem, job, user, trouble]}
# refresh: 4
# bell: on
# notify: on
# keys: {app.freeze: f5}
"""


@click.group()
def config() -> None:
    """Show or edit your settings: theme, columns, sort, keys, refresh, bell."""


@config.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def show(as_json: bool) -> int:
    """Print every setting, its value, and where the value comes from."""
    from gpuwatch.tui.preferences.file import as_lines

    settings = loaded()
    lines = as_lines(settings)
    with writing():
        if as_json:
            import yaml

            found = {name: {"value": yaml.safe_load(text), "home": home} for name, text, home in lines}
            click.echo(json.dumps(found, indent=2))
        else:
            names, values = (max(len(line[at]) for line in lines) for at in (0, 1))
            for name, text, home in lines:
                click.echo(f"{name:<{names}}  {text:<{values}}  {home}")
    return exit_codes.HEALTHY


@config.command()
def path() -> int:
    """Print the path of the settings file."""
    from gpuwatch.tui.preferences.file import settings_file

    with writing():
        click.echo(str(settings_file()))
    return exit_codes.HEALTHY


@config.command()
def schema() -> int:
    """Print the JSON Schema of the settings file, for editors."""
    from gpuwatch.tui.preferences.shape import json_schema

    with writing():
        click.echo(json.dumps(json_schema(), indent=2))
    return exit_codes.HEALTHY


@config.command()
def edit() -> int:
    """Open the settings file in $VISUAL or $EDITOR, then check it."""
    from gpuwatch.own_folders import make_own
    from gpuwatch.tui.preferences.file import settings_file
    from gpuwatch.whole_file import write_whole

    file = settings_file()
    try:
        command = shlex.split(os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi")
    except ValueError as error:
        raise click.UsageError(f"VISUAL or EDITOR: {error}") from error
    try:
        make_own(file.parent)
        if not file.exists():
            write_whole(file, TEMPLATE.encode())
        status = subprocess.run([*command, str(file)], check=False).returncode
    except OSError as error:
        raise click.UsageError(f"{error.filename}: {error.strerror}; set EDITOR") from error
    if status:
        raise click.UsageError(f"{command[0]} ended with status {status}; {file} was not checked")
    loaded()
    return exit_codes.HEALTHY


def configured_receivers() -> Sequence[ReceiverSpec]:
    """Return the receivers of incidents in the settings file; empty if there is no file.

    Raises:
        Refusal: The settings file has problems; it lists all.
    """
    from gpuwatch.own_folders import config_folder

    if not (config_folder() / "config.yaml").exists():
        return ()  # to read one takes the tables of every screen
    return loaded().values.alerts


def loaded() -> LoadedPreferences:
    """Return the current settings, and where each value comes from.

    Raises:
        Refusal: The settings file has problems; it lists all.
    """
    from gpuwatch.cli.shared.source import Refusal
    from gpuwatch.hosts.validation.errors import HostsError
    from gpuwatch.tui.preferences.file import load, settings_file

    try:
        return load(settings_file())
    except HostsError as error:
        raise Refusal(list(error.problems)) from error


def loaded_for_screens() -> LoadedPreferences:
    """Return the current settings without those that have problems; these are written to stderr.

    A misspelt colour does not prevent the screens from opening.
    """
    from gpuwatch.tui.preferences.file import load_valid, settings_file

    settings = load_valid(settings_file())
    for problem in settings.problems:
        click.echo(f"gpuwatch: {problem}; this setting is not used", err=True)
    return settings
