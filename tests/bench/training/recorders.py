"""A command under N recorders of `gpuwatch run` at once.

`python -m tests.bench.training.recorders FOLDER N COMMAND...`

What one recorder costs a command is too little to be told from a machine's noise; N cost N times as much.
Each has a session of its own and reads each Nth line; the relay passes on every line by itself.
"""

from __future__ import annotations

import os
import sys
import time
from itertools import cycle
from pathlib import Path

from gpuwatch.cli.run import relay
from gpuwatch.cli.run.child import start_child
from gpuwatch.cli.run.monitor_process import MonitorProcess
from gpuwatch.telemetry.session.folder import create_session_folder


def main() -> None:
    folder, count, *command = sys.argv[1:]
    relay.PAUSE_S = 0.0
    child = start_child(command, os.environ)
    consoles = []
    monitors = []
    for number in range(int(count)):
        session = create_session_folder(Path(folder, str(number)), time.time())
        session.ranks.mkdir()
        consoles.append((session.ranks / "console_here.log").open("wb", buffering=0))
        facts = {
            "folder": str(session.path),
            "run_id": "0" * 32,
            "part": 0,
            "command": command,
            "start": time.time(),
        }
        monitors.append(MonitorProcess(facts))
        monitors[-1].tell({"pid": child.pid})
    turn = cycle(consoles)

    def on_output(data: bytes) -> None:
        for line in data.splitlines(keepends=True):
            next(turn).write(line)

    def on_idle() -> None:
        for monitor in monitors:
            monitor.poll()

    relay.Relay(child, on_output, on_idle).run()


if __name__ == "__main__":
    main()
