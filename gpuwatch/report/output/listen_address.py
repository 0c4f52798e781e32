"""Addresses to listen at, as `--listen` takes them."""

from __future__ import annotations

from typing import TypeAlias

Endpoint: TypeAlias = "tuple[str, int]"


class ListenError(ValueError):
    """An invalid address to listen at."""


def parse_listen(text: str) -> Endpoint:
    """`HOST:PORT`, `[IPv6]:PORT`, or `:PORT` for all interfaces.

    Raises:
        ListenError: it is none of these.
    """
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdecimal() or int(port) > 65535 or (":" in host and not host.startswith("[")):
        raise ListenError(f"{text!r} is no address; give HOST:PORT, [IPv6]:PORT or :PORT")
    return host.strip("[]"), int(port)


def is_loopback(host: str) -> bool:
    """True if only this machine can reach such an address."""
    return host.startswith("127.") or host == "::1"


def shown_host(host: str) -> str:
    """The host as written in a URL."""
    return f"[{host}]" if ":" in host else host
