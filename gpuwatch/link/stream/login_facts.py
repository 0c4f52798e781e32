"""What a login turned out to be: shown by `gpuwatch hosts check`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class LoginFacts:
    """How one ssh connection was made."""

    user: str
    hostname: str
    port: int
    jump: str | None
    """The jump hosts on the way, nearest first; None without."""
    host_key: str
    """Type and fingerprint: `ED25519 SHA256:...`."""
    verified_by: str | None
    """`key at FILE:LINE` of known_hosts, or `certificate authority at FILE:LINE`; None: accepted now."""
    accepted_at: str | None
    """`FILE:LINE` of known_hosts, where a key that nothing vouches for was recorded by this login."""
    authenticated_by: str
    """The method that the server accepted, with the key's name."""
