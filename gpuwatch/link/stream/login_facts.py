"""The result of a login, as shown by `gpuwatch hosts check`."""

from __future__ import annotations

from msgspec import Struct


class LoginFacts(Struct, frozen=True):
    """The facts of one ssh login: the host key, how it was verified, and the accepted method."""

    user: str
    hostname: str
    port: int
    jump: str | None
    """The jump hosts on the way, nearest first; None without."""
    host_key: str
    """The host key's type and fingerprint: `ED25519 SHA256:...`."""
    verified_by: str | None
    """`key at FILE:LINE` of known_hosts, or `certificate authority at FILE:LINE`; None: accepted now."""
    accepted_at: str | None
    """`FILE:LINE` of known_hosts where this login recorded an unverified key."""
    authenticated_by: str
    """The accepted method, with the key's name."""
