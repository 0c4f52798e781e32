"""No argument of any command steers the terminal: names of strangers' files come by `*`."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from gpuwatch.cli.main import gpuwatch, main
from tests.hostile_text import EVIL, steering


def commands(group: click.Group, *path: str) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Every command with the words that call it."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from commands(command, *path, name)
        elif command is not None:
            yield (*path, name), command


def calls(folder: Path) -> Iterator[tuple[str, ...]]:
    """Calls of every command: the hostile text as each option's value, as an option, and as each argument."""
    evil = str(folder / EVIL)
    for words, command in commands(gpuwatch):
        yield (*words, EVIL)
        yield (*words, evil)
        yield (*words, evil, evil)
        yield (*words, f"--{EVIL}")
        yield (*words, f"-{EVIL}")
        for param in command.params:
            if isinstance(param, click.Option) and not param.is_flag:
                for value in (EVIL, evil):
                    yield (*words, param.opts[-1], value, evil)
    yield (EVIL,)
    yield ("rules", EVIL)


@pytest.mark.parametrize("exists", [False, True], ids=["missing", "existing"])
def test_no_argument_steers_the_terminal(
    tmp_path: Path, exists: bool, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    monkeypatch.chdir(tmp_path)
    if exists:
        for name in (EVIL, f"{EVIL}.log"):
            (tmp_path / name).write_bytes(os.fsencode(f"{EVIL}\n- {EVIL}: [\n"))
    else:
        (tmp_path / EVIL).symlink_to(f"nothing {EVIL}")
    counted = 0
    for argv in calls(tmp_path):
        monkeypatch.setattr(sys, "argv", ["gpuwatch", *argv])
        with pytest.raises(SystemExit):
            main()
        for stream in capfdbinary.readouterr():
            text = stream.decode("utf-8", "surrogateescape")
            assert not steering(text), (argv, text)
        counted += 1
    assert counted > 150
