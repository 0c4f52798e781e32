"""`gpuwatch stacks`: finds the rank that a hung job waits for, by the ranks' stacks and NCCL's counters."""

# ruff: noqa: PLC0415  a command imports only what it uses, so that --help and usage errors stay fast

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, TypeVar

import click

from gpuwatch.cli.shared import completed, exit_codes
from gpuwatch.cli.shared.output import writing
from gpuwatch.cli.shared.renamed_option import RenamedOption
from gpuwatch.cli.shared.signals import leaving_politely
from gpuwatch.cli.shared.source import Refusal, Source, source_options
from gpuwatch.cli.shared.source_flags import py_spy_option, upload_option

if TYPE_CHECKING:
    from gpuwatch.report.hang.process_stacks import SeenProcess
    from gpuwatch.session import Session
    from gpuwatch.session.hang.hang_query import HangQuery

Command = TypeVar("Command", bound="Callable[..., Any]")
POLL_S = 0.05
WAIT_S = 15.0
"""Seconds to wait for a node's process list; then the node is left out, as the report states."""


def wait_option(help: str) -> Callable[[Command], Command]:  # noqa: A002 - click's word
    """Return a decorator that adds the option `--wait`, the seconds to wait for nodes."""
    return click.option(
        "--wait", "wait_s", type=click.FloatRange(0, 3600), default=WAIT_S, show_default=True, help=help
    )


@click.command()
@source_options
@click.option("--json", "as_json", is_flag=True, help="Print JSON; see docs/json.md.")
@click.option(
    "--node",
    "nodes",
    multiple=True,
    metavar="NAME",
    shell_complete=completed.nodes,
    help="Query only this node; may be repeated.",
)
@click.option(
    "--pid",
    "pids",
    type=click.IntRange(1),
    multiple=True,
    metavar="PID",
    help="Query this process, rank or not; may be repeated. --node names its node.",
)
@py_spy_option
@upload_option
@click.option("--no-py-spy", is_flag=True, help="Use kernel process state only.")
@click.option("--no-ras", is_flag=True, help="Do not query NCCL RAS.")
@click.option(
    "--dumps",
    flag_value="left",
    help="Also fetch and analyze the flight-recorder dumps that exist on the nodes.",
)
@click.option(
    "--trigger-dumps",
    "--fresh-dumps",
    "dumps",
    cls=RenamedOption,
    flag_value="fresh",
    help="Make the ranks write dumps first, over older ones in the job's dump path. The job keeps running.",
)
@wait_option(
    "Seconds to wait for the nodes' process lists. The same time, but at least 20 s, is then waited for "
    "their answers."
)
def stacks(  # noqa: PLR0913, PLR0917 - click hands over every option
    source: Source,
    as_json: bool,
    nodes: tuple[str, ...],
    pids: tuple[int, ...],
    py_spy: str,
    no_py_spy: bool,
    no_ras: bool,
    dumps: str | None,
    wait_s: float,
) -> int:
    """Find the rank that a hung job is waiting for.

    The stacks of all ranks are sampled at once: Python stacks from py-spy where it is installed or
    uploaded (it does not stop the ranks), else from torch's debug socket if the job has one
    (TORCH_WORKER_SERVER_SOCKET), else the kernel's process state. Ranks are grouped by location,
    smallest group first. NCCL RAS (2.24 and later) adds the ranks that launched fewer collectives, do
    not answer or are dead. Nothing is installed or left on a node.

    Processes that use a GPU and have no rank, and those given by --pid, are listed separately.

    --dumps also analyzes the flight-recorder dumps of the running job, as `gpuwatch flight` does;
    --trigger-dumps needs TORCH_NCCL_DEBUG_INFO_PIPE_FILE in the environment of the ranks.

    Exit status: 0 no rank stands out, 1 a rank does, 2 wrong usage, no node could be queried,
    or the recording holds no answer.
    """
    from gpuwatch.report.hang.stacks import print_stacks, stacks_json
    from gpuwatch.session.hang.hang_query import MAX_QUERY_S, HangQuery, HangSources
    from gpuwatch.wire import NOT_RECORDED

    chosen = chosen_nodes(source, nodes)
    with leaving_politely(), source.session() as session:
        with reporting() as report:
            unasked = wait_for_processes(session, chosen, wait_s, report)
            query = HangQuery(
                session,
                clock=session.clock,
                nodes=chosen,
                sources=HangSources(None if no_py_spy else py_spy, ras=not no_ras, dumps=dumps is not None),
                longest_s=max(MAX_QUERY_S, wait_s),
            )
            follow(session, query, report)
            if dumps == "fresh" and query.write_dumps():
                follow(session, query, report)
            seen = other_processes(
                session, chosen, pids, None if no_py_spy else py_spy, max(MAX_QUERY_S, wait_s)
            )
        hang_report = query.hang_report(session.fleet)
    if len(unasked) == len(chosen):
        raise Refusal([f"{name}: {why}" for name, why in unasked.items()])
    if session.recorded and not hang_report.answered and not any(each.stack for each in seen):
        raise Refusal([f"{source.recording}: {NOT_RECORDED}: the ranks' stacks"])
    with writing():
        if as_json:
            sys.stdout.write(f"{stacks_json(hang_report, unasked, seen)}\n")
        else:
            print_stacks(hang_report, unasked, sys.stdout, seen, session.clock.wall())
    wrong = hang_report.verdict is not None and hang_report.verdict.wrong
    return exit_codes.UNHEALTHY if wrong else exit_codes.HEALTHY


def chosen_nodes(source: Source, nodes: tuple[str, ...]) -> set[str]:
    """Return the names given by `--node`, or of all nodes if none are given.

    Raises:
        Refusal: A name is not in the plan.
    """
    known = {spec.name: None for spec in source.plan.nodes}
    if unknown := [name for name in nodes if name not in known]:
        from gpuwatch.hosts.names import fold

        raise Refusal([f"--node {name}: no such node; choose from {fold(known)}" for name in unknown])
    return set(nodes or known)


def other_processes(
    session: Session, chosen: set[str], pids: tuple[int, ...], py_spy: str | None, longest_s: float
) -> list[SeenProcess]:
    """Return the processes of `--pid`, or without it those that use a GPU without being a rank, with stacks.

    A process whose stack could not be read has the reason instead. If several nodes are queried, a pid is
    left out on nodes that do not have it.
    """
    from gpuwatch.report.hang.process_stacks import SeenProcess
    from gpuwatch.session.process_query import ask_processes, holders

    def poll() -> None:
        session.poll()
        time.sleep(POLL_S)

    nodes = {name: node for name, node in session.fleet.nodes.items() if name in chosen}
    wanted = {name: pids or holders(node) for name, node in nodes.items()}
    stacks, trouble = ask_processes(session, wanted, py_spy, longest_s, poll)
    found = []
    for name, own in wanted.items():
        known = {process.pid: process for process in nodes[name].processes}
        indexes = {gpu.info.uuid: gpu.info.index for gpu in nodes[name].gpus.values()}
        for pid in own:
            stack, process = stacks.get((name, pid)), known.get(pid)
            if stack is None and pids and len(nodes) > 1 and name not in trouble:
                continue  # it is of another node
            held = [indexes[hold.uuid] for hold in (process.gpus if process else ()) if hold.uuid in indexes]
            why = None if stack is not None else trouble.get(name, "no such process")
            called = None if process is None else process.name
            found.append(SeenProcess(name, pid, called, tuple(sorted(held)), stack, why))
    return found


def wait_for_processes(
    session: Session, chosen: set[str], longest_s: float, report: Callable[[str], None]
) -> dict[str, str]:
    """Poll until every chosen node that is not lost has listed its processes, at most `longest_s` seconds.

    Returns node -> reason for the nodes that have not. A recording is not waited for.
    """
    deadline = time.monotonic() + longest_s
    nodes = [node for node in session.fleet.nodes.values() if node.name in chosen]
    while True:
        session.poll()
        missing = [node for node in nodes if node.processes_at is None]
        now = session.clock.monotonic()
        open_ones = [node for node in missing if node.state(now) != "lost"]
        if not open_ones or session.recorded or time.monotonic() >= deadline:
            break
        report(f"waiting for {len(open_ones)} of {len(nodes)} nodes")
        time.sleep(POLL_S)
    return {node.name: node.link.reason or f"no answer within {longest_s:.0f} s" for node in missing}


def follow(session: Session, query: HangQuery, report: Callable[[str], None]) -> None:
    """Poll the session and the query until all nodes have answered or timed out; show the progress."""
    while not query.over:
        session.poll()
        query.update()
        waiting = f"waiting for {', '.join(query.waiting[:4])}" if query.waiting else ""
        report("; ".join(filter(None, (query.progress or "querying the ranks", waiting))))
        time.sleep(POLL_S)


def reporting() -> AbstractContextManager[Callable[[str], None]]:
    """Return a context that gives a function to show a text on stderr. Silent without a terminal."""
    if not sys.stderr.isatty():
        return contextlib.nullcontext(lambda _words: None)
    from gpuwatch.report.once.spinner import words_line

    return words_line()
