from __future__ import annotations

import re
from pathlib import Path

from gpuwatch.hosts.load import load_source

README = (Path(__file__).parents[2] / "README.md").read_text()


def test_the_hosts_file_of_the_readme_loads(tmp_path: Path) -> None:
    (block,) = re.findall(r"```yaml\n(.*?)```", README, re.DOTALL)
    path = tmp_path / "hosts.yaml"
    path.write_text(block)
    plan = load_source(str(path))
    nodes = {node.name: node for node in plan.nodes}
    assert len(nodes) == 18
    assert (nodes["gpu-016"].user, nodes["gpu-016"].jump) == ("ops", "bastion.example.org")
    assert (nodes["dev"].address, nodes["dev"].port) == ("10.0.0.7", 2222)
    assert nodes["pod"].link == "command"
    assert len(plan.groups["rack1"]) == 8
