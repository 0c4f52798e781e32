"""Shell completions of values: files, the nodes of a source, themes, topics, ids of Slurm jobs."""

from __future__ import annotations

import click
from click.shell_completion import CompletionItem

MAX_NAMES = 1000


def files(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the completion that makes the shell complete file names itself."""
    return [CompletionItem(incomplete, type="file")]


def nodes(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the node names that begin with `incomplete`, of the source given earlier on the command line.

    At most 1000; empty if the source cannot be read.
    """
    from gpuwatch.hosts.builtin import demo_plan  # noqa: PLC0415 - only when a shell asks
    from gpuwatch.hosts.load import load_source  # noqa: PLC0415 - loaded when it is needed
    from gpuwatch.hosts.validation.errors import HostsError  # noqa: PLC0415 - loaded when it is needed

    named = ctx.params.get("named") or next(iter(ctx.args), None)  # click leaves it there at an open option
    try:
        plan = demo_plan() if ctx.params.get("demo") else load_source(named) if named else None
    except (HostsError, OSError):  # a completion cannot report an error
        return []
    names = [] if plan is None else [node.name for node in plan.nodes]
    return [CompletionItem(name) for name in names if name.startswith(incomplete)][:MAX_NAMES]


def themes(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return completion items with the names of themes that begin with `incomplete`."""
    from gpuwatch.tui.toolkit.themes import THEME_NAMES  # noqa: PLC0415 - only when a shell asks

    return [CompletionItem(name) for name in THEME_NAMES if name.startswith(incomplete)]


def explained(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the ids of topics, rules, alerts and metrics that begin with `incomplete`.

    If there are none, return those in which a part after a dot begins so: `xi` completes to
    `gpu.xid.fell_off`.
    """
    from gpuwatch.diagnose.explanations.explanation import all_explanations  # noqa: PLC0415 - only when a shell asks
    from gpuwatch.rules.load import load_packs  # noqa: PLC0415 - loaded when it is needed
    from gpuwatch.rules.model.rule import Rule  # noqa: PLC0415 - loaded when it is needed

    known = all_explanations({each.id: each for each in load_packs().all if isinstance(each, Rule)})
    found = [each for each in known if each.ident.startswith(incomplete)]
    found = found or [each for each in known if f".{incomplete}" in each.ident]
    return [CompletionItem(each.ident, help=each.title) for each in found]


def slurm_jobs(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the ids of this user's jobs in Slurm's queue that begin with `incomplete`, running ones first.

    Empty if squeue fails.
    """
    from gpuwatch.hosts.slurm.commands import queued_jobs  # noqa: PLC0415 - loaded when it is needed
    from gpuwatch.hosts.validation.errors import HostsError  # noqa: PLC0415 - only when a shell asks

    try:
        jobs = queued_jobs()
    except HostsError:  # a completion has no place to say why
        return []
    found = [job for job in jobs if job.id.startswith(incomplete)][:MAX_NAMES]
    return [CompletionItem(job.id, help=f"{job.state.lower()} {job.name}") for job in found]
