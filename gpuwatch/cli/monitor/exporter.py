"""`gpuwatch exporter`: serves Prometheus metrics of a session."""

# ruff: noqa: PLC0415  a command imports only what it uses, so that --help and usage errors stay fast

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from gpuwatch.cli.shared import exit_codes
from gpuwatch.cli.shared.output import writing
from gpuwatch.cli.shared.receivers import alertmanager_option, delivering, tell_trouble
from gpuwatch.cli.shared.signals import ended_by_signal
from gpuwatch.cli.shared.source import Refusal, Source, source_options
from gpuwatch.plain import plain

if TYPE_CHECKING:
    from gpuwatch.report.delivery.delivery import Delivery
    from gpuwatch.report.exporter.page import MetricsPage
    from gpuwatch.report.exporter.scrape import Scraper
    from gpuwatch.report.exporter.server import MetricsServer
    from gpuwatch.session import Session

POLL_S, LONGEST_POLL_S, PART_OF_INTERVAL = 1.0, 3.0, 0.2
"""Seconds between two polls of received frames: a fifth of the sampling interval, within two limits.

A scrape does not wait for the next poll.
"""
DEFAULT_LISTEN = "127.0.0.1:9480"


@click.command()
@source_options
@click.option(
    "--listen",
    metavar="HOST:PORT",
    default=DEFAULT_LISTEN,
    show_default=True,
    help="Address to serve /metrics on; :PORT listens on all interfaces.",
)
@click.option(
    "--web-config",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="TLS and users, in the format of Prometheus' exporters (tls_server_config, basic_auth_users).",
)
@click.option(
    "--dcgm-names", is_flag=True, help="Also write the DCGM_FI_* names and labels of dcgm-exporter."
)
@click.option(
    "--max-series",
    type=click.IntRange(1_000, 5_000_000),
    default=200_000,
    show_default=True,
    help="Maximum samples of one page; further ones are left out and counted.",
)
@alertmanager_option
@click.option(
    "--print-rules", is_flag=True, help="Print alert rules for Prometheus from SOURCE's thresholds, and exit."
)
def exporter(
    source: Source,
    listen: str,
    web_config: Path | None,
    dcgm_names: bool,
    max_series: int,
    print_rules: bool,
    alertmanagers: tuple[str, ...],
) -> int:
    """Serve Prometheus metrics of nodes, GPUs, ranks, jobs, alerts and incidents.

    A value that is not known is absent, never 0. The page is made when it is scraped. Ctrl-C ends it.

    Exit status: 0 ended by Ctrl-C or TERM, 2 wrong usage, or the address cannot be bound.
    """
    from gpuwatch.cli.config.settings import configured_receivers
    from gpuwatch.report.exporter.alert_rules import rule_file
    from gpuwatch.report.exporter.scrape import Scraper

    if print_rules:
        with writing():
            click.echo(rule_file(source.plan.thresholds), nl=False)
        return exit_codes.HEALTHY
    server = open_server(listen, web_config)
    scraper = Scraper(max_series, dcgm_names)
    try:
        with (
            ended_by_signal(),
            delivering(source, alertmanagers, configured_receivers()) as delivery,
            source.session() as session,
        ):
            server.start()
            click.echo(f"gpuwatch: metrics at {server.url}", err=True)
            serve(session, server, scraper, delivery)
    finally:
        server.close()
    return exit_codes.HEALTHY


def open_server(listen: str, web_config: Path | None) -> MetricsServer:
    """Bind the address and return the server, not started; warn on stderr if other users can reach it.

    Raises:
        click.ClickException: The address is invalid or cannot be bound, or `web_config` has problems.
    """
    from gpuwatch.hosts.validation.errors import HostsError
    from gpuwatch.report.exporter.server import MetricsServer
    from gpuwatch.report.exporter.web_config import read_web_config
    from gpuwatch.report.output.listen_address import ListenError

    try:
        server = MetricsServer(listen, None if web_config is None else read_web_config(web_config))
    except HostsError as error:
        raise Refusal(list(error.problems)) from error
    except ListenError as error:
        raise click.BadParameter(f"{error}.", param_hint="--listen") from error
    except OSError as error:
        raise Refusal([f"--listen {listen}: {error.strerror or error}"]) from error
    if server.exposed:
        click.echo(
            f"gpuwatch: anyone who can reach {server.url} can read it; --web-config sets TLS and users",
            err=True,
        )
    return server


def serve(session: Session, server: MetricsServer, scraper: Scraper, delivery: Delivery | None) -> None:
    """Poll a started session, answer scrapes and deliver incidents until interrupted.

    Problems go to stderr.
    """
    dropped, trouble, fault = 0, "", ""
    pause_s = min(LONGEST_POLL_S, max(POLL_S, session.plan.interval_s * PART_OF_INTERVAL))

    def make() -> MetricsPage:
        receivers = () if delivery is None else delivery.status()
        clock = session.clock
        return scraper.page(session.fleet, session.book, clock.monotonic(), clock.wall(), receivers)

    while True:
        session.poll()
        server.answer(make)
        if server.fault != fault:
            fault = server.fault
            click.echo(f"gpuwatch: internal error in a page, please report it: {plain(fault)}", err=True)
        if delivery is not None:
            delivery.update(session.book.incidents)
            trouble = tell_trouble(delivery, trouble)
        if scraper.dropped > 0 and not dropped:
            dropped = scraper.dropped
            click.echo(
                f"gpuwatch: {dropped} samples exceed the exporter's limits and are left out; "
                "gpuwatch_exporter_dropped_series counts them, --max-series sets the largest limit",
                err=True,
            )
        server.wait(pause_s)
