"""The receivers of a command's incidents: `--alertmanager`, and those in the settings file."""

# ruff: noqa: PLC0415  a command imports only what it uses, so that --help and usage errors stay fast

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import click

from gpuwatch.cli.shared.source import Source

if TYPE_CHECKING:
    from gpuwatch.hosts.receivers import ReceiverSpec
    from gpuwatch.report.delivery.delivery import Delivery

alertmanager_option = click.option(
    "--alertmanager",
    "alertmanagers",
    metavar="URL",
    multiple=True,
    help="Deliver incidents to this Alertmanager too; the settings file may name more receivers (alerts).",
)


@contextlib.contextmanager
def delivering(
    source: Source, alertmanagers: Sequence[str], configured: Sequence[ReceiverSpec]
) -> Iterator[Delivery | None]:
    """Yield the delivery of a session's incidents, closed at the end; None if there is no receiver.

    Args:
        source: What is watched. Incidents of a recording are not delivered, those of the demo only to
            `alertmanagers`.
        alertmanagers: URLs of `--alertmanager`.
        configured: Receivers of the settings file.

    Raises:
        click.ClickException: A URL is invalid.
    """
    if not alertmanagers and not configured:
        yield None
        return
    from gpuwatch.hosts.receivers import ReceiverError, ReceiverSpec, http_url
    from gpuwatch.own_folders import state_folder
    from gpuwatch.report.delivery.delivery import Delivery

    try:
        asked = [ReceiverSpec("alertmanager", http_url(each)) for each in alertmanagers]
    except ReceiverError as error:
        raise click.BadParameter(f"{error}.", param_hint="--alertmanager") from None
    simulated = any(node.link == "demo" for node in source.plan.nodes)
    known = () if simulated else configured
    receivers = [*asked, *(each for each in known if each not in asked)]
    if not receivers or source.recording is not None:
        yield None
        return
    delivery = Delivery(receivers, source.plan.source, state_folder())
    try:
        yield delivery
    finally:
        delivery.close()


def tell_trouble(delivery: Delivery, printed: str) -> str:
    """Print a delivery problem on stderr if it differs from `printed`; return the current problem.

    When a problem has ended, print that; "" means no problem. Differences after the first comma, such as
    counts, are not printed.
    """
    trouble = delivery.trouble
    if trouble.partition(",")[0] != printed.partition(",")[0]:
        click.echo(f"gpuwatch: {trouble or 'alerts are delivered again'}", err=True)
    return trouble
