"""The `command` link: a program that connects its stdin and stdout to a shell on the node."""

from __future__ import annotations

from pathlib import PurePath

from gpuwatch.hosts.plan import NodeSpec
from gpuwatch.link.child_process import ChildCarrier
from gpuwatch.link.stream.carrier import Carrier, CarrierError

ONE_STRING = frozenset({"ssh", "autossh"})
"""Programs that pass their remaining arguments to the node's login shell as one string."""


def command_argv(spec: NodeSpec, command: str) -> list[str]:
    """Return the argv that runs a shell command line on the node.

    `{name}` and `{address}` in `spec.command` become the node's. Where the shell line goes:

    1. where `{command}` stands, if it stands anywhere: `[tsh, ssh, "{address}", "{command}"]`;
    2. after `ssh` (the first word, whatever its folder) as one last argument, because ssh joins its arguments
       and lets the login shell split them;
    3. otherwise as `/bin/sh -c LINE`, three last arguments, because kubectl exec, docker exec and srun pass
       arguments on as they are.
    """
    meanings = {"{name}": spec.name, "{address}": spec.address or spec.name, "{command}": command}
    argv = []
    for word in spec.command:
        for sign, meaning in meanings.items():
            word = word.replace(sign, meaning)  # noqa: PLW2901 - one substitution after the other
        argv.append(word)
    if any("{command}" in word for word in spec.command):
        return argv
    if PurePath(argv[0]).name in ONE_STRING:
        return [*argv, command]
    return [*argv, "/bin/sh", "-c", command]


class CommandDialer:
    """The dialer of a `command` link: starts the program that the hosts file names for the node."""

    def __init__(self, spec: NodeSpec) -> None:
        self._spec = spec

    def __call__(self, command: str) -> Carrier:
        """Start the program of the hosts file, which runs `command` on the node; return its carrier.

        Raises:
            CarrierError: The hosts file names no program, or it cannot be run.
        """
        if not self._spec.command:
            raise CarrierError(
                "a `command` link needs `command:`, the program that reaches the node", final=True
            )
        return ChildCarrier(command_argv(self._spec, command))
