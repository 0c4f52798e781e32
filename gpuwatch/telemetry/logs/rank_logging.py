"""`setup_rank_logging`: a log file for this rank, the console for rank 0, and a header about the rank."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..base.levels import MULTIGPU_VARIABLE, TRAINING_VARIABLE, level_of, variable_level
from ..base.ranks import RankFacts, identify, loaded_torch, process_group, stated_environment
from ..base.settings import TelemetrySettings
from ..session.folder import RUN_VARIABLE, named_folder

RECORD_FORMAT = "%(asctime)s - Rank %(rank)s - %(name)s - %(levelname)s - %(message)s"
MAX_FILE_BYTES, BACKUPS = 100 * 1024 * 1024, 5
DEPENDENCIES = (
    "accelerate", "datasets", "deepspeed", "filelock", "fsspec", "huggingface_hub", "lightning", "peft",
    "pytorch_lightning", "tokenizers", "torch", "transformers", "trl", "urllib3", "wandb",
)  # fmt: skip
"""Names of loggers whose records from `dep_log_level` on are written to the rank's file."""
MULTIGPU_CHILD = "multigpu"
"""The child logger of process groups and communication; `MULTIGPU_LOG_LEVEL` is its level."""


class RankFilter(logging.Filter):
    """A filter that sets the rank in each record, for the format."""

    def __init__(self, rank: int) -> None:
        super().__init__()
        self.rank = rank

    def filter(self, record: logging.LogRecord) -> bool:
        """Set the rank in a record, and return True."""
        record.rank = self.rank
        return True


def setup_rank_logging(
    log_dir: str | os.PathLike[str] | None = None,
    *,
    log_level: str | int | None = None,
    dep_log_level: str | int | None = None,
    settings: TelemetrySettings | None = None,
    max_bytes: int = MAX_FILE_BYTES,
    backups: int = BACKUPS,
    env: Mapping[str, str] | None = None,
) -> logging.Logger:
    """Set up and return the logger `rank_N`, with a file of its own and, on rank 0, the console.

    The file receives DEBUG and above, the console INFO and above; `TRAINING_LOG_LEVEL` or `log_level` sets
    both, `MULTIGPU_LOG_LEVEL` the level of the child logger `multigpu`. A second call replaces the handlers
    of the first.

    Args:
        log_dir: The folder of `rank_N.log`; by default that of `gpuwatch run`, else `logs`.
        log_level: Used if the variable is not set.
        dep_log_level: For transformers, tokenizers, torch and other dependencies; `warning` by default.
        settings: Give each level that is not given separately; their default `log_level` is ignored.
        max_bytes: Size of a file, after which it becomes `rank_N.log.1`.
        backups: Number of older files that are kept.
        env: The environment; that of the process by default.

    Raises:
        ValueError: a level does not exist.
        OSError: the folder or the file cannot be written.
    """
    from .rank_file import open_rank_file  # noqa: PLC0415 - loads sockets and queues: the import stays light

    env = os.environ if env is None else env
    facts = identify(env)
    chosen = _training_level(log_level, settings, env)
    dependency_level = level_of(
        (settings or TelemetrySettings()).dep_log_level if dep_log_level is None else dep_log_level
    )
    logger = logging.getLogger(f"rank_{facts.rank}")
    _release(logger)
    file = open_rank_file(_folder(log_dir, env), facts, max_bytes, backups)
    file.setLevel(logging.DEBUG if chosen is None else chosen)
    _add_handler(logger, file, facts.rank)
    if facts.rank == 0:
        console = logging.StreamHandler(sys.stderr)
        console.setLevel(logging.INFO if chosen is None else chosen)
        _add_handler(logger, console, facts.rank)
    logger.setLevel(logging.DEBUG)
    logger.propagate = False  # a root logger with a console of its own would print every record again
    multigpu = variable_level(MULTIGPU_VARIABLE, env)
    logger.getChild(MULTIGPU_CHILD).setLevel(logging.NOTSET if multigpu is None else multigpu)
    for name in DEPENDENCIES:
        dependency = logging.getLogger(name)
        dependency.setLevel(dependency_level)
        dependency.addHandler(file)
    _log_start(logger, facts, env)
    return logger


setup_distributed_logging = setup_rank_logging


def _training_level(
    log_level: str | int | None, settings: TelemetrySettings | None, env: Mapping[str, str]
) -> int | None:
    """Return the level of the variable, else `log_level`, else that of `settings`; None: use the defaults.

    The level of `settings` is ignored if it is the default of the class.

    Raises:
        ValueError: `log_level` or the level of `settings` does not exist.
    """
    stated = variable_level(TRAINING_VARIABLE, env)
    if stated is not None:
        return stated
    if log_level is None and settings is not None and settings.log_level != TelemetrySettings.log_level:
        log_level = settings.log_level
    return None if log_level is None else level_of(log_level)


def _add_handler(logger: logging.Logger, handler: logging.Handler, rank: int) -> None:
    handler.setFormatter(logging.Formatter(RECORD_FORMAT))
    handler.addFilter(RankFilter(rank))
    logger.addHandler(handler)


def init_process_group(logger: logging.Logger, *arguments: Any, **options: Any) -> None:
    """Call `torch.distributed.init_process_group`, and log the group, or that its initialization failed.

    Raises:
        Exception: as torch raises it.
    """
    try:
        loaded_torch().distributed.init_process_group(*arguments, **options)
    except Exception as error:
        logger.getChild(MULTIGPU_CHILD).error("Distributed backend initialization failed: %s", error)
        raise
    log_process_group(logger)


def log_process_group(logger: logging.Logger, env: Mapping[str, str] | None = None) -> None:
    """Log backend, world size and rendezvous of the process group, or that there is none yet."""
    group = process_group(env)
    child = logger.getChild(MULTIGPU_CHILD)
    if group is None:
        child.info("Process group: not initialized")
        return
    child.info("Distributed backend: %s", group.backend)
    child.info("World size: %d", group.world_size)
    child.info("Local rank: %d", identify(env).local_rank)
    child.info("Process group: initialized, rank %d, master %s", group.rank, group.master or "unknown")


def _folder(log_dir: str | os.PathLike[str] | None, env: Mapping[str, str]) -> Path:
    session = named_folder(env)
    own = session.ranks if session else Path("logs")
    folder = own if log_dir is None else Path(log_dir)
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _release(logger: logging.Logger) -> None:
    """Remove the handlers that an earlier call added, also from the dependencies' loggers."""
    for handler in [each for each in logger.handlers if any(isinstance(f, RankFilter) for f in each.filters)]:
        for each in (logger, *map(logging.getLogger, DEPENDENCIES)):
            each.removeHandler(handler)
        handler.close()


def _log_start(logger: logging.Logger, facts: RankFacts, env: Mapping[str, str]) -> None:
    place = f"Rank: {facts.rank} | Local rank: {facts.local_rank} | World size: {facts.world_size}"
    run = f" | Run: {env[RUN_VARIABLE]}" if env.get(RUN_VARIABLE) else ""
    logger.info("%s | Host: %s | PID: %d%s", place, facts.host, facts.pid, run)
    from ..base.masks import mask_secrets  # noqa: PLC0415 - compiles 30 patterns: the import stays light

    stated = mask_secrets(stated_environment(env))
    logger.debug("Environment: %s", " ".join(f"{name}={value}" for name, value in stated.items()) or "-")
    log_process_group(logger, env)
