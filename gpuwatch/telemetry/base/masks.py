"""Masks secrets in configurations, command lines and texts: by names of keys and options, and by form."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from .json_files import as_number, as_text
from .secret_names import LONE_NAMES, WORDS, is_secret_name, name_below, paired_name, secret_items
from .secret_phrases import mask_phrases

MAX_DEPTH = 20
"""Maximum depth of nested collections: a configuration may contain itself."""
MAX_TEXT = 65_536
"""Maximum length of a text; the rest is dropped."""
MASK = "***"
_TEXT_LIKE = re.compile(
    r"(?:<[^<>]{0,40}>|\[[A-Za-z_]{1,20}\]|none|null|true|false|\$.{1,200}|\*{1,99})$", re.IGNORECASE
)
"""Matches values that are not secret: `<pad>`, `[PAD]`, `None`, `$TOKEN`."""
_PRIVATE_KEY = re.compile(
    r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY(?: BLOCK)?-----.*?(?:-----END [A-Z -]{0,80}|\Z)", re.DOTALL
)
_FORMS = re.compile(
    r"\b(?:hf_|gh[pousr]_|github_pat_|gl[a-z]{1,6}t-|xox[abeoprs]-|xapp-|nvapi-|npm_|dckr_pat_|pypi-|gsk_|xai-|r8_"
    r"|dapi|dop_v1_|wandb_v1_|[sr]k_(?:live|test)_|hv[sb]\.|ATATT3x|tskey-|GOCSPX-|sk-)[\w.~+/=-]{12,4096}"
    r"|\b(?:AKIA|ASIA)[0-9A-Z]{16}\b|\bAIza[\w-]{35}|\bya29\.[\w-]{16,2000}|\bSG\.[\w-]{16,255}\.[\w-]{16,255}"
    r"|(?<![\w.-])eyJ[\w-]{10,8000}\.[\w-]{10,8000}(?:\.[\w-]{0,8000}){0,3}"
    r"|\b(?:MII[A-Z]|b3BlbnNzaC1rZXktdj)[A-Za-z0-9+/]{28,8192}={0,2}"
)
_URL = re.compile(r"(?<=://)([^\s/:@\"']{0,200}):(?!\d{1,5}/)([^\s@\"']{1,400})(?=@)")
_URL_TOKEN = re.compile(r"(?<=://)[^\s/:@\"']{20,400}(?=@)")
_SIGNATURES = re.compile(
    r"([?&;](?:sig|signature|token|key|secret|password|code)=|\bX-(?:Amz|Goog)-(?:Signature|Security-Token|Credential)="
    r"|\b(?:Account|SharedAccess)Key=)([^\s\"'&;]{4,4096})",
    re.IGNORECASE,
)
_WEBHOOK = re.compile(
    r"(hooks\.slack\.com/[a-z]{5,9}/|/api/webhooks/|/webhookb2/|\.telegram\.org/bot)[\w/@:.-]{8,512}",
    re.IGNORECASE,
)
_HEADER = re.compile(
    r"(\b(?:(?:Proxy-)?Authorization|(?:Set-)?Cookie)[\"']{0,2}[ \t]{0,3}[:=,][ \t]{0,3}[\"']?)"
    r"([^\"'\n]{4,4096})",
    re.IGNORECASE,
)
_BEARER = re.compile(r"(\bBearer[ \t]{1,3})([\w.~+/=-]{4,4096})", re.IGNORECASE)
_ASSIGNMENTS = re.compile(
    r"(?<![\w-])(-{0,2}(?:\$env:)?[A-Za-z][\w.-]{1,80})"
    r"([\"'\]]{0,2}[ \t]{0,40}(?::=|[=-]>|[=:|])[ \t]{0,3}b?)(?!//)"
    r"(\"[^\"\n]{1,4096}\"|'[^'\n]{1,4096}'|[^\s\"',;&(){}\[\]]{1,4096})"
)
_STRONG_NAMES = re.compile(
    r"((?:passw(?:or)?d|passphrase|secret|(?:api|access|private)[_-]?key)"
    r"(?:[\"']?[ \t]{0,3}[:=][ \t]{0,3}|%3[dD]|%22%3[aA]%22))"
    r"(?!\*\*\*|none\b|null\b)([^\s\"'\[{$<*][^\s\"']{0,4095})",
    re.IGNORECASE,
)
"""Matches strong names of secrets with their values, which extend to the next blank or quote."""
_OPTION = re.compile(
    r"(?<![\w-])(--?[A-Za-z][\w.-]{1,80})([\"']?,?[ \t]{1,8}[\"']?)([^\s\"'-][^\s\"']{0,4095})"
)
_SETENV = re.compile(
    r"\b((?:setenv|ENV|ARG|set(?: -[A-Za-z]{1,4}){1,2})[ \t]{1,3})"
    r"([A-Za-z]\w{1,80})([ \t]{1,3}[\"']?)([^\s\"'=$<][^\s\"']{0,400})"
)
_PAIR = re.compile(
    r"(?<![\w-])((?:[A-Za-z]{0,20}[_-]?(?:name|key)|env|variable|field)[\"']?[ \t]{0,8}"
    r"(?:[:=,]|=>)\s{0,8}[\"']?|[\"'](?=[\w.-]{3,80}[\"'],))([\w./-]{3,80})"
    r"((?:[\"']?[,;\s](?:(?!name|key)[^{}]){0,120}?(?<![A-Za-z])[A-Za-z]{0,20}value[\"']?[ \t]{0,8}[:=]"
    r"\s{0,8}(?:\{[ \t\"']{0,8}\w{1,24}[\"']?[ \t]{0,3}[:=][ \t]{0,3})?"
    r"|[\"'],\s{0,8}(?=[\"']))[\"']?)([^\s\"',;{}]{1,4096})",
    re.IGNORECASE,
)
"""Matches a name with the value beside it: `name: DB_PASSWORD, value: x`; `("DB_PASSWORD", "x")`.

They may be on two lines.
"""
_CONNECTION = re.compile(r"(;[ \t]{0,3}(?:pwd|pass|key)=)([^\s;\"']{4,4096})(?=;|$)", re.IGNORECASE)
_ELEMENT = re.compile(r"<([A-Za-z][\w.:-]{1,80})([^<>]{0,200}>[ \t]{0,20})([^<>\s][^<>\n]{0,4095})(?=</)")
_HIDDEN = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
"""Matches invisible characters: a name that contains one looks like the name without it."""
_VAGUE_NAMES = frozenset((*LONE_NAMES, "pwd"))
"""Names of secrets that mean something else in a text, and are not masked there."""
_DIGIT = re.compile("[0-9]")
_LONG_WORD = re.compile(r"[A-Za-z0-9]{24,4096}")
_CLASSES = re.compile(r"[a-z]{1,4096}|[A-Z]{1,4096}|[0-9]{1,4096}")


def mask_secrets(value: Any, name: str = "", depth: int = 0) -> Any:
    """Return a value of JSON types with secrets masked: texts under secret names, and secrets in texts.

    Numbers are unchanged, also under a secret name; what is nested deeper than `MAX_DEPTH` becomes "...".
    `name`: the key of the value.
    """
    if depth > MAX_DEPTH:
        return "..."
    if isinstance(value, Mapping):
        texts = [(str(key), each if isinstance(each, str) else None) for key, each in value.items()]
        paired = paired_name(texts)
        return {
            str(key): mask_secrets(each, name_below(name, str(key), paired), depth + 1)
            for key, each in value.items()
        }
    if isinstance(value, (list, tuple, set, frozenset)):
        items = list(value)
        if items and all(isinstance(each, str) for each in items) and not is_secret_name(name):
            return mask_arguments(items)
        return [mask_secrets(each, name, depth + 1) for each in items]
    if value is None or isinstance(value, (bool, float)):
        return value
    if isinstance(value, (str, bytes)):
        text = value if isinstance(value, str) else value.decode("utf-8", "replace")
        return MASK if text and is_secret_name(name) and not _TEXT_LIKE.match(text) else mask_text(text)
    if isinstance(value, int) or as_number(value) is not None:
        return value
    return MASK if is_secret_name(name) else mask_text(as_text(value))


def mask_arguments(arguments: list[str]) -> list[str]:
    """Return a command line with secrets masked: `--hf-token X`, `--hf-token=X`, `API_KEY=X`."""
    secrets = secret_items(arguments)
    return [MASK if at in secrets else _argument(each) for at, each in enumerate(arguments)]


def _argument(argument: str) -> str:
    name, equals, value = argument.partition("=")
    if equals and re.fullmatch(r"-{0,2}[\w.-]{1,100}", name):
        return f"{name}={mask_secrets(value, name.lstrip('-'))}"
    return mask_text(argument)


def mask_text(text: str) -> str:
    """Return the text, cut to `MAX_TEXT`, with tokens, keys, passwords in URLs and secret values masked.

    Invisible characters are removed.
    """
    text = text[:MAX_TEXT]
    if not text.isascii():
        text = _HIDDEN.sub("", text).replace("\u00a0", " ").replace("\u3000", " ")
    text = _PRIVATE_KEY.sub(MASK, text)
    text = _URL_TOKEN.sub(MASK, _URL.sub(r"\1:" + MASK, text))
    text = _BEARER.sub(r"\1" + MASK, _HEADER.sub(_header, text))
    text = _WEBHOOK.sub(r"\1" + MASK, _SIGNATURES.sub(r"\1" + MASK, text))
    text = _SETENV.sub(_variable, mask_phrases(text, MASK))
    text = _CONNECTION.sub(r"\1" + MASK, _PAIR.sub(_paired, text))
    text = _ELEMENT.sub(_element, text)
    text = _STRONG_NAMES.sub(_strong, _OPTION.sub(_named, _ASSIGNMENTS.sub(_named, text)))
    return _LONG_WORD.sub(_random, _FORMS.sub(MASK, text))


def _random(found: re.Match[str]) -> str:
    """Return `MASK` for a word of random base64; other words are unchanged.

    In random base64 two of three neighbours differ in kind; in other words one of four.
    """
    word = found.group(0)
    kinds = (word.lower() != word) + (word.upper() != word) + any(each in "0123456789" for each in word)
    return MASK if kinds == 3 and len(_CLASSES.findall(word)) * 5 >= len(word) * 2 else word


def _strong(found: re.Match[str]) -> str:
    is_plain = _TEXT_LIKE.match(found.group(2)) or not found.group(2).strip("0123456789.,")
    return found.group(0) if is_plain else found.group(1) + MASK


def _variable(found: re.Match[str]) -> str:
    first, name, between, value = found.groups()
    is_plain = not is_secret_name(name) or _TEXT_LIKE.match(value)
    return found.group(0) if is_plain else f"{first}{name}{between}{MASK}"


def _paired(found: re.Match[str]) -> str:
    first, name, between, value = found.groups()
    is_plain = not is_secret_name(name) or _TEXT_LIKE.match(value) or not _DIGIT.search(value)
    return found.group(0) if is_plain else f"{first}{name}{between}{MASK}"


def _element(found: re.Match[str]) -> str:
    name, between, value = found.groups()
    is_plain = not is_secret_name(name) or name.lower() in _VAGUE_NAMES or _TEXT_LIKE.match(value)
    return found.group(0) if is_plain else f"<{name}{between}{MASK}"


def _header(found: re.Match[str]) -> str:
    return found.group(1) + MASK


def _named(found: re.Match[str]) -> str:
    name, between, value = found.groups()
    bare = value.strip("\"'")
    words = WORDS.findall(name)
    is_vague = name[:1] != "-" and len(words) == 1 and words[0].lower() in _VAGUE_NAMES
    if is_vague and not (words[0].lower() == "token" and _DIGIT.search(bare)):
        return found.group(0)
    if not is_secret_name(name) or _TEXT_LIKE.match(bare) or not bare.strip("0123456789.%/+-"):
        return found.group(0)
    return f"{name}{between}{MASK}"
