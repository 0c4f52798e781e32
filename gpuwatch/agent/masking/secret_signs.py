"""Recognises texts without any sign of a secret, which are most: no pattern is searched in them."""

from ..patterns.quick_checks import has_one
from .secret_forms import FORM_SIGNS
from .secret_phrases import PHRASE_SIGNS

_SIGNS = FORM_SIGNS + PHRASE_SIGNS + (
    "passw", "passphrase", "secret", "token", "apikey", "api_key", "api-key", "access_key",
    "access-key", "accesskey", "auth", "bearer", "://", "private", "credential", "-pass", "_pass",
    "pwd", "-pw", "sig=", "signature=", "accountkey", "curl", "pass=", "pass:", "sshpass", "mysql", "mariadb",
    "redis-cli", "_key", "-key", "key:", 'key"', "key'", "--key", "pw=", "jwt", "cookie", "@",
    "session", "key=", "key>", " key ", "ngkey", "mot de", "storepass", "keypass",
    "\u5bc6\u7801", "sessid", "ldap", "ipmi", "key_data",
    "otp", "pin=", "pin:", "passcode", " -k ", ".pass", ".key",
)  # fmt: skip
"""Substrings in lower case; every text with a secret contains one of them."""
_PARTS = (
    "pass", "key", "token", "secret", "auth", "sess", "pat", "web", "gh", "k_", "pw", "sig", "t-", "pin",
)  # fmt: skip
"""Texts that several of `_SIGNS` contain, so that most lines are searched for these alone."""


def _by_part() -> "list[tuple[str, tuple[str, ...] | None]]":
    """Return (text, signs that contain it) for `_PARTS`, and (sign, None) for each other sign."""
    left = dict.fromkeys(_SIGNS)
    found: list[tuple[str, tuple[str, ...] | None]] = []
    for part in _PARTS:
        signs = tuple(sign for sign in left if part in sign)
        found.append((part, signs))
        for sign in signs:
            del left[sign]
    return found + [(sign, None) for sign in left]


_SIGNS_BY_PART = _by_part()


def may_hold_secret(lower: str) -> bool:
    """Return True if a text in lower case has a sign of a secret; False: it holds none that is recognised."""
    for part, signs in _SIGNS_BY_PART:  # noqa: SIM110 - three times as fast as any()
        if part in lower and (signs is None or has_one(lower, signs)):
            return True
    return False
