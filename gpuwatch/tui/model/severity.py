"""The severities that the screens distinguish."""

from __future__ import annotations

from typing import Literal, TypeAlias

Severity: TypeAlias = Literal["ok", "info", "warning", "error", "critical", "unknown"]
