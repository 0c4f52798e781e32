"""`gpuwatch completion`: prints the shell script that completes commands, options, files and node names."""

from __future__ import annotations

import sys

import click
from click.shell_completion import get_completion_class

from gpuwatch.cli.shared import exit_codes
from gpuwatch.cli.shared.output import writing

SHELLS = ("bash", "zsh", "fish")
VARIABLE = "_GPUWATCH_COMPLETE"
"""The environment variable with which the script calls gpuwatch to get completions."""

EXAMPLES = """\b
In ~/.bashrc:                    eval "$(gpuwatch completion bash)"
In ~/.zshrc:                     eval "$(gpuwatch completion zsh)"
In ~/.config/fish/config.fish:   gpuwatch completion fish | source"""


@click.command(epilog=EXAMPLES)
@click.argument("shell", type=click.Choice(SHELLS))
def completion(shell: str) -> int:
    """Print the completion script for a shell."""
    from gpuwatch.cli.main import gpuwatch  # noqa: PLC0415 - it imports this file when it is used

    made = get_completion_class(shell)
    if made is None:  # click knows all of SHELLS
        raise click.UsageError(f"no completion for {shell}")
    with writing():
        sys.stdout.write(_script(made(gpuwatch, {}, "gpuwatch", VARIABLE)) + "\n")
    return exit_codes.HEALTHY


def _script(made: click.shell_completion.ShellComplete) -> str:
    """Return the script without click's check of bash's version, because an old bash reports that itself."""
    return made.source_template % made.source_vars()
