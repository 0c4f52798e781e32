"""The options that name nodes and how to connect to them, as click decorators; `source` reads them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import click
from msgspec import Struct

from gpuwatch.agent.base.settings import MAX_INTERVAL_S, MIN_INTERVAL_S
from gpuwatch.cli.shared import completed
from gpuwatch.cli.shared.renamed_option import RenamedOption

Decorator: TypeAlias = Callable[[Callable[..., int]], Callable[..., int]]

NODES: tuple[Decorator, ...] = (
    click.argument("named", metavar="[SOURCE]", required=False, shell_complete=completed.files),
    click.option("--local", is_flag=True, help="Monitor this machine."),
    click.option("--demo", is_flag=True, help="Monitor a simulated cluster."),
    click.option(
        "--slurm",
        metavar="[JOB|me]",
        is_flag=False,
        flag_value="",
        shell_complete=completed.slurm_jobs,
        help="Monitor the nodes of a Slurm job and its log files; without JOB: choose one on a screen; "
        "me: your only running job, else choose.",
    ),
    click.option(
        "--kube",
        metavar="SELECTOR",
        help="Monitor Kubernetes pods by kubectl: labels such as app=train, or job/NAME, jobset/NAME, "
        "pytorchjob/NAME, mpijob/NAME, rayjob/NAME, raycluster/NAME.",
    ),
    click.option("--namespace", metavar="NAME", help="The namespace of --kube (default: kubectl's own)."),
)
WATCHING: tuple[Decorator, ...] = (
    click.option(
        "-d",
        "--interval",
        type=click.FloatRange(MIN_INTERVAL_S, MAX_INTERVAL_S),
        help="Seconds between samples; overrides the hosts file (default 1).",
    ),
    click.option(
        "--log",
        "logs",
        metavar="GLOB",
        multiple=True,
        help="Also follow these log files on the nodes; the path may contain {rank}, {host} and {date}.",
    ),
)
PROMETHEUS: tuple[Decorator, ...] = (
    click.option(
        "--prometheus",
        metavar="URL",
        help="Read the nodes from this Prometheus, fed by dcgm-exporter, node-exporter or gpuwatch exporter.",
    ),
    click.option(
        "--selector",
        metavar="MATCHERS",
        help="""Label matchers of the series that --prometheus reads, such as 'cluster="a100"'.""",
    ),
    click.option(
        "--no-ssh",
        is_flag=True,
        help="With --prometheus: do not connect over ssh to a node whose screen is opened.",
    ),
)
at_option = click.option(
    "--at",
    metavar="TIME",
    help="Time of the recording to show, such as 12:03:11, '3m ago' (before its end) or +90s "
    "(default: its end; for open and dmon its beginning).",
)
LOGIN: tuple[Decorator, ...] = (
    click.option(
        "-F",
        "--ssh-config",
        type=click.Path(path_type=Path),
        help="ssh configuration file to use instead of ~/.ssh/config.",
    ),
    click.option("--ask-password", is_flag=True, help="Prompt for an ssh password before connecting."),
    click.option(
        "--accept-new-host-keys",
        is_flag=True,
        help="Record the keys of unknown hosts; a changed key is still refused.",
    ),
)
py_spy_option = click.option(
    "--py-spy",
    metavar="PATH",
    default="",
    help="Path of py-spy on the nodes (default: on PATH, else next to the rank's Python).",
)
upload_option = click.option(
    "--upload-py-spy",
    "--lend-py-spy",
    "upload_py_spy",
    cls=RenamedOption,
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Upload this machine's py-spy to nodes that have none, into memory; no file is written there.",
)


class SourceOptions(Struct, frozen=True):
    """Values of the options that name nodes and define how to connect to them, as click parsed them."""

    named: str | None = None
    local: bool = False
    demo: bool = False
    slurm: str | None = None
    kube: str | None = None
    namespace: str | None = None
    accept_new_host_keys: bool = False
    ask_password: bool = False
    ssh_config: Path | None = None
    interval: float | None = None
    logs: tuple[str, ...] = ()
    at: str | None = None
    prometheus: str | None = None
    selector: str | None = None
    no_ssh: bool = False


SOURCE_PARAMETERS = SourceOptions.__struct_fields__
