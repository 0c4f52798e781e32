"""Links and anchors of the documentation exist, and its command lines are ones that the program takes."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from gpuwatch.cli.main import ALIASES, COMMANDS, DEFAULT_COMMAND, gpuwatch
from tests.suite.pages.documented import LINK, ROOT, anchors, commands, pages, words_of

HARMLESS = {
    "completion",
    "explain",
    "config path",
    "config schema",
    "config show",
    "hosts schema",
    "rules list",
}
HARMLESS |= {"rules show"}
"""Commands that only print what is in the program or the person's settings."""
FILES = {"hostfile"}
"""Sources of the documentation that look like a command."""
BAD_NEWS = 1
"""The demo has an incident."""


def parsed(words: tuple[str, ...]) -> click.Command:
    """The command that the words start, its options and values taken.

    Raises:
        click.UsageError: no such command or option, a value too many, or one of another type.
    """
    context = click.Context(gpuwatch, info_name="gpuwatch")
    command: click.Command = gpuwatch
    rest = list(words)
    if rest[0] not in COMMANDS.keys() | ALIASES.keys() | {"--help", "--version"}:
        if re.fullmatch("[a-z]+", rest[0]) and rest[0] not in FILES:
            raise click.UsageError(f"no command {rest[0]}")
        rest.insert(0, DEFAULT_COMMAND)
    while isinstance(command, click.Group):
        if not rest or rest[0].startswith("-"):
            return command
        inner = command.get_command(context, rest.pop(0))
        if inner is None:
            raise click.UsageError(f"no such command in {words}")
        command = inner
    context = click.Context(command)
    values, left, _ = command.make_parser(context).parse_args(rest)
    if left:
        raise click.UsageError(f"too many words: {left}")
    for param in command.params:
        value = values.get(param.name or "")
        named = " ".join(value) if isinstance(value, (list, tuple)) else str(value)
        if (
            isinstance(value, (str, list, tuple))
            and not isinstance(param.type, click.Path)
            and not named.isupper()
        ):
            param.type_cast_value(context, value)
    return command


def refusal(words: tuple[str, ...]) -> click.ClickException | None:
    """How the program refuses the words; None: it takes them."""
    try:
        parsed(words)
    except click.ClickException as error:
        return error
    return None


def mistakes() -> Iterator[str]:
    for command in commands():
        error = refusal(command.words)
        value_left_out = isinstance(error, click.BadOptionUsage) and not command.in_block
        if error is not None and not value_left_out:  # a sentence may name an option alone
            yield f"{command.page}:{command.line}: {' '.join(command.words)}: {error.format_message()}"


def test_links_and_anchors_exist() -> None:
    broken = []
    for page, text in pages().items():
        for target in LINK.findall(re.sub(r"```.*?```", "", text, flags=re.DOTALL)):
            path, _, anchor = target.partition("#")
            if re.match(r"[a-z]+:", target):
                continue
            file = (ROOT / page).parent / path if path else ROOT / page
            if not file.exists() or (anchor and anchor not in anchors(file.read_text())):
                broken.append(f"{page}: {target}")
    assert broken == []


def test_every_command_of_the_documentation_parses() -> None:
    assert len(list(commands())) > 400
    assert list(mistakes()) == []


@pytest.mark.parametrize(
    "line",
    [
        "gpuwatch onec hosts.yaml",
        "gpuwatch scan --jsn logs/",
        "gpuwatch once a b c",
        "gpuwatch dmon --demo -c many",
    ],
)
def test_a_wrong_command_is_found(line: str) -> None:
    with pytest.raises(click.UsageError):
        parsed(words_of(line))


def harmless() -> list[tuple[str, ...]]:
    """Command lines that end by themselves, write nothing and connect to nobody."""
    found = {
        command.words
        for command in commands()
        if command.page != "docs/extending.md"  # which speaks of rules and metrics that are to be added
        and (
            " ".join(command.words[:2]) in HARMLESS
            or command.words[0] in HARMLESS
            or (command.words[0] in ("once", "check") and "--demo" in command.words)
            or command.words[-1] in ("--help", "--version")
        )
    }
    return sorted(words for words in found if not any(word.isupper() or "|" in word for word in words))


@pytest.mark.long
@pytest.mark.parametrize("words", harmless(), ids=" ".join)
def test_a_harmless_command_of_the_documentation_runs(words: tuple[str, ...], tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "gpuwatch", *words],
        cwd=tmp_path, capture_output=True, text=True, check=False, timeout=110,
    )  # fmt: skip
    assert done.returncode <= (BAD_NEWS if "--demo" in words else 0), done.stderr
    assert done.stdout
