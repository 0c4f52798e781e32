"""Settings of the agent: options from the link, and reading intervals."""

import os
import socket

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MIN_INTERVAL_S = 0.2
"""NVML averages over 1/6 s to 1 s."""
MAX_INTERVAL_S = 60.0


class Settings(object):
    """The agent's settings: the config dict of `main.run`, with defaults.

    Links send `interval_s`, `ping_deadline_s`, `version`, `host` and the log settings, tests also the others.
    """

    def __init__(self, config: "dict[str, Any]") -> None:
        def seconds(name: str, otherwise: float) -> float:
            return float(config.get(name, otherwise))

        self.interval_s = within(seconds("interval_s", 1.0))
        self.ping_deadline_s = seconds("ping_deadline_s", 60.0)
        """The agent ends after this long without a request (seconds)."""
        self.version = str(config.get("version", ""))
        self.medium_s = seconds("medium_s", 5.0)
        """Period of the 5 s tier and of processes."""
        self.slow_s = seconds("slow_s", 30.0)
        """Period of the 30 s tier."""
        self.probe_s = seconds("probe_s", 5.0)
        """Seconds between checks whether a lost GPU is back."""
        self.retry_s = seconds("retry_s", 30.0)
        """Seconds between tries to start a failed driver, and between counts of a running driver's GPUs."""
        self.stuck_s = seconds("stuck_s", 3.0)
        """Seconds after which a call is reported as stuck; slow drivers take up to two."""
        self.cold_s = seconds("cold_s", 20.0)
        """Seconds that a driver's first calls may take (all GPUs together) if no process holds it open."""
        self.proc = str(config.get("proc", "/proc"))
        self.sys = str(config.get("sys", "/sys"))
        self.kmsg = str(config.get("kmsg") or os.environ.get("GPUWATCH_KERNEL_LOG") or "/dev/kmsg")
        self.logs: dict[str, Any] = {
            "rules": config.get("rules"),
            "logs": list(config.get("logs", ())),
            "options": list(config.get("log_options", ())),
            "hosts": _names(config.get("host")),
            "poll_s": seconds("log_poll_s", 0.25),
            "tick_s": self.interval_s,
            "proc": self.proc,
            "discover": bool(config.get("discover")),
            "earlier_folders": list(config.get("earlier_folders", ())),
        }
        """Settings of the log reader."""


def _names(node: object) -> "list[str]":
    """Return the names that replace `{host}`: the one in the cockpit's plan, and the node's own names."""
    here = socket.gethostname()
    return sorted({name for name in (str(node or ""), here, here.partition(".")[0]) if name})


def within(seconds: float) -> float:
    """Return an interval (seconds), clamped to the range that the agent allows."""
    return min(MAX_INTERVAL_S, max(MIN_INTERVAL_S, seconds))
