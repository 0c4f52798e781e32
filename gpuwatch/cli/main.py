"""The `gpuwatch` command: parses the arguments, then imports only the module of the requested command."""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

from gpuwatch import __version__
from gpuwatch.cli.shared import exit_codes
from gpuwatch.cli.shared.output import drop_unwritable_output, open_closed_streams, write_any_character
from gpuwatch.plain import plain

COMMANDS: dict[str, tuple[str, str, str]] = {
    "watch": ("gpuwatch.cli.monitor.watch", "watch", "Open the screens (the default command)."),
    "once": (
        "gpuwatch.cli.monitor.once",
        "once",
        "Print one report; exit 0 if all is healthy, else 1.",
    ),
    "dmon": (
        "gpuwatch.cli.monitor.dmon",
        "dmon",
        "Print a line per GPU and interval, like nvidia-smi dmon.",
    ),
    "scan": ("gpuwatch.cli.analysis.scan", "scan", "Find what failed first in the logs of an ended job."),
    "stacks": (
        "gpuwatch.cli.analysis.stacks",
        "stacks",
        "Find the rank that a hung job is waiting for.",
    ),
    "evidence": (
        "gpuwatch.cli.analysis.evidence",
        "evidence",
        "Write one zip file about an incident or a job, for support.",
    ),
    "incidents": (
        "gpuwatch.cli.analysis.incidents",
        "incidents",
        "List the incidents of all sessions, per node and GPU.",
    ),
    "probe": (
        "gpuwatch.cli.probe.command",
        "probe",
        "Measure the links between GPUs; find slow nodes and links.",
    ),
    "flight": (
        "gpuwatch.cli.analysis.flight",
        "flight",
        "Find the missing rank in flight-recorder dumps.",
    ),
    "trace": (
        "gpuwatch.cli.analysis.trace",
        "trace",
        "Show where the time of a profiled training run went.",
    ),
    "memory": (
        "gpuwatch.cli.analysis.memory",
        "memory",
        "Show what the ranks of a job hold in GPU memory.",
    ),
    "profile": (
        "gpuwatch.cli.analysis.profile",
        "profile",
        "Show where a running rank spends its time.",
    ),
    "check": (
        "gpuwatch.cli.monitor.check",
        "check",
        "Run the preflight checks of a job.",
    ),
    "exporter": (
        "gpuwatch.cli.monitor.exporter",
        "exporter",
        "Serve Prometheus metrics of nodes, GPUs, ranks and alerts.",
    ),
    "serve": ("gpuwatch.cli.serve.command", "serve", "Serve the screens to browsers."),
    "run": ("gpuwatch.cli.run.command", "run", "Run a training command and keep a session of it."),
    "runs": ("gpuwatch.cli.runs.reports", "runs", "List, compare and report training sessions."),
    "record": ("gpuwatch.cli.monitor.record", "record", "Record a cluster into a file, without a screen."),
    "open": (
        "gpuwatch.cli.analysis.open",
        "open_past",
        "Open the screens over a recording or the logs of an ended job.",
    ),
    "hosts": ("gpuwatch.cli.config.hosts", "hosts", "Check a hosts file, or print its JSON Schema."),
    "explain": (
        "gpuwatch.cli.config.explain",
        "explain",
        "Explain a topic, a rule, an alert or a metric.",
    ),
    "rules": ("gpuwatch.cli.config.rules", "rules", "List, explain and test the log rules."),
    "config": (
        "gpuwatch.cli.config.settings",
        "config",
        "Show or edit your settings (theme, columns, keys, ...).",
    ),
    "completion": (
        "gpuwatch.cli.config.completion",
        "completion",
        "Print the completion script for a shell.",
    ),
}
"""Command -> (module, attribute, line in --help); help therefore imports none of the modules."""

ALIASES = {"replay": "open"}
"""Other names of commands -> the command; help does not list them."""
DEFAULT_COMMAND = "watch"

EXAMPLES = """\
\b
Examples:
  gpuwatch hosts.yaml              every GPU of a cluster, over ssh
  gpuwatch 'gpu-[001-016]'         the same without a file
  gpuwatch --local                 this machine
  gpuwatch --demo                  a simulated cluster, no GPU and no ssh
  gpuwatch once hosts.yaml         one report, for scripts and `watch`
  gpuwatch once --local --json     the same as JSON
  gpuwatch dmon hosts.yaml -s pu   one line per GPU and second
  gpuwatch scan logs/              what failed first in an ended job
  gpuwatch run -- torchrun t.py    run a training, keep a session of it
  gpuwatch runs compare            compare the sessions below ./logs
  gpuwatch probe hosts.yaml        which node, NIC or link is slow
  gpuwatch check hosts.yaml        preflight checks: ranks, versions, settings, GPUs
  gpuwatch hosts check hosts.yaml  what works on which node, and why not

`gpuwatch COMMAND --help` lists the options of a command; `gpuwatch watch --help` those of the screens."""


class CommandLine(click.Group):
    """A click group whose commands are imported when used; any other first word is an argument of `watch`."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  click's signature
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002  click's
        """Import and return a command by its name or alias; None if there is none of that name."""
        cmd_name = ALIASES.get(cmd_name, cmd_name)
        if cmd_name not in COMMANDS:
            return None
        module, attribute, _ = COMMANDS[cmd_name]
        command: click.Command = getattr(importlib.import_module(module), attribute)
        return command

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Insert `watch` before a first word that is no command; without arguments insert `watch --local`.

        Raises:
            click.UsageError: The first word looks like a misspelt command.
        """
        if ctx.resilient_parsing and (not args or args[0] in ("-h", "--help", "--version")):
            return super().parse_args(ctx, args)  # a shell asks what may come next
        if not args:
            args = [DEFAULT_COMMAND, "--local"]
        if args[0] not in COMMANDS.keys() | ALIASES.keys() | {"-h", "--help", "--version"}:
            if not ctx.resilient_parsing:
                refuse_misspelt_command(ctx, args[0])
            args = [DEFAULT_COMMAND, *args]
        return super().parse_args(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Return the completions of `incomplete`: commands and file names, or options if it begins with `-`.

        Commands are not imported for this, except `watch` for its options.
        """
        names = [CompletionItem(name, help=each[2]) for name, each in COMMANDS.items()]
        found = [item for item in names if item.value.startswith(incomplete)]
        if incomplete.startswith("-"):
            watching = self.get_command(ctx, DEFAULT_COMMAND)
            options = [] if watching is None else watching.shell_complete(ctx, incomplete)
            return [*click.Command.shell_complete(self, ctx, incomplete), *options]
        return [CompletionItem(incomplete, type="file"), *found]  # bash's script drops what precedes a file

    def format_usage(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002  click's
        """Write the usage lines: one without and one with a command."""
        formatter.write_usage("gpuwatch", "SOURCE | --local | --demo | --prometheus URL  [OPTIONS]")
        formatter.write_usage(
            "gpuwatch", "COMMAND SOURCE | --local | --demo | ...  [OPTIONS]", prefix=" " * 7
        )

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002  click's
        """Write the list of commands from `COMMANDS`, so that help imports none of them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, _, line) in COMMANDS.items()])


def refuse_misspelt_command(ctx: click.Context, word: str) -> None:
    """Refuse a first word that resembles a command, such as `onec`, unless it has a suffix or is a file.

    Raises:
        click.UsageError: The word resembles a command, which the message names.
    """
    if word.startswith("-") or Path(word).suffix or Path(word).exists():
        return
    from gpuwatch.hosts.validation.nearest_word import nearest  # noqa: PLC0415 - a misspelt word alone needs it

    close = nearest(word, COMMANDS, 0.7)
    if close:
        raise click.UsageError(
            f"no such file or command: {word!r}; did you mean {close!r}? "
            f"(If {word} is a node, use gpuwatch watch {word})",
            ctx,
        )


@click.command(
    cls=CommandLine,
    epilog=EXAMPLES,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name="gpuwatch", message="%(prog)s %(version)s")
def gpuwatch() -> None:
    """Every GPU of a training cluster in one terminal, with nothing installed on the nodes.

    SOURCE is a hosts file (YAML, a plain list of names, an MPI or DeepSpeed hostfile) or a node range
    such as 'gpu-[001-016]'.
    """


def sanitized(message: str) -> str:
    """Return the message without control characters, line by line.

    The message may quote the name of another user's file.
    """
    return "\n".join(map(plain, message.split("\n")))


def main() -> None:
    """Run the command line and exit the process.

    Usage errors, Ctrl-C and internal errors print one message and exit with a documented status; with
    GPUWATCH_DEBUG an internal error is raised.
    """
    open_closed_streams()
    write_any_character()
    try:
        result: Any = gpuwatch.main(prog_name="gpuwatch", standalone_mode=False)
    except SystemExit:  # a signal
        drop_unwritable_output()
        raise
    except click.ClickException as error:
        vars(error)["message"] = sanitized(error.message)
        error.show()
        sys.exit(error.exit_code)
    except click.Abort:
        click.echo("gpuwatch: interrupted", err=True)
        sys.exit(exit_codes.INTERRUPTED)
    except Exception as error:  # the last resort: a sentence instead of a traceback over the terminal
        if os.environ.get("GPUWATCH_DEBUG"):
            raise
        click.echo(
            f"gpuwatch: internal error: {type(error).__name__}: {sanitized(str(error))}\n"
            "Run it again with GPUWATCH_DEBUG=1 for a traceback, and report it.",
            err=True,
        )
        sys.exit(exit_codes.INTERNAL)
    if isinstance(result, int) and result > exit_codes.SIGNALLED:
        drop_unwritable_output()
    sys.exit(result if isinstance(result, int) else exit_codes.HEALTHY)
