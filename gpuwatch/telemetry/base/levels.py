"""Log levels: their names, and the two variables that set them for one run."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping

from .records import record

TRAINING_VARIABLE, MULTIGPU_VARIABLE = "TRAINING_LOG_LEVEL", "MULTIGPU_LOG_LEVEL"
LEVELS = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warn": logging.WARNING,
    "warning": logging.WARNING,
    "error": logging.ERROR,
    "critical": logging.CRITICAL,
}

MAX_DIGITS = 9


def level_of(value: str | int) -> int:
    """Return the numeric level of a name (in any case) or of a number.

    Raises:
        ValueError: there is no such level; the message lists the names.
    """
    text = str(value).strip().lower()
    if text in LEVELS:
        return LEVELS[text]
    if text.isdecimal() and len(text) <= MAX_DIGITS:
        return int(text)
    raise ValueError(f"no log level {value!r}: it is one of {', '.join(LEVELS)}, or a number")


def variable_level(name: str, env: Mapping[str, str] | None = None) -> int | None:
    """Return the level in an environment variable; None if it is unset or invalid, which is logged."""
    value = (os.environ if env is None else env).get(name, "")
    if not value:
        return None
    try:
        return level_of(value)
    except ValueError as error:
        logging.getLogger("gpuwatch.telemetry").warning("%s is ignored: %s", name, error)
        return None


@record(frozen=True)
class LogLevels:
    """The minimum levels of written records: of the multi-GPU log, and of the main and performance logs."""

    training: int = logging.INFO
    multigpu: int = logging.INFO

    @classmethod
    def from_environment(cls, env: Mapping[str, str] | None = None) -> LogLevels:
        """Return the levels of `TRAINING_LOG_LEVEL` and `MULTIGPU_LOG_LEVEL`; INFO if unset or invalid."""
        training = variable_level(TRAINING_VARIABLE, env)
        multigpu = variable_level(MULTIGPU_VARIABLE, env)
        return cls(
            logging.INFO if training is None else training, logging.INFO if multigpu is None else multigpu
        )

    def is_enabled(self, log: str, level: str) -> bool:
        """Return True if a record of this level is written to this log."""
        least = self.multigpu if log == "multigpu" else self.training
        return level_of(level) >= least
