"""Checks of a text that cost little; a pattern is searched only in texts that pass them."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import AnyStr


def has_one(text: "AnyStr", words: "Iterable[AnyStr]") -> bool:
    """Return True if one of the words occurs in a text."""
    for word in words:  # noqa: SIM110 - three times as fast as any()
        if word in text:
            return True
    return False


def is_ascii(text: str) -> bool:
    """Return True if a text has no other characters than ASCII's; `str.isascii` is of Python 3.7."""
    try:
        text.encode("ascii")
    except UnicodeError:
        return False
    return True
