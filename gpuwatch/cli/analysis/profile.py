"""`gpuwatch profile`: samples the Python stacks of a running rank, or of two ranks side by side."""

# ruff: noqa: PLC0415  a command imports only what it uses, so that --help and usage errors stay fast

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gpuwatch.cli.analysis.stacks import POLL_S, reporting, wait_for_processes, wait_option
from gpuwatch.cli.shared import exit_codes
from gpuwatch.cli.shared.output import OutputError, writing
from gpuwatch.cli.shared.signals import leaving_politely
from gpuwatch.cli.shared.source import Refusal, Source, source_options
from gpuwatch.cli.shared.source_flags import py_spy_option, upload_option
from gpuwatch.plain import plain

if TYPE_CHECKING:
    from gpuwatch.diagnose.profiles.profiled_rank import ProfiledRank
    from gpuwatch.diagnose.training.job_view.rank_placement import PlacedRank, RankPlacement
    from gpuwatch.session import Session
    from gpuwatch.session.profile_query import ProfileQuery

MEDIAN = "median"
PACE_S = 8.0
"""Seconds to wait for the ranks' CPU use and step times, which are compared with those while sampling."""


class RankOrMedian(click.ParamType[int | str]):
    """A click parameter: a rank (int), or the word `median`."""

    name = "rank"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int | str:
        text = str(value)
        if text != MEDIAN and not (text.isascii() and text.isdecimal() and len(text) < 8):
            self.fail(f"{text!r} is neither a rank nor {MEDIAN}", param, ctx)
        return text if text == MEDIAN else int(text)


@click.command()
@source_options
@click.option("--rank", type=click.IntRange(0), required=True, help="The rank to sample.")
@click.option(
    "--against",
    type=RankOrMedian(),
    metavar="RANK|median",
    help="Sample this rank too, at the same time, and show the frames that differ first; median: the rank of "
    "the job with the median step time.",
)
@click.option("--job", metavar="JOB", help="The job of the rank, if several jobs have a rank of that number.")
@click.option(
    "--seconds", type=click.IntRange(1, 60), default=10, show_default=True, help="How long to sample."
)
@click.option(
    "--rate", type=click.IntRange(1, 500), default=100, show_default=True, help="Samples per second."
)
@click.option(
    "--blocking",
    is_flag=True,
    help="Stop the rank for each sample: exact, but it costs the rank time (default: read while it runs).",
)
@click.option(
    "--kernels",
    is_flag=True,
    help="Then have the rank itself record its GPU kernels for --seconds (at most 10), if it was started "
    "with KINETO_USE_DAEMON=1. It writes a trace into /dev/shm of its node; gpuwatch reads and deletes it.",
)
@py_spy_option
@upload_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON; see docs/json.md.")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE.svg",
    help="Also write the flame graph as SVG.",
)
@wait_option("Seconds for nodes to connect and list their processes.")
def profile(  # noqa: PLR0913, PLR0917 - click hands over every option
    source: Source,
    rank: int,
    against: int | str | None,
    job: str | None,
    seconds: int,
    rate: int,
    blocking: bool,
    kernels: bool,
    py_spy: str,
    as_json: bool,
    output: Path | None,
    wait_s: float,
) -> int:
    """Show where a running rank spends its time, without touching its code.

    py-spy samples the Python stacks of the rank on its node: as installed there (on PATH, or next to the
    rank's Python), or uploaded into memory by --upload-py-spy. Nothing is written on the node, except with
    --kernels. What it will cost the rank is printed before it starts, and what sampling did cost afterwards.
    The time of GPU kernels is seen with --kernels only; a frame that waits for the GPU always is.

    Exit status: 0 every rank was sampled (and recorded its kernels), 1 one was not, 2 wrong usage, no such
    rank or a recording.
    """
    from gpuwatch.diagnose.profiles.cost import ProfileOptions
    from gpuwatch.report.profile.json_output import profiles_json
    from gpuwatch.report.profile.text import print_profiles
    from gpuwatch.session.profile_query import ProfileQuery

    if source.recording is not None:
        raise Refusal([f"{source.recording}: a recording has no running rank to sample"])
    options = ProfileOptions(seconds, rate, blocking, py_spy, kernels)
    with leaving_politely(), source.session() as session, reporting() as report:
        places, placement = chosen_ranks(session, rank, against, job, wait_s, report)
        query = ProfileQuery(session, places, options, placement, session.clock.monotonic)
        follow(session, query, report, lambda: query.ready)
        click.echo(plain(f"{names_of(places)}: {query.cost}"), err=True)
        paced_by = time.monotonic() + PACE_S
        follow(session, query, report, lambda: query.paced or time.monotonic() > paced_by)
        query.start()
        follow(session, query, report, lambda: query.over)
        profiles = query.profiles()
    if output is not None and any(each.main is not None for each in profiles):
        write_svg(profiles, output)
    with writing():
        if as_json:
            sys.stdout.write(f"{profiles_json(profiles, options)}\n")
        else:
            print_profiles(profiles, rate, sys.stdout)
    complete = all(
        each.main is not None and (each.kernels is None or each.kernels.why is None) for each in profiles
    )
    return exit_codes.HEALTHY if complete else exit_codes.UNHEALTHY


def chosen_ranks(
    session: Session,
    rank: int,
    against: int | str | None,
    job: str | None,
    wait_s: float,
    report: Callable[[str], None],
) -> tuple[list[PlacedRank], RankPlacement]:
    """Return the ranks to sample with their nodes and processes, and the placement of all ranks.

    Waits at most `wait_s` for nodes to list their processes; for `against == "median"`, as long again for
    step times.

    Raises:
        Refusal: There is no such rank, or the rank with the median step time is not known in time.
    """
    from gpuwatch.diagnose.profiles.rank_choice import RankChoiceError, median_rank, rank_place
    from gpuwatch.diagnose.training.job_view.rank_placement import RankPlacement

    placement = RankPlacement()
    unasked = wait_for_processes(session, set(session.fleet.nodes), wait_s, report)
    placement.refresh(session.fleet)
    try:
        places = [rank_place(placement, rank, job)]
        if isinstance(against, int):
            places.append(rank_place(placement, against, places[0].job))
    except RankChoiceError as error:
        raise Refusal([str(error), *(f"{node}: {why}" for node, why in unasked.items())]) from error
    deadline = time.monotonic() + wait_s
    while against == MEDIAN and len(places) < 2:
        session.poll()
        placement.refresh(session.fleet)
        found = median_rank(
            session.fleet, placement, places[0], session.clock.monotonic(), session.clock.wall()
        )
        if found is not None:
            places.append(found)
        elif time.monotonic() > deadline:
            raise Refusal(["--against median: fewer than two other ranks log their steps; name a rank"])
        report("waiting for the step times of the ranks")
        time.sleep(POLL_S)
    return places, placement


def names_of(places: list[PlacedRank]) -> str:
    """Return the names of ranks with their nodes: `rank 5 (gpu-003), rank 2 (gpu-001)`."""
    return ", ".join(f"rank {place.rank} ({place.node})" for place in places)


def follow(
    session: Session, query: ProfileQuery, report: Callable[[str], None], done: Callable[[], bool]
) -> None:
    """Poll the session and the query until `done` returns True; `report` shows the progress."""
    while not done():
        session.poll()
        query.update()
        report(query.progress)
        time.sleep(POLL_S)


def write_svg(profiles: list[ProfiledRank], path: Path) -> None:
    """Write the flame graphs of the profiles into one SVG file.

    Raises:
        OutputError: The file cannot be written.
    """
    from gpuwatch.report.profile.svg import flame_svg
    from gpuwatch.whole_file import own_target, write_whole

    try:
        write_whole(own_target(path), flame_svg(profiles).encode())
    except OSError as error:
        raise OutputError(f"{path}: {error.strerror or error}") from error
