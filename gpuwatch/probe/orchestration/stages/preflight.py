"""The first stage: inventories, nodes that cannot take part, and jobs that the probe would disturb."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from gpuwatch.number_text import listed
from gpuwatch.probe.orchestration.nodes.node_line import Lost
from gpuwatch.probe.orchestration.planning.assignment import assign_slots
from gpuwatch.probe.orchestration.planning.choice import AddressChoice, NoNetworkError, choose
from gpuwatch.probe.orchestration.planning.plan import estimate, make_plan
from gpuwatch.probe.orchestration.stages.run import ProbeRefusedError, ProbeRun
from gpuwatch.probe.protocol import GpuUser, InventoryGpu, NodeInventory
from gpuwatch.probe.results import ProbedNode

CONNECT_S = 45.0
"""Seconds for a login through a jump host, and for checking interpreters on a cold network file system."""
SLOW_NODES_TIMEOUT_S = 20.0
"""Seconds once half of the nodes have answered: one slow node must not delay the others."""
UNSEEN_UTIL_PCT = 10.0
UNSEEN_MEMORY_BYTES = 3 << 30
"""Used memory above which an invisible process is assumed; a driver alone uses less than 1 GiB.

A container hides other users' processes.
"""
MAX_NAMED_NODES = 6


def preflight(run: ProbeRun) -> None:
    """Receive the inventory of every node, select addresses, place the ranks, and store the plan in `run`.

    Raises:
        ProbeRefusedError: nothing may or can be measured.
        CancelledError: the user has cancelled.
    """
    results = run.results
    results.nodes = [ProbedNode(node) for node in run.pool.present]
    run.pool.open()
    _receive_grounds(run)
    request = results.request
    busy = {node: users for node, inventory in run.inventories.items() if (users := gpu_users(inventory))}
    results.busy = busy
    if busy and not request.busy_too:
        raise ProbeRefusedError(_busy_words(busy, run.inventories))
    _plan(run)


def _plan(run: ProbeRun) -> None:
    results, request = run.results, run.results.request
    _need_nodes(run)
    choice = run.choice = run.choice or _chosen(run)
    assignment = assign_slots(run.inventories, request, choice)
    for note in (*assignment.notes, *_torch_notes(run.inventories)):
        run.note(note)
    _leave_out(run, assignment.without)
    _need_nodes(run)
    results.slots = list(assignment.slots)
    results.backend = assignment.backend
    run.plan = make_plan(assignment.slots, request, assignment.backend, choice.slowest_bps)
    results.estimate = estimate(run.plan, assignment.slots, request, choice.words)
    results.all_steps = run.plan.step_count
    if len(assignment.slots) == 1:
        run.note("there is only one rank, so there are no links to measure: only its GPU is measured")
    if run.plan.seconds > request.budget_s:
        run.note(
            f"everything would take about {run.plan.seconds:.0f} s; "
            f"not everything fits into the budget of {request.budget_s:.0f} s"
        )
    run.changed()


def _chosen(run: ProbeRun) -> AddressChoice:
    try:
        choice = choose(run.inventories, run.results.request.iface)
    except NoNetworkError as error:
        raise ProbeRefusedError(str(error)) from error
    _leave_out(run, choice.without)
    if choice.note:
        run.note(choice.note)
    return choice


def replan(run: ProbeRun, without: Mapping[str, str]) -> None:
    """Leave nodes out, and place the ranks and plan again; the others keep their addresses.

    Raises:
      ProbeRefusedError: no node is left.
    """
    _leave_out(run, without)
    _plan(run)


def gpu_users(inventory: NodeInventory) -> list[GpuUser]:
    """Return the processes on the GPUs.

    If none is visible, one with pid 0 is assumed where a GPU is busy or its memory is used.
    """
    found = {user.pid: user for gpu in inventory.gpus for user in gpu.users}
    unseen = [gpu for gpu in inventory.gpus if not gpu.users and _worked(gpu)]
    if unseen and not found:
        found[0] = GpuUser(
            pid=0, name="a process that cannot be seen from here", memory_bytes=unseen[0].memory_used_bytes
        )
    return list(found.values())


def inventory_problem(inventory: NodeInventory) -> str | None:
    """Return why a node with this inventory cannot run ranks; None if it can."""
    if inventory.python is not None and inventory.torch is not None:
        return None
    tried = "; ".join(inventory.tried) or "no interpreter was found"
    return f"no Python with torch ({tried}); name one with `python:` or `activate:` in the hosts file"


def _worked(gpu: InventoryGpu) -> bool:
    return (gpu.util_pct or 0.0) >= UNSEEN_UTIL_PCT or (gpu.memory_used_bytes or 0) >= UNSEEN_MEMORY_BYTES


def _receive_grounds(run: ProbeRun) -> None:
    waiting = dict.fromkeys(run.pool.present)
    began = run.clock()
    until = began + CONNECT_S
    while waiting and (received := run.pool.receive(until)) is not None:
        node, message = received
        if isinstance(message, Lost):
            waiting.pop(node, None)
            run.inventories.pop(node, None)
            _judge_node(run, node, None, message.reason)
        elif isinstance(message, NodeInventory) and node in waiting:
            del waiting[node]
            problem = inventory_problem(message)
            if problem is None:
                run.inventories[node] = message
            _judge_node(run, node, message, problem)
        if 2 * len(waiting) <= len(run.results.nodes):
            until = min(until, run.clock() + SLOW_NODES_TIMEOUT_S)
    if waiting:
        took_s = run.clock() - began
        late = (
            f"it did not answer within {took_s:.0f} s; check whether a login there is slow or waits for input"
        )
        _leave_out(run, dict.fromkeys(waiting, late))
    # In the order of the plan, however they came: ranks are numbered so.
    run.inventories = {node: run.inventories[node] for node in run.pool.present if node in run.inventories}
    run.pool.dismiss([node for node in run.pool.present if node not in run.inventories])


def _judge_node(run: ProbeRun, node: str, inventory: NodeInventory | None, problem: str | None) -> None:
    nodes = run.results.nodes
    for at, each in enumerate(nodes):
        if each.node == node:
            nodes[at] = replace(each, inventory=inventory or each.inventory, problem=problem)
    if problem is not None:
        run.note(f"node {node} does not take part: {problem}")
    run.changed()


def _leave_out(run: ProbeRun, without: Mapping[str, str]) -> None:
    for node, problem in without.items():
        run.inventories.pop(node, None)
        _judge_node(run, node, None, problem)
    run.pool.dismiss(without)


def _need_nodes(run: ProbeRun) -> None:
    if not run.inventories:
        reported = [f"{each.node}: {each.problem}" for each in run.results.nodes if each.problem]
        raise ProbeRefusedError("no node can take part; " + listed(reported, MAX_NAMED_NODES, "; "))


def _busy_words(busy: Mapping[str, Sequence[GpuUser]], inventories: Mapping[str, NodeInventory]) -> str:
    reported = []
    for node, users in busy.items():
        who = [_user_words(user, inventories[node]) for user in users]
        reported.append(f"{node}: {listed(who, MAX_NAMED_NODES)}")
    where = listed(reported, MAX_NAMED_NODES, "; ")
    return (
        f"GPUs are busy, and a probe would disturb what runs there ({where}); "
        "end it first, or probe anyway with --allow-busy"
    )


def _user_words(user: GpuUser, inventory: NodeInventory) -> str:
    on = [str(gpu.index) for gpu in inventory.gpus if any(each.pid == user.pid for each in gpu.users)]
    who = user.name or "a process"
    facts = [f"pid {user.pid}"] if user.pid else []
    facts += [user.user] if user.user else []
    facts += ["GPU " + "+".join(on)] if on else []
    return who + (f" ({', '.join(facts)})" if facts else "")


def _torch_notes(inventories: Mapping[str, NodeInventory]) -> list[str]:
    versions: dict[str, list[str]] = {}
    for node, inventory in inventories.items():
        versions.setdefault(inventory.torch or "?", []).append(node)
    if len(versions) < 2:
        return []
    reported = "; ".join(
        f"{version} on {listed(nodes, MAX_NAMED_NODES)}" for version, nodes in versions.items()
    )
    return [f"the nodes have different versions of torch, which may not understand each other: {reported}"]
