"""Results of `gpuwatch hosts check` as data, JSON and text: what works on each node, and why not."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TextIO

import msgspec
from msgspec import Struct
from msgspec.structs import asdict, replace
from rich.console import Console
from rich.table import Table
from rich.text import Text

from gpuwatch.blocks.model import Style
from gpuwatch.fleet.fleet import Fleet
from gpuwatch.fleet.nodes.node import Node
from gpuwatch.hosts.names import fold
from gpuwatch.hosts.plan import NodeSpec
from gpuwatch.link.stream.login_facts import LoginFacts
from gpuwatch.plain import plain_json
from gpuwatch.report.once.problem_lines import notice_text
from gpuwatch.report.output.console import STYLES, console_on
from gpuwatch.session import Session
from gpuwatch.shell_command import command_line
from gpuwatch.wire import Hello

POLL_S = 0.05
SLOW_START_S = 2.0
"""Seconds; a slower login shell delays every reconnect, so its rc files should be checked."""
CLOCK_TOLERANCE_S = 1.0
"""Offset in seconds above which logs of different nodes can no longer be ordered."""


class NodeCheck(Struct, frozen=True):
    """The result of the check of one node. None: unknown."""

    name: str
    ok: bool
    link: str
    target: str
    """`user@host:port`, the command, or another description of the link."""
    error: str | None = None
    """Why the node cannot be monitored."""
    problems: tuple[str, ...] = ()
    """Problems of a node that can be monitored."""
    notes: tuple[str, ...] = ()
    """What the agent cannot read on the node, and other remarks."""
    host_key: str | None = None
    verified_by: str | None = None
    accepted_at: str | None = None
    """The file in which a newly accepted host key was recorded; nothing had verified that key before."""
    authenticated_by: str | None = None
    start_s: float | None = None
    noise: str | None = None
    python: str | None = None
    driver: str | None = None
    cuda: str | None = None
    gpus: int | None = None
    gpus_expected: int | None = None
    gpu_names: tuple[str, ...] = ()
    clock_offset_s: float | None = None
    clock_error_s: float | None = None
    kernel_log: str | None = None


# --------------------------------------------------------------------------- finding out


def settled(node: Node) -> bool:
    """Return True if the link failed, or inventory, clock and the first values of all GPUs have arrived.

    GPUs that are stuck or lost are not waited for.
    """
    if node.link.phase == "lost":
        return True
    read = all(gpu.state not in ("ok", "unanswered") or gpu.fast is not None for gpu in node.gpus.values())
    return node.hello is not None and node.clock is not None and read


def check_fleet(
    session: Session,
    longest_s: float,
    ssh_config: str | None = None,
    clock: Callable[[], float] = time.monotonic,
    pause: Callable[[float], None] = time.sleep,
) -> list[NodeCheck]:
    """Poll a started session until every node has settled, or for `longest_s` seconds.

    Return one result per node.

    A node whose link fails keeps that result while others are waited for, unless a later attempt succeeds.
    `ssh_config` replaces the user's for the addresses of ssh nodes without a login.
    """
    deadline = clock() + longest_s
    failed: dict[str, NodeCheck] = {}
    while True:
        session.poll()
        waiting = False
        for name, node in session.fleet.nodes.items():
            if node.link.phase == "lost":
                failed[name] = check_node(node, longest_s)
            waiting = waiting or not (settled(node) or name in failed)
        if not waiting or clock() >= deadline:
            checks = _results(session.fleet, failed, longest_s)
            return _with_ways(checks, session.fleet, ssh_config)
        pause(POLL_S)


def _results(fleet: Fleet, failed: Mapping[str, NodeCheck], waited_s: float) -> list[NodeCheck]:
    return [
        failed[name] if node.hello is None and name in failed else check_node(node, waited_s)
        for name, node in fleet.nodes.items()
    ]


def _with_ways(checks: list[NodeCheck], fleet: Fleet, ssh_config: str | None) -> list[NodeCheck]:
    """Return the results with the target that ssh_config gives for ssh nodes that have no login."""
    unknown = [node.spec for node in fleet.nodes.values() if node.spec.link == "ssh" and not node.link.login]
    if not unknown:
        return checks
    from gpuwatch.link.ssh.routes import Route, Routes  # noqa: PLC0415  a check without ssh has no use for it

    ways = Routes(ssh_config).find(unknown)
    return [
        replace(check, target=way.words) if isinstance(way := ways.get(check.name), Route) else check
        for check in checks
    ]


def check_node(node: Node, waited_s: float) -> NodeCheck:
    """Return the result for a node after waiting for `waited_s` seconds."""
    login, hello = node.link.login, node.hello
    error = None if hello is not None and node.link.phase != "lost" else _failure(node, waited_s)
    problems, notes = _judged(node, hello) if hello else ([], [])
    slow = node.link.start_s is not None and node.link.start_s > SLOW_START_S
    if slow:
        notes.append(f"the login shell took {node.link.start_s:.1f} s to start; check its rc files")
    return NodeCheck(
        name=node.name,
        ok=error is None and not problems,
        link=node.spec.link,
        target=_target(node.spec, login),
        error=error,
        problems=tuple(problems),
        notes=tuple(notes),
        host_key=login.host_key if login else None,
        verified_by=login.verified_by if login else None,
        accepted_at=login.accepted_at if login else None,
        authenticated_by=login.authenticated_by if login else None,
        start_s=node.link.start_s,
        noise=node.link.noise or None,
        python=hello.python if hello else None,
        driver=hello.driver if hello else None,
        cuda=hello.cuda if hello else None,
        gpus=node.gpus_present() if hello else None,
        gpus_expected=node.gpus_expected() if hello else None,
        gpu_names=tuple(gpu.info.name or "not known yet" for gpu in node.gpu_list()),
        clock_offset_s=node.clock.offset_s if node.clock else None,
        clock_error_s=node.clock.error_s if node.clock else None,
        kernel_log=hello.kernel_log if hello else None,
    )


def _failure(node: Node, waited_s: float) -> str:
    if node.bye:
        return f"the agent exited: {node.bye}"
    return node.link.reason or f"no answer within {waited_s:g} s; the node may be down or behind a firewall"


def _target(spec: NodeSpec, login: LoginFacts | None) -> str:
    if spec.link == "command":
        return command_line(spec.command)
    if spec.link != "ssh":
        return {"local": "this machine, without ssh", "demo": "simulated"}.get(spec.link, spec.link)
    if login is not None:
        through = f" through {login.jump}" if login.jump else ""
        return f"{login.user}@{login.hostname}:{login.port}{through}"
    user = f"{spec.user}@" if spec.user else ""
    port = f":{spec.port}" if spec.port else ""
    return f"{user}{spec.address or spec.name}{port}"


def _judged(node: Node, hello: Hello) -> tuple[list[str], list[str]]:
    """Return the problems of a connected node, and remarks."""
    problems = [notice_text(notice) for notice in hello.notices if notice.severity != "info"]
    notes = [notice_text(notice) for notice in hello.notices if notice.severity == "info"]
    present, expected = node.gpus_present(), node.gpus_expected()
    if present < expected and not any(notice.code == "gpu_missing" for notice in hello.notices):
        problems.append(f"{present} of {expected} GPUs present")
    for gpu in node.gpu_list():
        if gpu.state == "stuck":
            problems.append(
                f"GPU {gpu.info.index} does not answer: stuck in {gpu.stuck_in or 'an NVML call'}"
            )
        elif gpu.state == "unanswered":
            problems.append(f"GPU {gpu.info.index} has not answered yet")
        elif gpu.state == "lost":
            problems.append(f"GPU {gpu.info.index} is lost: {gpu.reason or 'no reason given'}")
    if hello.kernel_log is None and not any("kernel_log" in notice.code for notice in hello.notices):
        notes.append("the kernel log cannot be read; Xid messages come from the driver only")
    if node.clock and abs(node.clock.offset_s) - node.clock.error_s > CLOCK_TOLERANCE_S:
        notes.append(f"its clock is {_signed(node.clock.offset_s)} s off; check chrony or ntpd on the node")
    return problems, [*notes, *_unreadable(node)]


def _unreadable(node: Node) -> list[str]:
    """Return one sentence for each reason why values are missing, with the names of the values."""
    fields: dict[str, dict[str, None]] = {}
    for gpu in node.gpu_list():
        for field, reason in gpu.missing.items():
            fields.setdefault(reason, {})[field] = None
    return [
        f"cannot be read ({reason.replace('_', ' ')}): {', '.join(names)}" for reason, names in fields.items()
    ]


def _signed(seconds: float) -> str:
    return f"{round(seconds, 3) + 0.0:+.3f}"  # never -0.000


# --------------------------------------------------------------------------- reporting


def to_json(checks: Sequence[NodeCheck]) -> str:
    """Return JSON, `{"ok": ..., "nodes": [...]}`, with the fields of `NodeCheck` as keys; unknown is null."""
    facts = {"ok": all(check.ok for check in checks), "nodes": [asdict(check) for check in checks]}
    return plain_json(msgspec.json.format(msgspec.json.encode(facts), indent=2).decode())


def print_checks(checks: Sequence[NodeCheck], out: TextIO) -> None:
    """Write a block for each node, then how many passed and what is wrong with the others."""
    with console_on(out) as console:
        _draw(checks, console)


def _draw(checks: Sequence[NodeCheck], console: Console) -> None:
    for check in checks:
        heading = Text(check.name, style="bold")
        heading.append(f"  {'ok' if check.ok else 'NOT OK'}", style=STYLES["ok" if check.ok else "critical"])
        console.print(heading)
        grid = Table.grid(padding=(0, 2, 0, 0))
        grid.add_column(no_wrap=True)
        grid.add_column()
        for label, text, style in _lines(check):
            grid.add_row(Text(f"  {label}"), Text(text, style=STYLES[style]))
        console.print(grid)
    for text, style in _summary(checks):
        console.print(Text(text, style=STYLES[style]))


def _lines(check: NodeCheck) -> list[tuple[str, str, Style]]:
    lines: list[tuple[str, str, Style]] = [(check.link, check.target, "plain")]
    if check.host_key:
        trust = f"verified by {check.verified_by}"
        if check.accepted_at is not None:
            trust = f"new, accepted without verification; recorded at {check.accepted_at}"
        lines.append(("host key", f"{check.host_key}, {trust}", "warning" if check.accepted_at else "plain"))
    if check.authenticated_by:
        lines.append(("login", check.authenticated_by, "plain"))
    if check.start_s is not None:
        stated = f"; it printed: {check.noise}" if check.noise else ""
        lines.append(("shell", f"{check.start_s:.2f} s until the agent started{stated}", "plain"))
    if check.python:
        lines.append(("python", check.python, "plain"))
    if check.gpus is not None:
        lines.append(("GPUs", _gpus(check), "plain"))
    if check.clock_offset_s is not None and check.clock_error_s is not None:
        offset = f"{_signed(check.clock_offset_s)} s offset from this machine, +- {check.clock_error_s:.3f} s"
        lines.append(("clock", offset, "plain"))
    if check.kernel_log:
        lines.append(("kernel log", check.kernel_log, "plain"))
    lines += [("error", check.error, "critical")] if check.error else []
    lines += [("problem", text, "critical") for text in check.problems]
    return lines + [("note", text, "warning") for text in check.notes]


def _gpus(check: NodeCheck) -> str:
    if not check.gpus and not check.gpus_expected:
        count = "none"
    else:
        models = ", ".join(f"{count} x {name}" for name, count in Counter(check.gpu_names).items())
        count = f"{check.gpus} of {check.gpus_expected}" + (f": {models}" if models else "")
    versions = [f"driver {check.driver}"] if check.driver else []
    versions += [f"CUDA {check.cuda}"] if check.cuda else []
    return "; ".join([count, *versions])


def _summary(checks: Sequence[NodeCheck]) -> list[tuple[str, Style]]:
    """Return the verdict as (text, style) lines; equal problems of several nodes are merged."""
    faults: dict[str, list[str]] = {}
    for check in checks:
        for text in [check.error] if check.error else check.problems:
            faults.setdefault(text.replace(check.name, "{node}"), []).append(check.name)
    bad = [check.name for check in checks if not check.ok]
    if not bad:
        return [(f"{len(checks)} of {len(checks)} nodes passed", "ok")]
    lines: list[tuple[str, Style]] = [(f"{len(bad)} of {len(checks)} nodes failed: {fold(bad)}", "critical")]
    return lines + [
        (f"  {fold(names)}: {text.replace('{node}', fold(names))}", "critical")
        for text, names in faults.items()
    ]
