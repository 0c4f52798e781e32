"""Masks passwords in phrases of commands, sentences and files that have no name before them."""

from __future__ import annotations

import re

_PHRASES = (
    re.compile(r"(\b(?:mysql|mariadb)\w{0,12}\b[^|;\n]{0,240}?[ \t]-p)([^\s\"']{1,400})"),
    re.compile(
        r"(\b(?:sshpass[ \t]{1,3}-p[ \t]{0,3}|redis-cli\b[^|;\n]{0,200}?[ \t]-a[ \t]{1,3}"
        r"|wandb[ \t]{1,3}login[ \t]{1,3}(?=[\w-]{0,60}[0-9])"
        r"|curl\b[^|;\n]{0,200}?[ \t](?:-u|--user)[ \t=]{0,3}[^\s:\"']{1,200}:))([^\s\"'-][^\s\"']{0,400})"
    ),
    re.compile(
        r"(\b(?:docker|podman|nerdctl|helm|skopeo|buildah|oras|az)\b[^|;\n]{0,60}\blogin\b"
        r"[^|;\n]{0,200}?[ \t]-p[ \t=]{0,3})([^\s\"'-][^\s\"']{0,400})"
    ),
    re.compile(
        r"(\becho[ \t]{1,3}(?:-n[ \t]{1,3})?[\"']?)([^\s\"'$|]{1,400})"
        r"(?=[\"']?[ \t]{0,3}\|[^|\n]{0,200}--password-stdin)"
    ),
    re.compile(
        r"((?:^|(?<=\s))(?:-u|--user)[ \t=]{0,3}[^\s:\"']{1,200}:)(?![0-9]{1,10}\s)([^\s\"']{1,400})"
        r"(?=[^\n]{0,300}://)"
    ),
    re.compile(r"(\blogin[ \t]{1,8}\S{1,256}[ \t]{1,8}password[ \t]{1,8})(\S{1,400})"),
    re.compile(
        r"(\bauth[\"']?[ \t]{0,3}[:=][ \t]{0,3}[(\[][ \t]{0,3}[\"'][^\"'\n]{1,200}[\"'][ \t]{0,3}"
        r",[ \t]{0,3}[\"'])([^\"'\n]{1,400})"
    ),
    re.compile(
        r"(\b(?:password|passphrase|secret|token|api[ _-]key) is[ \t]{1,3}[\"']?)"
        r"(?=[^\s\"']{0,200}[0-9])([^\s\"',;]{6,400})",
        re.IGNORECASE,
    ),
)
"""Patterns of database clients, logins, registries, pipes, HTTP clients, netrc files and sentences.

Each has two groups: the text before the secret, and the secret.
"""


def mask_phrases(text: str, mask: str) -> str:
    """Return the text with the secrets in phrases such as `mysql -pSECRET` replaced by `mask`."""
    for phrase in _PHRASES:
        text = phrase.sub(r"\1" + mask, text)
    return text
