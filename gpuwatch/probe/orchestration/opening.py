"""Creates a probe over a plan."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from gpuwatch.hosts.plan import Plan
from gpuwatch.link.agent.login_slots import ConnectSlots
from gpuwatch.link.dialers import Dialers
from gpuwatch.link.stream.carrier import Dialer
from gpuwatch.link.stream.options import Ask, LinkOptions
from gpuwatch.probe.judging.checks.baseline import Baseline
from gpuwatch.probe.orchestration.conductor import ASK_S, IDLE_S, Conductor
from gpuwatch.probe.orchestration.nodes.carrier_line import CarrierLine
from gpuwatch.probe.orchestration.nodes.node_line import NodeLine
from gpuwatch.probe.probe_request import ProbeRequest

if TYPE_CHECKING:
    from gpuwatch.probe.orchestration.nodes.simulated import Simulation

SPARE_S = 300.0
"""Seconds of a probe besides the time to confirm and the budget: connecting, importing torch, retests."""


def open_probe(
    plan: Plan, options: LinkOptions, ask: Ask | None, request: ProbeRequest, baseline: Baseline | None = None
) -> Conductor:
    """Return a probe over a plan's nodes; it is not yet started. Questions to the user are asked here.

    Raises:
        CarrierError: a requested option cannot be used.
    """
    dialers = Dialers(plan, options, ask)
    lines = node_lines(plan, dialers.of, request, options.connect_workers)
    return Conductor(lines, request, baseline=baseline, ended=dialers.close)


def node_lines(
    plan: Plan, dialer: Callable[[str], Dialer | None], request: ProbeRequest, connect_workers: int
) -> list[NodeLine]:
    """Return the connections to the nodes of a plan, in its order.

    Args:
        plan: The nodes.
        dialer: Returns what opens a carrier to a node; None for a simulated one.
        request: The options of the probe, with its time limits.
        connect_workers: Maximum number of simultaneous logins.
    """
    simulation = _simulation(plan)
    slots = ConnectSlots(connect_workers)
    deadline_s = ASK_S + request.budget_s + IDLE_S + SPARE_S
    lines: list[NodeLine] = []
    for spec in plan.nodes:
        way = dialer(spec.name)
        if way is not None:
            lines.append(CarrierLine(spec, way, slots, deadline_s))
        elif simulation is not None:
            lines.append(simulation.line(spec.name))
    return lines


def _simulation(plan: Plan) -> Simulation | None:
    names = [spec.name for spec in plan.nodes if spec.link == "demo"]
    if not names:
        return None
    from gpuwatch.probe.orchestration.nodes.simulated import Simulation  # noqa: PLC0415 - only the demo pays for it

    return Simulation(names)
