"""Generates docs/gpuwatch.1 from the help of all commands: `python -m gpuwatch.cli.man_page`."""

from __future__ import annotations

import inspect
import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence

import click

from gpuwatch import __version__
from gpuwatch.cli.main import COMMANDS, DEFAULT_COMMAND, EXAMPLES, gpuwatch
from gpuwatch.cli.shared import exit_codes

COMMON_FROM = 8
"""An option with the same meaning in at least this many commands is described once."""
NUMBER = re.compile(r"(?:FLOAT|INTEGER)(?: RANGE)?")
"""click's text for the value of an option that is a number."""
PREFORMATTED = "\b"
"""click's mark before a paragraph whose line breaks are kept."""
CODES = (
    (exit_codes.HEALTHY, "No problem was found, or the command did what was requested."),
    (exit_codes.UNHEALTHY, "Something that was checked is unhealthy, or a problem was found."),
    (exit_codes.USAGE, "Wrong usage or input; nothing was connected."),
    (exit_codes.INTERNAL, "A fault of gpuwatch; GPUWATCH_DEBUG=1 prints its traceback."),
    (exit_codes.OUTPUT, "The output could not be written."),
    (exit_codes.INTERRUPTED, "Ended by Ctrl-C."),
)
VARIABLES = (
    (
        "GPUWATCH_THEME, GPUWATCH_METRIC, GPUWATCH_REFRESH, GPUWATCH_BELL, GPUWATCH_NOTIFY, GPUWATCH_TITLE",
        "Settings of the screens; they override the settings file, and options override them.",
    ),
    ("GPUWATCH_INCIDENT_HISTORY", "off: no history of incidents is kept."),
    ("GPUWATCH_DISCOVER", "off: agents do not look for the logs of jobs that ended before."),
    ("GPUWATCH_DEBUG", "1: an internal error prints its traceback."),
    ("XDG_CONFIG_HOME, XDG_CACHE_HOME, XDG_STATE_HOME", "Where the folders below FILES are."),
)
FILES = (
    ("~/.config/gpuwatch/config.yaml", "Settings; `gpuwatch config` prints and edits them."),
    ("~/.config/gpuwatch/rules/", "Your own rule packs."),
    ("~/.cache/gpuwatch/", "Compiled rules; may be deleted."),
    (
        "~/.local/state/gpuwatch/",
        "History of incidents, failed jobs, followed folders, bookmarks, saved screens, internal errors.",
    ),
)
ROFF = str.maketrans({"\\": r"\e", "-": r"\-", "^": r"\(ha", "~": r"\(ti", "'": r"\(aq"})
"""Characters that roff would replace; they are escaped so that a copied command is unchanged."""
Options = Sequence[click.Option]


def page() -> str:
    """Return the whole manual page as roff, for man(1)."""
    context = click.Context(gpuwatch, info_name="gpuwatch")
    commands = list(all_commands(context))
    common = common_options([command for _, command in commands])
    lines = [
        '.\\" Made by `python -m gpuwatch.cli.man_page` from the help of the commands; a test keeps it true.',
        f'.TH GPUWATCH 1 "" "gpuwatch {__version__}" "User Commands"',
        ".nh",
        ".SH NAME",
        r"gpuwatch \- every GPU and every rank's log of a training cluster in one terminal",
        ".SH SYNOPSIS",
        r"\fBgpuwatch\fP \fISOURCE\fP | \fB\-\-local\fP | \fB\-\-demo\fP [\fIoption\fP ...]",
        ".br",
        r"\fBgpuwatch\fP \fIcommand\fP [\fISOURCE\fP] [\fIoption\fP ...]",
        ".SH DESCRIPTION",
        *paragraphs(gpuwatch.help or ""),
        *paragraphs(
            f"Without a command, `gpuwatch SOURCE` is `gpuwatch {DEFAULT_COMMAND} SOURCE`: the screens. "
            "`?` lists their keys."
        ),
        ".SH COMMANDS",
    ]
    for name, command in commands:
        lines += described(name, command, context, common)
    lines += [
        ".SH COMMON OPTIONS",
        *paragraphs("Each command lists those that it accepts. All accept `-h` and `--help`."),
    ]
    for option in common:
        lines += option_lines(option)
    for title, rows in (("EXIT STATUS", CODES), ("ENVIRONMENT", VARIABLES), ("FILES", FILES)):
        lines.append(f".SH {title}")
        for term, text in rows:
            lines += tagged(rf"\fB{escaped(str(term))}\fP", text)
    lines += [".SH EXAMPLES", *paragraphs(EXAMPLES.replace("Examples:\n", "")), ".SH SEE ALSO"]
    lines += paragraphs("`ssh_config`(5), `nvidia-smi`(1), `srun`(1), `kubectl`(1), docs/ of the sources.")
    return re.sub(r"^(\.S[HS] .*)\n\.PP$", r"\1", "\n".join(lines), flags=re.MULTILINE) + "\n"


def all_commands(context: click.Context) -> Iterator[tuple[str, click.Command]]:
    """Yield (full name, command) in the order of the help; the subcommands of a group follow it."""
    for name in COMMANDS:
        command = gpuwatch.get_command(context, name)
        if command is not None:
            yield name, command
        if isinstance(command, click.Group):
            yield from ((f"{name} {inner}", each) for inner, each in sorted(command.commands.items()))


def shown_options(command: click.Command) -> list[click.Option]:
    """Return the options that a command's help lists."""
    return [each for each in command.params if isinstance(each, click.Option) and not each.hidden]


def meaning(option: click.Option) -> tuple[str, str]:
    """Return (names, help) of an option, which identify it across commands."""
    return "/".join(option.opts), option.help or ""


def common_options(commands: Sequence[click.Command]) -> list[click.Option]:
    """Return the options that at least `COMMON_FROM` commands have in common, in order of first use."""
    options = [option for command in commands for option in shown_options(command)]
    counts = Counter(map(meaning, options))
    found: dict[tuple[str, str], click.Option] = {}
    for option in options:
        if counts[meaning(option)] >= COMMON_FROM:
            found.setdefault(meaning(option), option)
    return list(found.values())


def described(name: str, command: click.Command, context: click.Context, common: Options) -> Iterator[str]:
    """Yield the roff lines of a command: usage, description, its own options, names of common ones."""
    shared = set(map(meaning, common))
    options = shown_options(command)
    yield f'.SS "gpuwatch {escaped(name)}"'
    pieces = command.collect_usage_pieces(click.Context(command, info_name=name, parent=context))
    yield rf"\fBgpuwatch {escaped(name)}\fP {escaped(' '.join(pieces))}"
    yield from paragraphs(command.help or "")
    for option in options:
        if meaning(option) not in shared:
            yield from option_lines(option)
    taken = [option.opts[-1] for option in options if meaning(option) in shared]
    if taken:
        yield from paragraphs(f"Common options: {', '.join(taken)}.")
    if command.epilog:
        yield from paragraphs(command.epilog)


def option_lines(option: click.Option) -> Iterator[str]:
    """Yield the roff lines of an option with its value and help."""
    record = option.get_help_record(click.Context(gpuwatch))
    if record is not None:
        words = NUMBER.sub("NUMBER", record[0]).split(" ")
        term = " ".join(rf"\f{'B' if word[0] == '-' else 'I'}{escaped(word)}\fP" for word in words)
        yield from tagged(term, record[1])


def tagged(term: str, text: str) -> list[str]:
    """Return the roff lines of a term and its description."""
    return [".TP", term, *filled(text)]


def paragraphs(text: str) -> Iterator[str]:
    r"""Yield the roff lines of a help text's paragraphs; those after click's `\b` keep their line breaks."""
    for paragraph in re.split(r"\n\s*\n", inspect.cleandoc(text)):
        lines = paragraph.split("\n")
        if lines[0].strip() == PREFORMATTED:
            yield from (".PP", ".nf", ".RS 2", *map(escaped, lines[1:]), ".RE", ".fi")
        else:
            yield from (".PP", *filled(paragraph))


def filled(text: str) -> list[str]:
    """Return running text as roff lines, one sentence or clause per line for readable diffs."""
    return [escaped(line) for line in re.split(r"(?<=[.;:?]) ", " ".join(text.split())) if line]


def escaped(text: str) -> str:
    """Return text with roff's special characters escaped; text in backticks becomes bold."""
    plain = text.translate(ROFF)
    plain = re.sub(r"`([^`]+)`", r"\\fB\1\\fP", plain)
    return rf"\&{plain}" if plain.startswith(".") else plain


if __name__ == "__main__":
    sys.stdout.write(page())
