"""The errors that msgspec raises for bytes from outside; some of them are no `MsgspecError`."""

from __future__ import annotations

import msgspec

DECODE_ERRORS = (msgspec.MsgspecError, UnicodeError, RecursionError, OverflowError)
"""Wrong JSON or types, text in another encoding or with half characters, deep nesting, huge numbers."""
