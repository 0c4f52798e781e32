"""The agents' log settings: where logs are, and the rules."""

from __future__ import annotations

import base64
import json
import os
import threading
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gpuwatch.hosts.plan import Plan

VARIABLE = "GPUWATCH_DISCOVER"
"""`off` in the environment disables the search for logs of ended jobs."""
SOONEST_POLL_S, LATEST_POLL_S = 0.25, 1.0


class LogConfig:
    """Builds the log part of an agent's config; the part that is equal for all nodes is built once.

    It is built in the first link's thread, so that no screen waits for rule packs.
    """

    def __init__(self, plan: Plan, earlier: Mapping[str, Sequence[str]] | None = None) -> None:
        """Create the settings; `earlier`: node -> folders of logs followed there in earlier sessions."""
        self._plan = plan
        self._earlier = earlier or {}
        self._lock = threading.Lock()
        self._config: dict[str, Any] | None = None

    def config(self, node: str) -> dict[str, Any]:
        """Return the log settings of a node, for its agent's config.

        `logs` and `log_options` (globs), `discover` (whether ended jobs are searched for), `rules` (base64 of
        zlib of the compiled rules as JSON), `log_poll_s` and `earlier_folders`.

        Raises:
            RulesError: A pack cannot be used.
        """
        with self._lock:
            if self._config is None:
                self._config = {
                    "logs": self._plan.logs,
                    "log_options": self._plan.log_options,
                    "discover": self._plan.discover and os.environ.get(VARIABLE, "on") != "off",
                    "rules": packed_rules(self._plan.rules),
                    "log_poll_s": poll_s(self._plan.interval_s),
                }
            return {**self._config, "earlier_folders": list(self._earlier.get(node, ()))}


def poll_s(interval_s: float) -> float:
    """Return the seconds between two reads of the logs, by the interval of samples: 0.25 to 1."""
    return SOONEST_POLL_S if interval_s <= 1.0 else min(LATEST_POLL_S, interval_s / 2)


def packed_rules(extra: tuple[str, ...]) -> str:
    """Return the built-in rule packs, the rules about checkpoints and the files `extra`, encoded to send."""
    from gpuwatch.rules.compiling.keep import compiled_or_kept  # noqa: PLC0415 - only who dials an agent pays for it
    from gpuwatch.rules.load import load_packs  # noqa: PLC0415 - loaded when it is needed
    from gpuwatch.rules.model.checkpoint_lines import CHECKPOINT_RULES  # noqa: PLC0415 - loaded when it is needed

    packs = load_packs([Path(each) for each in extra])
    text = json.dumps(compiled_or_kept([*packs.all, *CHECKPOINT_RULES]), separators=(",", ":"))
    return base64.b64encode(zlib.compress(text.encode(), 9)).decode("ascii")
