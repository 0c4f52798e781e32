"""What the agent is started with: what the link asks for, and how often things are read."""

import os
import socket

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any  # noqa: F401 - used in type comments

MIN_INTERVAL_S = 0.2
"""NVML averages over 1/6 s to 1 s."""
MAX_INTERVAL_S = 60.0


class Settings(object):
    """The config dict of `main.run` with its defaults. A link sends the first three, tests the others."""

    def __init__(self, config):
        # type: (dict[str, Any]) -> None
        def seconds(name, otherwise):
            # type: (str, float) -> float
            return float(config.get(name, otherwise))

        self.interval_s = within(seconds("interval_s", 1.0))
        self.ping_deadline_s = seconds("ping_deadline_s", 60.0)
        """No request for so long ends the agent."""
        self.version = str(config.get("version", ""))
        self.medium_s = seconds("medium_s", 5.0)
        """The 5 s tier, and the processes."""
        self.slow_s = seconds("slow_s", 30.0)
        """The 30 s tier."""
        self.probe_s = seconds("probe_s", 5.0)
        """How often a lost GPU is asked whether it is back."""
        self.retry_s = seconds("retry_s", 30.0)
        """How often a driver that failed is started again, and the GPUs of one that runs are counted."""
        self.stuck_s = seconds("stuck_s", 3.0)
        """A call that lasts longer is reported as stuck; slow drivers take up to a second or two."""
        self.cold_s = seconds("cold_s", 20.0)
        """The first calls of a driver that no process holds open may last so long, on all GPUs at once."""
        self.proc = str(config.get("proc", "/proc"))
        self.sys = str(config.get("sys", "/sys"))
        self.kmsg = str(config.get("kmsg") or os.environ.get("GPUWATCH_KERNEL_LOG") or "/dev/kmsg")
        self.logs = {
            "rules": config.get("rules"),
            "logs": list(config.get("logs", ())),
            "options": list(config.get("log_options", ())),
            "hosts": _names(config.get("host")),
            "poll_s": seconds("log_poll_s", 0.25),
            "tick_s": self.interval_s,
            "proc": self.proc,
            "discover": bool(config.get("discover")),
            "earlier_folders": list(config.get("earlier_folders", ())),
        }  # type: dict[str, Any]
        """What the log reader is started with."""


def _names(node):
    # type: (object) -> list[str]
    """What `{host}` may stand for: the name in the cockpit's plan, and what the node calls itself."""
    here = socket.gethostname()
    return sorted({name for name in (str(node or ""), here, here.partition(".")[0]) if name})


def within(seconds):
    # type: (float) -> float
    """An interval that is asked for, kept between the shortest and the longest."""
    return min(MAX_INTERVAL_S, max(MIN_INTERVAL_S, seconds))
