"""Rounds values to the digits that mean something: the others are noise, which does not compress."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

DECIMALS = {
    "t": 2,
    "power_w": 1,
    "power_limit_w": 1,
    "energy_j": 0,
    "load_1m": 2,
    "load_5m": 2,
    "load_15m": 2,
}
"""Name of a value -> decimals that are sent."""
PERCENT_DECIMALS, OTHER_DECIMALS = 1, 3


def rounded(values: "dict[str, Any]") -> "dict[str, Any]":
    """Return the values, floats with the decimals of their names; percentages are named `..._pct`."""
    return {
        name: round(value, decimals(name)) if isinstance(value, float) else value
        for name, value in values.items()
    }


def decimals(name: str) -> int:
    """Return the decimals with which a value of this name is sent."""
    return DECIMALS.get(name, PERCENT_DECIMALS if name.endswith("_pct") else OTHER_DECIMALS)
