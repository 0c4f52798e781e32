"""HTTP requests with limits on time and size.

Redirects are not followed, since they would get the secrets.
"""

from __future__ import annotations

import contextlib
import http.client
import time
import urllib.error
import urllib.request
from base64 import b64encode
from collections.abc import Mapping
from email.message import Message
from typing import IO
from urllib.parse import unquote, urlsplit, urlunsplit

from gpuwatch.link.stream.http_deadline import BoundedHTTP, BoundedHTTPS, BoundedRequest, Bounds
from gpuwatch.plain import plain

PIECE_BYTES = 1 << 20
MAX_REFUSAL_BYTES = 65_536
MAX_REASON_CHARS = 120


class HttpError(Exception):
    """Raised if there is no answer, or it is not HTTP, not 2xx, or cut off.

    The text is sanitized and contains no part of the URL.
    """

    def __init__(self, reason: str, headers: Message | None = None, body: bytes = b"") -> None:
        super().__init__(plain(reason)[:MAX_REASON_CHARS])
        self.headers = headers
        self.body = body
        """The beginning of a refusal's body."""


class NoRedirects(urllib.request.HTTPRedirectHandler):
    """A urllib handler that treats redirects as errors."""

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: Message, newurl: str
    ) -> None:
        """Return None, so that the redirect is not followed."""


_opener = urllib.request.build_opener(NoRedirects, BoundedHTTP, BoundedHTTPS)


def split_login(url: str) -> tuple[str, dict[str, str]]:
    """Return (URL without its user and password, authorization header with them; empty without a login)."""
    parts = urlsplit(url)
    bare = urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
    if parts.username is None:
        return bare, {}
    login = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    return bare, {"Authorization": "Basic " + b64encode(login.encode()).decode()}


def post(
    url: str, body: bytes, headers: Mapping[str, str], silence_s: float, whole_s: float, most: int
) -> bytes:
    """Send a POST request and return its answer, at most `most` + 1 bytes.

    More than `most` bytes mean that the answer is longer.

    Args:
        url: http or https.
        body: The content of the request.
        headers: Added to those of every request.
        silence_s: Longest silence of the server (seconds).
        whole_s: Longest time for the whole exchange (seconds).
        most: Maximum bytes of the answer.

    Raises:
        HttpError: No answer in time, or one that is not 2xx.
    """
    return _answer(url, body, headers, Bounds(silence_s, time.monotonic() + whole_s, most + 1))


def get(url: str, headers: Mapping[str, str], silence_s: float, whole_s: float, most: int) -> bytes:
    """Send one GET request and return its answer, with the limits of `post`.

    Raises:
        HttpError: no answer in time, one that is not 2xx, or one that is shorter than it states.
    """
    return _answer(url, None, headers, Bounds(silence_s, time.monotonic() + whole_s, most + 1))


def _answer(url: str, body: bytes | None, headers: Mapping[str, str], bounds: Bounds) -> bytes:
    try:
        request = BoundedRequest(url, body, headers, bounds)
        with _opener.open(request, timeout=bounds.timeout_s()) as answer:
            stated, found = answer.length, _bounded(answer, bounds.body_bytes)
        if body is None and stated is not None and len(found) < min(stated, bounds.body_bytes):
            raise HttpError(f"the answer is cut off after {len(found)} of {stated} bytes")
        return found
    except urllib.error.HTTPError as error:
        with contextlib.closing(error), contextlib.suppress(OSError, ValueError, http.client.HTTPException):
            raise HttpError(f"HTTP {error.code}", error.headers, error.read(MAX_REFUSAL_BYTES)) from None
        raise HttpError(f"HTTP {error.code}", error.headers) from None
    except urllib.error.URLError as error:
        raise HttpError(str(getattr(error.reason, "strerror", None) or error.reason)) from None
    except http.client.HTTPException as error:
        raise HttpError(f"the answer is not HTTP ({type(error).__name__})") from None
    except (OSError, ValueError) as error:
        raise HttpError(str(getattr(error, "strerror", None) or error)) from None


def _bounded(answer: http.client.HTTPResponse, most: int) -> bytes:
    parts = []
    while most > 0 and (part := answer.read1(min(most, PIECE_BYTES))):
        parts.append(part)
        most -= len(part)
    return b"".join(parts)
