"""Makes the texts of an incident for receivers: bounded, sanitized, in their markup."""

from __future__ import annotations

import re
import time
from datetime import datetime, timezone

import msgspec

from gpuwatch.agent.patterns.module_pattern import pattern_of
from gpuwatch.diagnose.model.incident import Incident
from gpuwatch.hosts.receivers import PLACEHOLDER
from gpuwatch.plain import plain

MAX_TEXT_CHARS, MAX_STEPS = 600, 6
MAX_MARKDOWN_CHARS = 3_500
"""Maximum length of a message; ntfy turns messages above 4,096 bytes into attachments."""
SIGNS = {"firing": "FIRING", "resolved": "RESOLVED"}
_SPECIAL = pattern_of(r"([\\`*_\[\]<>#|~$])")
_LINKED = pattern_of(
    r"(?<=:)(?=//)|(?<=\bwww)(?=\.)|(?<=@)|(?<=\bmailto)(?=:)|(?<=:)(?=[\w+-]{1,40}:)", re.IGNORECASE
)
"""Matches the places where a chat would make a link, a mention or an emoji."""
NOTHING = "\N{ZERO WIDTH SPACE}"


class IncidentTexts(msgspec.Struct, frozen=True):
    """The delivered texts of an incident; None: unknown."""

    headline: str
    code: str
    job: str | None
    node: str | None
    gpu: int | None
    rank: int | None
    confidence: str
    because: str
    followers: int
    steps: tuple[str, ...]


def texts_of(incident: Incident) -> IncidentTexts:
    """Return the current texts of an incident, sanitized and shortened, with its first `MAX_STEPS` steps."""
    return IncidentTexts(
        _short(incident.headline),
        incident.code,
        None if incident.job is None else _short(incident.job),
        incident.node,
        incident.gpu,
        incident.rank,
        incident.confidence,
        _short(incident.because),
        incident.followers,
        tuple(_short(step) for step in incident.do[:MAX_STEPS]),
    )


def _short(text: str) -> str:
    text = plain(text)
    return text if len(text) <= MAX_TEXT_CHARS else text[: MAX_TEXT_CHARS - 1] + "\N{HORIZONTAL ELLIPSIS}"


def rfc3339(at: float) -> str:
    """Return unix time as UTC text in the format of Alertmanager."""
    return datetime.fromtimestamp(at, timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def markdown(texts: IncidentTexts, found: dict[str, str]) -> str:
    """Return the incident in a few lines of Markdown, with its steps while it is firing; cut if too long.

    Markup in names from logs and nodes is escaped.
    """
    first = time.strftime(
        "%Y-%m-%d %H:%M:%S UTC", time.strptime(found["first_seen"][:19], "%Y-%m-%dT%H:%M:%S")
    )
    lines = [
        f"**{SIGNS[found['status']]} {found['severity']}**: {escaped_markdown(texts.headline)}",
        f"- first seen: {first}",
        f"- class: {escaped_markdown(texts.code)}, confidence: {texts.confidence}",
    ]
    if texts.job is not None:
        lines.append(f"- job: {escaped_markdown(texts.job)}")
    if found["status"] == "firing" and texts.steps:
        lines += ["", *(f"{number}. {escaped_markdown(step)}" for number, step in enumerate(texts.steps, 1))]
    return "\n".join(lines)[:MAX_MARKDOWN_CHARS]


def escaped_markdown(text: str) -> str:
    """Return the text with markup, mentions, links, formulas and emoji escaped, also for Discord.

    `blocks.markdown.escaped` makes code of such words instead; a message is cut at `MAX_MARKDOWN_CHARS`,
    which may leave the code open.
    """
    return _SPECIAL.sub(r"\\\1", _LINKED.sub(NOTHING, text)).replace(f"@{NOTHING}", f"\\@{NOTHING}")


def slack_text(texts: IncidentTexts, found: dict[str, str]) -> str:
    """Return the incident in Slack's markup, with its steps while it is firing; cut if too long.

    Texts from logs and nodes are shown as code.
    """

    def safe(text: str) -> str:
        return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("`", "'")

    lines = [f"*{SIGNS[found['status']]} {found['severity']}*: `{safe(texts.headline)}`"]
    if found["status"] == "firing":
        lines += [f"{number}. `{safe(step)}`" for number, step in enumerate(texts.steps, 1)]
    return "\n".join(lines)[:MAX_MARKDOWN_CHARS]


def filled(template: str, found: dict[str, str]) -> str:
    """Return the template with its placeholders replaced; placeholders within values are not expanded."""
    return PLACEHOLDER.sub(lambda match: found.get(match[1], match[0]), template)
