"""The option `--history-from`: the Prometheus with the values of GPUs from before gpuwatch started."""

# ruff: noqa: PLC0415  a command imports only what it uses, so that --help and usage errors stay fast

from __future__ import annotations

from typing import TYPE_CHECKING

import click
from msgspec.structs import replace

if TYPE_CHECKING:
    from gpuwatch.link.stream.options import LinkOptions

history_option = click.option(
    "--history-from",
    metavar="URL",
    help="A Prometheus server with series of these GPUs: charts begin with its last day of data.",
)
"""Decorator that adds the option to a command over live nodes."""


def with_history(options: LinkOptions, url: str | None, *, recorded: bool) -> LinkOptions:
    """Return the options with the Prometheus at `url` as the history; unchanged if `url` is None.

    Raises:
        click.UsageError: The source is a recording or a Prometheus, which have a history of their own.
        click.BadParameter: `url` is not a URL.
    """
    if url is None:
        return options
    from gpuwatch.hosts.prometheus_target import PrometheusTarget
    from gpuwatch.hosts.receivers import ReceiverError, http_url

    if recorded or options.prometheus is not None:
        raise click.UsageError(
            "--history-from needs live nodes: a recording and --prometheus have their own history."
        )
    try:
        return replace(options, history=PrometheusTarget(http_url(url)))
    except ReceiverError as error:
        raise click.BadParameter(f"{error}.", param_hint="--history-from") from None
