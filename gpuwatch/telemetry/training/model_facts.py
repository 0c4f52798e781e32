"""The parameters of a model: table, counts, memory, summary. Needs a torch module, or a similar object."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

BYTES_OF_DTYPE: Mapping[str, float] = {
    "float64": 8, "int64": 8, "float32": 4, "int32": 4, "float16": 2, "bfloat16": 2, "int16": 2,
    "int8": 1, "uint8": 1, "bool": 1, "float8_e4m3fn": 1, "float8_e5m2": 1, "int4": 0.5, "nf4": 0.5,
}  # fmt: skip
SHORT_DTYPES = {
    "fp64": "float64",
    "fp32": "float32",
    "fp16": "float16",
    "bf16": "bfloat16",
    "fp8": "float8_e4m3fn",
}
MAX_TABLE_ROWS = 200
WRAPPERS: Mapping[str, str] = {
    "DistributedDataParallel": "module", "DataParallel": "module", "FullyShardedDataParallel": "module",
    "DeepSpeedEngine": "module", "OptimizedModule": "_orig_mod",
}  # fmt: skip
"""Name of the class of a module that wraps the model -> the attribute with the model."""


@dataclass(frozen=True)
class ParameterRow:
    """One parameter of a model."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    count: int
    is_trainable: bool


def parameter_table(model: Any) -> list[ParameterRow]:
    """Return name, shape, data type, count and trainability of every parameter, in the model's order."""
    return [
        ParameterRow(
            name,
            tuple(each.shape),
            str(each.dtype).replace("torch.", ""),
            each.numel(),
            bool(each.requires_grad),
        )
        for name, each in model.named_parameters()
    ]


def parameter_table_text(model: Any, most: int = MAX_TABLE_ROWS) -> str:
    """Return a table of the model's parameters as aligned text with totals; at most `most` rows."""
    rows = parameter_table(model)
    shown = [
        (
            row.name,
            "x".join(map(str, row.shape)) or "scalar",
            row.dtype,
            f"{row.count:,}",
            "" if row.is_trainable else "frozen",
        )
        for row in rows[:most]
    ]
    widths = [max((len(row[column]) for row in shown), default=0) for column in range(4)]
    lines = []
    for name, shape, dtype, count, note in shown:
        cells = (
            f"{name:<{widths[0]}}",
            f"{shape:>{widths[1]}}",
            f"{dtype:<{widths[2]}}",
            f"{count:>{widths[3]}}",
        )
        lines.append("  ".join((*cells, note)).rstrip())
    if len(rows) > most:
        lines.append(f"... {len(rows) - most} more parameters")
    total = sum(row.count for row in rows)
    trainable = sum(row.count for row in rows if row.is_trainable)
    lines.append(f"{total:,} parameters, {trainable:,} trainable, {model_memory_mb(model):.1f} MB")
    return "\n".join(lines)


def dtype_bytes(dtype: Any) -> float:
    """Return the bytes per number of a data type, given as a name (`float32`, `bf16`) or torch's type.

    Raises:
        ValueError: it is not known.
    """
    name = str(dtype).replace("torch.", "").lower()
    name = SHORT_DTYPES.get(name, name)
    if name not in BYTES_OF_DTYPE:
        raise ValueError(f"no data type {dtype!r}: it is one of {', '.join(BYTES_OF_DTYPE)}")
    return BYTES_OF_DTYPE[name]


def model_memory_mb(model: Any, dtype: Any = None) -> float:
    """Return the memory of the parameters in MB (10^6 bytes): as stored, or as if all had type `dtype`.

    Raises:
        ValueError: the data type is not known.
    """
    if dtype is not None:
        return float(sum(each.numel() for each in model.parameters())) * dtype_bytes(dtype) / 1e6
    return float(sum(each.numel() * each.element_size() for each in model.parameters())) / 1e6


def unwrapped(model: Any) -> Any:
    """Return the model without modules that make it parallel or compile it.

    Sessions are compared by the name of its class.
    """
    while (inner := getattr(model, WRAPPERS.get(type(model).__name__, ""), None)) is not None:
        model = inner
    return model


def model_facts(model: Any, name: str | None = None) -> dict[str, Any]:
    """Return the `model` object of a session's summary."""
    inner = unwrapped(model)
    rows = parameter_table(model)
    dtypes = sorted({row.dtype for row in rows})
    return {
        "name": name
        or getattr(getattr(inner, "config", None), "_name_or_path", None)
        or type(inner).__name__,
        "parameters": sum(row.count for row in rows),
        "trainable_parameters": sum(row.count for row in rows if row.is_trainable),
        "dtype": ", ".join(dtypes) or None,
        "memory_bytes": round(model_memory_mb(model) * 1e6),
    }


def model_summary(model: Any) -> str:
    """Return a text: the architecture as torch prints it, the parameter table, memory by data type."""
    sizes = ", ".join(f"{name} {model_memory_mb(model, name):.1f} MB" for name in ("fp32", "bf16", "int8"))
    return f"{model}\n{parameter_table_text(model)}\nParameters alone would take: {sizes}"
