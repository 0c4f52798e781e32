"""Receivers of incidents, as the key `alerts` of the settings file and `--alertmanager` describe them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Literal, TypeAlias
from urllib.parse import urlsplit

import yaml

from gpuwatch.hosts.validation.document import place
from gpuwatch.hosts.validation.errors import Problems, did_you_mean, shown
from gpuwatch.hosts.validation.shapes import Keyword, SecretText, Text
from gpuwatch.hosts.validation.structures import Key, ListOf, MapOf, Record

ReceiverKind: TypeAlias = Literal["alertmanager", "webhook", "slack", "ntfy", "command"]
LeastSeverity: TypeAlias = Literal["critical", "error", "warning"]
KINDS: tuple[ReceiverKind, ...] = ("alertmanager", "webhook", "slack", "ntfy", "command")
PLACEHOLDERS = (
    "status", "incident", "headline", "severity", "class", "node", "gpu", "rank", "job", "confidence",
    "first_seen", "resolved_at", "source", "steps", "markdown",
)  # fmt: skip
"""The names allowed in `{...}` in a body."""
PLACEHOLDER = re.compile(r"\{([a-z_]*)\}")


class ReceiverError(ValueError):
    """Raised for an invalid URL of a receiver; its text never contains the URL."""


@dataclass(frozen=True, repr=False)
class ReceiverSpec:
    """A receiver of incidents; its `repr` and `name` contain no secret, such as the path of a chat's URL."""

    kind: ReceiverKind
    target: str | tuple[str, ...]
    """The receiver's URL, or the words of its command."""
    min_severity: LeastSeverity = "warning"
    headers: Mapping[str, str] = field(default_factory=dict)
    body: Mapping[str, str] | None = None
    """Keys of a webhook's JSON, and their texts with placeholders; None: everything."""

    @property
    def name(self) -> str:
        """Return the name on screens: kind, host and port of a URL, or `command` and the program's name."""
        if not isinstance(self.target, str):
            return f"command {self.target[0].rpartition('/')[2]}"
        parts = urlsplit(self.target)
        port = "" if parts.port is None else f":{parts.port}"
        return f"{self.kind} {parts.hostname}{port}"

    @property
    def key(self) -> str:
        """Return a hash that identifies the receiver in the state file, which contains no secrets."""
        return sha256(repr((self.kind, self.target)).encode()).hexdigest()[:16]

    def __repr__(self) -> str:
        return f"<receiver {self.name}>"


def http_url(text: str) -> str:
    """Return `text` unchanged if it is a valid http or https URL.

    Raises:
        ReceiverError: It is not; the message does not contain it.
    """
    try:
        parts = urlsplit(text)
        fits = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        fits = False
    if not fits or not text.isprintable() or " " in text:
        raise ReceiverError("must be a URL that begins with http:// or https:// (not shown)")
    return text


class UrlText(SecretText):
    """The shape of an http or https URL. Messages never quote the URL, as it may contain a token."""

    def __init__(self) -> None:
        super().__init__("a URL that begins with http:// or https://", r"https?://.+", 2048)

    def fits(self, text: str) -> bool:
        try:
            return super().fits(text) and bool(http_url(text))
        except ReceiverError:
            return False


class BodyText(Text):
    """The shape of a text whose `{...}` are all names in `PLACEHOLDERS`."""

    def read(self, node: yaml.Node, problems: Problems) -> str | None:
        """Return the text, None if it is no text (reported).

        An unknown placeholder is reported; the text is returned.
        """
        text = super().read(node, problems)
        for name in PLACEHOLDER.findall(text or ""):
            if name not in PLACEHOLDERS:
                hint = did_you_mean(name, PLACEHOLDERS) or f"; known here: {', '.join(PLACEHOLDERS)}"
                problems.add(place(node), f"unknown placeholder {shown(name)}{hint}")
        return text


_URL = UrlText()
_NAME = Text("a name", r"[A-Za-z0-9_.-]+", 100)


class ReceiverShape(Record):
    """The shape of a receiver: a mapping with exactly one of the keys in `KINDS`, and options."""

    def read(self, node: yaml.Node, problems: Problems) -> ReceiverSpec | None:  # type: ignore[override]  # the receiver, not the entry
        """Return the receiver; None if the mapping is invalid or has no or several kinds (reported)."""
        entry = super().read(node, problems)
        if entry is None:
            return None
        kinds = [kind for kind in KINDS if kind in entry.places]
        if len(kinds) != 1:
            problems.add(entry.place, f"a receiver has exactly one of the keys {', '.join(KINDS)}")
            return None
        values, kind = entry.values, kinds[0]
        if kind not in values:
            return None
        target = values[kind] if kind != "command" else tuple(values[kind])
        if "body" in values and kind != "webhook":
            problems.add(entry.places["body"], "only a webhook has a body")
        return ReceiverSpec(
            kind,
            target,
            values.get("min_severity", "warning"),
            values.get("headers", {}),
            values.get("body"),
        )


RECEIVERS = ListOf(
    ReceiverShape(
        "a receiver",
        (
            Key("alertmanager", _URL, "The URL of an Alertmanager (API v2)."),
            Key("webhook", _URL, "A URL that accepts JSON by POST."),
            Key("slack", _URL, "An incoming webhook of Slack or Mattermost."),
            Key("ntfy", _URL, "The URL of an ntfy topic."),
            Key(
                "command",
                ListOf(
                    Text("a word of a command", limit=8192),
                    "a list of words such as [mail, -s, gpuwatch, me]",
                ),
                "A command that reads the JSON from stdin.",
            ),
            Key(
                "min_severity",
                Keyword(("critical", "error", "warning")),
                "The lowest severity that is delivered.",
            ),
            Key(
                "headers",
                MapOf("a mapping of headers", _NAME, Text("the value of a header", limit=4096)),
                "HTTP headers, such as Authorization.",
            ),
            Key(
                "body",
                MapOf(
                    "a mapping of texts",
                    _NAME,
                    BodyText("a text with placeholders such as {headline}", r"(?s:.+)", 8192),
                ),
                "The JSON of a webhook: keys, and texts with placeholders.",
            ),
        ),
    ),
    "a list of receivers",
)
