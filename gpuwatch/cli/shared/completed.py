"""Shell completions of option values: files, and the nodes of the source on the command line."""

from __future__ import annotations

import click
from click.shell_completion import CompletionItem

MAX_NAMES = 1000


def files(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the completion that makes the shell complete file names itself."""
    return [CompletionItem(incomplete, type="file")]


def nodes(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the node names that begin with `incomplete`, of the source that stands earlier on the line.

    At most 1000; empty if the source cannot be read.
    """
    from gpuwatch.hosts.builtin import demo_plan  # noqa: PLC0415 - only when a shell asks
    from gpuwatch.hosts.errors import HostsError  # noqa: PLC0415 - loaded when it is needed
    from gpuwatch.hosts.load import load_source  # noqa: PLC0415 - loaded when it is needed

    named = ctx.params.get("named") or next(iter(ctx.args), None)  # click leaves it there at an open option
    try:
        plan = demo_plan() if ctx.params.get("demo") else load_source(named) if named else None
    except (HostsError, OSError):  # a completion has no place to say why
        return []
    names = [] if plan is None else [node.name for node in plan.nodes]
    return [CompletionItem(name) for name in names if name.startswith(incomplete)][:MAX_NAMES]
