"""The relay of `gpuwatch run` without the monitor: `python -m tests.cli.run.relay_alone CMD...`."""

from __future__ import annotations

import os
import sys

from gpuwatch.cli.run.child import start_child
from gpuwatch.cli.run.command import leave_as
from gpuwatch.cli.run.relay import Relay


def main() -> None:
    child = start_child(sys.argv[1:], os.environ)
    relay = Relay(child, lambda _data: None, lambda: None)
    relay.run()
    sys.exit(leave_as(child))


if __name__ == "__main__":
    main()
