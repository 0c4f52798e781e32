"""Explains why there is no log to show, and what the user can do about it."""

from __future__ import annotations

from gpuwatch.fleet.fleet import Fleet
from gpuwatch.tui.toolkit.styles import clean

MAX_LISTED = 6
HOW_FOUND = (
    "gpuwatch finds the log files that training processes write, and the kernel log where it is readable.",
    "Name output that passes through a launcher's pipe or that another node writes in the hosts file:",
    "    logs: ['/scratch/runs/*/rank_{rank}.log', '/var/log/slurm/*-%j.out']",
    "or on the command line: --log '/scratch/runs/*/rank_{rank}.log'",
)


def why_empty(fleet: Fleet, now: float) -> list[str]:
    """Return sentences that state why no log can be shown, the reason first, then how to name log files."""
    nodes = list(fleet.nodes.values())
    if not nodes:
        return ["No node is monitored."]
    reported = [node for node in nodes if node.logs_at is not None]
    if not any(node.hello for node in nodes):
        return ["No node has answered yet; log files are listed as soon as one does."]
    if not reported:
        shell = [
            node for node in nodes if node.hello and any(n.code == "no_python" for n in node.hello.notices)
        ]
        if len(shell) == len(nodes):
            return ["No node has Python 3.6 or later, so logs cannot be read: only GPUs are monitored."]
        live = sum(node.state(now) == "live" for node in nodes)
        return [f"{live} of {len(nodes)} nodes are live; none has reported its log files yet."]
    unreadable = [(node.name, file) for node in reported for file in node.logs if file.state == "unreadable"]
    out = [f"No readable log file on {len(reported)} of {len(nodes)} nodes."]
    out += [
        f"  {name} {clean(file.path)}: {clean(file.reason or 'unreadable')}"
        for name, file in unreadable[:MAX_LISTED]
    ]
    if len(unreadable) > MAX_LISTED:
        out.append(f"  and {len(unreadable) - MAX_LISTED} more unreadable files")
    return [*out, *HOW_FOUND]
