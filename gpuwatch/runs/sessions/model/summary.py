"""The summary of a training session, version 1, with the keys of `docs/sessions.md`. None: unknown."""

from __future__ import annotations

import typing
from collections.abc import Mapping
from functools import cache
from typing import Any, Literal, TypeAlias, TypeVar

import msgspec

from gpuwatch.decode_errors import DECODE_ERRORS
from gpuwatch.plain import plain
from gpuwatch.rules.built_in import built_in_rules
from gpuwatch.telemetry.training.steps import steady_rate

VERSION = 1
Status: TypeAlias = Literal["running", "completed", "failed", "interrupted"]
Mode: TypeAlias = Literal["single", "multi"]
MAX_ENTRIES = 100_000
"""Most entries of a list or object that are read."""
MAX_TEXT = 20_000
MAX_DEPTH = 12
MAX_TIME = 1e11
"""Unix seconds of the year 5138; later times count as unknown, as on the wire."""
MAX_NUMBER = 1e18
"""Largest valid number; larger ones, NaN and Inf count as invalid."""


class SessionModel(msgspec.Struct, kw_only=True):
    """The trained model."""

    name: str | None = None
    parameters: int | None = None
    trainable_parameters: int | None = None
    dtype: str | None = None
    memory_bytes: int | None = None


class SessionBatch(msgspec.Struct, kw_only=True):
    """The batch: samples per step (total), per device and micro-step; micro-steps; tokens per sample."""

    global_size: int | None = None
    per_device_size: int | None = None
    gradient_accumulation_steps: int | None = None
    sequence_length: int | None = None


class StepTimeStatistics(msgspec.Struct, kw_only=True):
    """Statistics of the step times (seconds)."""

    count: int | None = None
    mean: float | None = None
    std_dev: float | None = None
    min: float | None = None
    p50: float | None = None
    p95: float | None = None
    p99: float | None = None
    max: float | None = None

    @property
    def steady_steps_per_s(self) -> float | None:
        """Steps per second from the median and mean step time (see `steady_rate`); None: unknown."""
        return steady_rate(self.p50, self.mean)


class SessionGpu(msgspec.Struct, kw_only=True):
    """One GPU, with its averages over the session."""

    node: str | None = None
    index: int | None = None
    uuid: str | None = None
    name: str | None = None
    memory_total_bytes: int | None = None
    utilization_avg_pct: float | None = None
    utilization_peak_pct: float | None = None
    memory_avg_pct: float | None = None
    memory_peak_pct: float | None = None
    temperature_avg_c: float | None = None
    temperature_max_c: float | None = None
    power_avg_w: float | None = None
    energy_j: float | None = None
    samples: int | None = None


class CommunicationTotals(msgspec.Struct, kw_only=True):
    """The totals of one communication operation over the session; None: sizes or times are unknown."""

    operation: str = ""
    count: int = 0
    bytes_total: int | None = None
    bytes_avg: float | None = None
    time_total_s: float | None = None
    time_avg_s: float | None = None
    bandwidth_avg_bps: float | None = None
    share_of_step_time: float | None = None
    ranks: list[int] = msgspec.field(default_factory=list)


class TimerTotals(msgspec.Struct, kw_only=True):
    """The totals of one timer (seconds); `kind` is cpu or cuda."""

    count: int | None = None
    mean: float | None = None
    total: float | None = None
    min: float | None = None
    max: float | None = None
    kind: str | None = None


class SessionProfile(msgspec.Struct, kw_only=True):
    """The times of the newest profiled step (ms)."""

    step: int | None = None
    computation_ms: float | None = None
    communication_ms: float | None = None
    other_ms: float | None = None


class SessionRank(msgspec.Struct, kw_only=True):
    """One rank of the session; `log` is the path of its log relative to the folder."""

    rank: int | None = None
    local_rank: int | None = None
    node: str | None = None
    pid: int | None = None
    gpu_index: int | None = None
    steps: int | None = None
    step_time_mean_s: float | None = None
    peak_memory_bytes: int | None = None
    exit_code: int | None = None
    log: str | None = None


class SessionNode(msgspec.Struct, kw_only=True):
    """One node of the session, with averages over the session."""

    name: str | None = None
    hostname: str | None = None
    node_rank: int | None = None
    gpu_count: int | None = None
    cpu_avg_pct: float | None = None
    memory_avg_pct: float | None = None


class SessionSystem(msgspec.Struct, kw_only=True):
    """The machine of the session and its driver version."""

    hostname: str | None = None
    os: str | None = None
    kernel: str | None = None
    cpu_model: str | None = None
    cpu_count: int | None = None
    memory_bytes: int | None = None
    driver: str | None = None
    cuda: str | None = None


class EvaluationResults(msgspec.Struct, kw_only=True):
    """The results of one evaluation; `time` in unix seconds."""

    step: int | None = None
    time: float | None = None
    results: dict[str, float | None] = msgspec.field(default_factory=dict)


class SessionWarning(msgspec.Struct, kw_only=True, rename={"class_id": "class"}):
    """The warnings of one class; `first` and `last` in unix seconds."""

    class_id: str = ""
    severity: str | None = None
    count: int = 1
    first: float | None = None
    last: float | None = None
    example: str | None = None
    rank: int | None = None

    @property
    def is_nan_loss(self) -> bool:
        """True if the class is that of a loss that is not finite."""
        rule = built_in_rules().get(self.class_id)
        return rule is not None and "nan_loss" in rule.kinds


class SessionSummary(msgspec.Struct, kw_only=True):
    """Everything known about a session except its curves; times in unix seconds."""

    format: str | None = "gpuwatch-session"
    version: int | None = VERSION
    writer: str | None = None
    id: str | None = None
    run_id: str | None = None
    name: str | None = None
    status: Status | None = None
    exit_code: int | None = None
    exit_signal: str | None = None
    error: str | None = None
    command: list[str] | None = None
    mode: Mode | None = None
    forced_single_gpu: bool | None = None
    world_size: int | None = None
    gpu_count: int | None = None
    node_count: int | None = None
    backend: str | None = None
    mixed_precision: str | None = None
    model: SessionModel | None = None
    batch: SessionBatch | None = None
    start: float | None = None
    end: float | None = None
    duration_s: float | None = None
    steps: int | None = None
    last_step: int | None = None
    total_steps: int | None = None
    epochs: float | None = None
    steps_per_s: float | None = None
    steady_steps_per_s: float | None = None
    samples_per_s: float | None = None
    tokens_per_s: float | None = None
    step_time_s: StepTimeStatistics | None = None
    mfu_step: float | None = None
    mfu_overall: float | None = None
    final_loss: float | None = None
    non_finite_loss_step: int | None = None
    """The step since which the loss is NaN or Inf until the end; None: the last loss is finite."""
    best_loss: float | None = None
    final_learning_rate: float | None = None
    final_grad_norm: float | None = None
    evaluation: dict[str, float | None] | None = None
    evaluations: list[EvaluationResults] | None = None
    gpus: list[SessionGpu] | None = None
    communication: list[CommunicationTotals] | None = None
    timers: dict[str, TimerTotals] | None = None
    profile: SessionProfile | None = None
    ranks: list[SessionRank] | None = None
    nodes: list[SessionNode] | None = None
    configuration: dict[str, Any] | None = None
    environment: dict[str, str] | None = None
    packages: dict[str, str] | None = None
    system: SessionSystem | None = None
    warnings: list[SessionWarning] | None = None
    parts: list[str] | None = None

    @property
    def has_non_finite_loss(self) -> bool:
        """True if the loss is NaN or Inf until the end."""
        named = any(each.is_nan_loss for each in self.warnings or ())
        return self.final_loss is None and (self.non_finite_loss_step is not None or named)

    @property
    def workers(self) -> int | None:
        """Number of GPUs, or of ranks if no GPU is used; None: unknown."""
        return self.gpu_count or self.world_size


StructT = TypeVar("StructT", bound=msgspec.Struct)


def read_struct(kind: type[StructT], facts: Mapping[str, Any], where: str, problems: list[str]) -> StructT:
    """Return decoded JSON as `kind`; values of a wrong type become None and are listed in `problems`."""
    known: dict[str, Any] = {}
    for name, key, hint in _fields(kind):
        value = facts.get(key)
        if value is None:
            continue
        found = _value(hint, value, f"{where}{key}", problems)
        if found is not None:
            known[name] = found
    return kind(**known)


@cache
def _fields(kind: type[msgspec.Struct]) -> tuple[tuple[str, str, Any], ...]:
    """Return (name, JSON key, type) of each field."""
    hints = typing.get_type_hints(kind)
    return tuple((each.name, each.encode_name, hints[each.name]) for each in msgspec.structs.fields(kind))


def _value(hint: Any, value: Any, where: str, problems: list[str]) -> Any:  # noqa: ANN401 - a field of any type
    """Return a value converted to the type `hint`; None if it has another type, is negative or too large.

    The first two are noted in `problems`.
    """
    choices = [each for each in typing.get_args(hint) if each is not type(None)]
    wanted = choices[0] if type(None) in typing.get_args(hint) else hint
    origin, inner = typing.get_origin(wanted), typing.get_args(wanted)
    if isinstance(wanted, type) and issubclass(wanted, msgspec.Struct) and isinstance(value, dict):
        return read_struct(wanted, value, f"{where}.", problems)
    if origin is list and isinstance(value, list):
        found = [_value(inner[0], item, f"{where}[{index}]", problems) for index, item in enumerate(value)]
        return [item for item in found if item is not None]
    if origin is dict and isinstance(value, dict) and inner[1] is not Any:
        table = {name: _value(inner[1], item, f"{where}.{name}", problems) for name, item in value.items()}
        is_optional = type(None) in typing.get_args(inner[1])
        return {name: item for name, item in table.items() if item is not None or is_optional}
    try:
        found = msgspec.convert(value, wanted, strict=False)
    except DECODE_ERRORS:
        problems.append(f"{where}: not {_type_words(wanted)}")
        return None
    if isinstance(found, float) and not abs(found) < MAX_NUMBER:
        return None
    if isinstance(found, int) and found < 0:  # all of them are counts
        problems.append(f"{where}: negative")
        return None
    return found


def _type_words(wanted: Any) -> str:  # noqa: ANN401 - a type
    """Return the expected type as text, such as `a whole number`."""
    names = {int: "a whole number", float: "a number", str: "a text", bool: "true or false"}
    origin = typing.get_origin(wanted)
    if origin is Literal:
        return "one of " + ", ".join(map(str, typing.get_args(wanted)))
    return names.get(wanted) or ("a list" if origin is list else "an object")


def known_time(seconds: float | None) -> float | None:
    """Return a time of the years 1970 to 5138 (unix seconds); None for others, NaN and Inf."""
    return seconds if seconds is not None and 0 <= seconds <= MAX_TIME else None


def sanitized(value: Any, depth: int = 0) -> Any:  # noqa: ANN401 - decoded JSON
    """Return decoded JSON of limited size, without control characters.

    NaN, numbers too large, and values nested deeper than `MAX_DEPTH` become None.
    """
    if isinstance(value, str):
        return plain(value[:MAX_TEXT])
    if depth >= MAX_DEPTH:
        return None
    if isinstance(value, list):
        return [sanitized(item, depth + 1) for item in value[:MAX_ENTRIES]]
    if isinstance(value, dict):
        return {
            plain(str(name)[:MAX_TEXT]): sanitized(item, depth + 1)
            for name, item in list(value.items())[:MAX_ENTRIES]
        }
    if isinstance(value, (int, float)) and not abs(value) < MAX_NUMBER:
        return None
    return value
