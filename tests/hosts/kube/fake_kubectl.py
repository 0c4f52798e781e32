"""A kubectl for tests: `get` prints a list of pods or events, `exec` runs its command on this machine."""

from __future__ import annotations

import json
import stat
import sys
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

EVENTS = Path(__file__).with_name("events.json")
"""What `get events` prints, a minute after it happened."""
RECORDED = "2026-11-26T12:00:0"


def pod(name: str, *, gpus: int = 0, phase: str = "Running", **state: object) -> dict[str, Any]:
    """A pod as the API server reports it (v1), cut to what a client needs."""
    limits = {"nvidia.com/gpu": str(gpus)} if gpus else {}
    container = {"name": "trainer", "image": "train:1", "resources": {"limits": limits}}
    index = name.rpartition("-")[2]
    return {
        "metadata": {
            "name": name,
            "namespace": "ml",
            "labels": {
                "training.kubeflow.org/job-name": "run7",
                "training.kubeflow.org/replica-type": "worker",
                "training.kubeflow.org/replica-index": index,
            },
        },
        "spec": {"nodeName": f"gpu-{index}", "containers": [{"name": "istio-proxy"}, container]},
        "status": {
            "phase": phase,
            "containerStatuses": [{"name": "trainer", "restartCount": 2, "state": state or {"running": {}}}],
        },
    }


def write_kubectl(folder: Path, pods: list[dict[str, Any]]) -> Path:
    """Make `folder/kubectl`, which appends its arguments to `folder/calls`."""
    (folder / "pods.json").write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": pods}))
    lately = f"{datetime.now(timezone.utc) - timedelta(minutes=1):%Y-%m-%dT%H:%M:0}"
    (folder / "events.json").write_text(EVENTS.read_text().replace(RECORDED, lately))
    program = folder / "kubectl"
    program.write_text(
        f"#!{sys.executable}\n"
        "import os, sys\n"
        f"open({str(folder / 'calls')!r}, 'a').write(' '.join(sys.argv[1:])[:200] + chr(10))\n"
        "if sys.argv[1:3] == ['get', 'events']:\n"
        f"    sys.stdout.write(open({str(folder / 'events.json')!r}).read())\n"
        "elif sys.argv[1] == 'get':\n"
        f"    sys.stdout.write(open({str(folder / 'pods.json')!r}).read())\n"
        "elif 'worker-9' in ' '.join(sys.argv):\n"
        "    sys.exit('error: no-such-container')\n"
        "else:\n"
        "    argv = sys.argv[sys.argv.index('--') + 1:]\n"
        "    os.execvp(argv[0], argv)\n"
    )
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return program
