"""The commands about a rank that hangs, as they are typed on this machine."""

from __future__ import annotations

import pytest

from gpuwatch.diagnose.hang.remedy import on_node
from gpuwatch.hosts.plan import NodeSpec


@pytest.mark.parametrize(
    ("spec", "line"),
    [
        (NodeSpec("gpu-001"), "ssh gpu-001 kill 7"),
        (
            NodeSpec("a", address="10.0.0.1", port=2222, user="ann", jump="gate"),
            "ssh -p 2222 -J gate ann@10.0.0.1 kill 7",
        ),
        (NodeSpec("here", link="local"), "kill 7"),
        (
            NodeSpec("pod-1", link="command", command=("kubectl", "exec", "-i", "{name}", "--")),
            "kubectl exec -i pod-1 -- /bin/sh -c 'kill 7'",
        ),
    ],
)
def test_a_command_goes_the_nodes_own_way(spec: NodeSpec, line: str) -> None:
    assert on_node(spec, "kill 7") == line
