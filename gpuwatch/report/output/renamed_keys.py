"""Renamed JSON keys: reports write both names for one minor version (docs/json.md)."""

from __future__ import annotations

from typing import Any

RENAMED = {
    "because": "confidence_reason",
    "do": "actions",
    "heard": "hang_check",
    "left_out": "omitted",
    "seats": "slots",
    "settle": "to_confirm",
    "unasked": "unreached",
    "wrong": "problem",
}
"""Old name -> new name."""


def with_new_names(facts: dict[str, Any]) -> dict[str, Any]:
    """Return the object with its renamed keys under both names; nested objects are unchanged."""
    return {**facts, **{RENAMED[key]: value for key, value in facts.items() if key in RENAMED}}
