"""Parses the addresses of `--listen`."""

from __future__ import annotations

from typing import TypeAlias

Endpoint: TypeAlias = "tuple[str, int]"


class ListenError(ValueError):
    """Raised for an invalid address to listen at."""


def parse_listen(text: str) -> Endpoint:
    """Return host and port of `HOST:PORT`, `[IPv6]:PORT`, or `:PORT` (host "": all interfaces).

    Raises:
        ListenError: it has another form.
    """
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdecimal() or int(port) > 65535 or (":" in host and not host.startswith("[")):
        raise ListenError(f"{text!r} is not an address; give HOST:PORT, [IPv6]:PORT or :PORT")
    return host.strip("[]"), int(port)


def is_loopback(host: str) -> bool:
    """Return True if only this machine can reach the address."""
    return host.startswith("127.") or host == "::1"


def shown_host(host: str) -> str:
    """Return the host as written in a URL: IPv6 addresses in brackets."""
    return f"[{host}]" if ":" in host else host
