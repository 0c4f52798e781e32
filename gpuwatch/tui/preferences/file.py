"""Reads the settings file, applies GPUWATCH_* variables, and changes single settings in place."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias

import yaml
from msgspec import Struct
from msgspec.structs import asdict, fields, replace

from gpuwatch.hosts.validation.document import compose
from gpuwatch.hosts.validation.errors import HostsError, Problems
from gpuwatch.hosts.validation.structures import ReadMapping, pairs
from gpuwatch.own_folders import config_folder, make_own
from gpuwatch.tui.model.preferences import Preferences
from gpuwatch.whole_file import read_own

Home: TypeAlias = Literal["default", "config.yaml", "variable"]
"""The source of a value."""
MAX_FILE_BYTES = 1 << 20
BY_VARIABLE = ("theme", "metric", "refresh", "bell", "notify", "title")


def settings_file() -> Path:
    """Return the path `$XDG_CONFIG_HOME/gpuwatch/config.yaml`, by default below `~/.config`."""
    return config_folder() / "config.yaml"


class LoadedPreferences(Struct, frozen=True):
    """The current settings, and the source of each."""

    values: Preferences
    homes: Mapping[str, Home]
    problems: Sequence[str] = ()
    """The problems of settings that are left out, with place and remedy."""


def load(path: Path, environ: Mapping[str, str] = os.environ) -> LoadedPreferences:
    """Return the settings of the file, GPUWATCH_* variables (which take precedence) and defaults.

    The file may be missing.

    Raises:
        HostsError: The file, else a variable, cannot be read or has problems; it lists all problems of the
            first such source, with line, column and remedy.
    """
    return _collected(_parsed(_text_of(path), str(path)), _variables(environ, _parsed))


def load_valid(path: Path, environ: Mapping[str, str] = os.environ) -> LoadedPreferences:
    """Return the settings as `load` does, without those that have problems, which are returned beside them.

    With a problem `actions` is off unless a source turns it on: a misspelt `actions: off` permits nothing.
    """
    problems: list[str] = []

    def valid(text: str, source: str) -> dict[str, Any]:
        try:
            return _parsed(text, source)
        except HostsError as error:
            problems.extend(error.problems)
            return _valid(text, source)

    try:
        text = _text_of(path)
    except HostsError as error:
        text, problems = "", list(error.problems)
    own = valid(text, str(path))
    own = {"actions": False, **own} if problems else own
    return replace(_collected(own, _variables(environ, valid)), problems=tuple(problems))


def _variables(environ: Mapping[str, str], parse: Callable[[str, str], dict[str, Any]]) -> dict[str, Any]:
    """Return the settings in the GPUWATCH_* variables.

    `parse` reads the text of one variable; its second argument names the source.
    """
    found: dict[str, Any] = {}
    for name in BY_VARIABLE:
        variable = f"GPUWATCH_{name.upper()}"
        if environ.get(variable):
            found |= parse(f"{name}: {environ[variable]}\n", variable)
    return found


def _collected(own: Mapping[str, Any], variables: Mapping[str, Any]) -> LoadedPreferences:
    homes: dict[str, Home] = {each.name: "default" for each in fields(Preferences)}
    homes |= dict.fromkeys(own, "config.yaml")
    homes |= dict.fromkeys(variables, "variable")
    return LoadedPreferences(replace(Preferences(), **{**own, **variables}), homes)


def keep(path: Path, name: str, value: object) -> None:
    """Change one setting in the file; the rest, comments included, stays as it is.

    Raises:
        HostsError: The file has problems; it is left as it is.
        OSError: It cannot be written.
    """
    text = _text_of(path)
    _parsed(text, str(path))
    written = f"{name}: {_flow(value)}"
    changed = _replaced(text, name, written)
    _parsed(changed, str(path))
    make_own(path.parent)
    target = path.resolve()  # a settings file may be a link into a folder of dotfiles
    mode = target.stat().st_mode & 0o777 if target.exists() else 0o600
    number, temporary = tempfile.mkstemp(dir=target.parent, prefix=target.name)
    with open(number, "w", encoding="utf-8") as file:  # noqa: PTH123 - a descriptor
        file.write(changed)
    os.chmod(temporary, mode)  # noqa: PTH101 - mkstemp gives a string
    os.replace(temporary, target)  # noqa: PTH105 - likewise


def as_lines(settings: LoadedPreferences) -> list[tuple[str, str, Home]]:
    """Return (name, value as YAML, source) of every setting; for receivers only their names."""
    values = asdict(_plain(settings.values))
    values["alerts"] = [receiver.name for receiver in settings.values.alerts]
    return [(name, _flow(value), settings.homes[name]) for name, value in values.items()]


def _plain(values: Preferences) -> Preferences:
    columns = {table: list(names) for table, names in values.columns.items()}
    return replace(values, sort=dict(values.sort), columns=columns, keys=dict(values.keys), alerts=())


def _flow(value: object) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, float):
        return f"{value:g}"
    text: str = yaml.safe_dump(value, default_flow_style=True, width=10_000, sort_keys=False)
    return text.removesuffix("\n").removesuffix("\n...")


def _text_of(path: Path) -> str:
    try:
        data = read_own(path, MAX_FILE_BYTES)
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise HostsError([f"{path}: {error.strerror}"]) from error
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise HostsError([f"{path}: not UTF-8 text"]) from None


def _parsed(text: str, source: str) -> dict[str, Any]:
    """Return the settings in a text, by name.

    Raises:
        HostsError: The text has problems; it lists all.
    """
    if not text:
        return {}
    from gpuwatch.tui.preferences.shape import FILE  # noqa: PLC0415 - it needs every screen's tables

    problems = Problems(source)
    root = compose(text, problems)
    entry = FILE.read(root, problems) if root is not None else None
    problems.raise_any()
    return {} if entry is None else {name: _value(value) for name, value in entry.values.items()}


def _valid(text: str, source: str) -> dict[str, Any]:
    """Return the settings in a text that have no problem, by name; empty for a text that is no mapping."""
    from gpuwatch.tui.preferences.shape import FILE  # noqa: PLC0415 - it needs every screen's tables

    root, found = compose(text, Problems(source)), dict[str, Any]()
    if not isinstance(root, yaml.MappingNode):
        return found
    for name, _, value in pairs(root, Problems(source)):
        own, key = Problems(source), FILE.keys.get(name)
        read = None if key is None else key.shape.read(value, own)
        if read is not None and not len(own):
            found[name] = _value(read)
    return found


def _value(value: object) -> object:
    return dict(value.values) if isinstance(value, ReadMapping) else value


def _replaced(text: str, name: str, written: str) -> str:
    """Return the text with the setting's key and value replaced by `written`, else with it at the end."""
    root = compose(text, Problems(name))
    for key, value in root.value if isinstance(root, yaml.MappingNode) else ():
        if key.value == name:
            begin, end = key.start_mark.index, value.end_mark.index
            whole = text[begin:end]
            kept = len(whole.rstrip())  # a block ends where the next key begins
            return text[:begin] + written + text[begin + kept :]
    if root is not None and not text.endswith("\n"):
        text += "\n"
    return f"{text}{written}\n"
