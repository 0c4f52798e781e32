"""Masks secrets in configurations, command lines and texts: by names of keys and options, and by form."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from .json_files import as_number, as_text
from .secret_phrases import mask_phrases

MAX_DEPTH = 20
"""Of collections in collections: a configuration may hold itself."""
MAX_TEXT = 65_536
"""Characters of a text that are kept."""
MASK = "***"
_WORDS = re.compile(r"[A-Z]{1,60}(?![a-z])|[A-Z]?[a-z]{1,60}|[0-9]{1,20}")
_SECRET_WORDS = frozenset((
    "password", "passwords", "passwd", "passphrase", "pwd", "jwt", "secret", "secrets", "credential",
    "credentials", "creds", "cookie", "cookies", "dsn", "apikey", "apikeys", "authorization", "pat",
    "passcode",
))  # fmt: skip
"""Words that make a name a secret's wherever they stand in it."""
_ENDS = (
    "password",
    "passwd",
    "passphrase",
    "secret",
    "apikey",
    "accesskey",
    "secretkey",
    "privatekey",
    "authkey",
    "sshkey",
)
_TEXT_TOKENS = frozenset((
    "pad", "padding", "eos", "bos", "eot", "eom", "unk", "unknown", "mask", "sep", "cls", "image", "video",
    "audio", "next", "last", "first", "special", "stop", "end", "start", "num", "max", "min", "per",
    "begin", "fim", "decoder",
))  # fmt: skip
"""Words before `token` that make it a piece of text."""
_KEY_OF = frozenset((
    "api", "access", "private", "auth", "secret", "account", "storage", "ssh", "encryption", "signing",
    "hf", "wandb", "openai", "anthropic", "ngc", "comet", "neptune", "mlflow", "aws", "azure", "gcp",
    "shared", "master", "client", "service", "license", "deploy", "admin", "app", "user", "login", "hmac",
    "session", "webhook", "ssl", "tls", "gpg", "pgp", "vault", "db", "database", "minio", "databricks",
    "bearer", "kaggle", "slack", "github", "gitlab", "redis", "subscription", "sas", "smtp", "mysql", "pg",
    "postgres", "mongo", "mail", "ftp", "root", "proxy", "crypt", "s3", "bot", "registry",
))  # fmt: skip
"""Words before `key` or `pass` that make it a secret."""
_PAIRS = frozenset(("apikey", "privatekey", "accesskey", "secretkey"))
"""Two words that make a name a secret's wherever they stand in it."""
_LONE_NAMES = frozenset(("token", "key", "auth", "pass", "pw", "sig"))
"""Names that are a secret's where they are the whole name."""
_VALUE_KEYS = frozenset(("value", "data", "raw", "plain", "plaintext", "text", "content", "string"))
"""Keys below such a name that hold the secret itself."""
_TEXT_LIKE = re.compile(
    r"(?:<[^<>]{0,40}>|\[[A-Za-z_]{1,20}\]|none|null|true|false|\$.{1,200}|\*{1,99})$", re.IGNORECASE
)
"""Values that are no secret: `<pad>`, `[PAD]`, `None`, `$TOKEN`."""
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
    r"([\"'\]]{0,2}[ \t]{0,40}(?::=|=>|[=:|])[ \t]{0,3}b?)(?!//)"
    r"(\"[^\"\n]{1,4096}\"|'[^'\n]{1,4096}'|[^\s\"',;&(){}\[\]]{1,4096})"
)
_STRONG_NAMES = re.compile(
    r"((?:passw(?:or)?d|passphrase|secret|(?:api|access|private)[_-]?key)"
    r"(?:[\"']?[ \t]{0,3}[:=][ \t]{0,3}|%3[dD]|%22%3[aA]%22))"
    r"(?!\*\*\*|none\b|null\b)([^\s\"'\[{$<*][^\s\"']{0,4095})",
    re.IGNORECASE,
)
"""Names whose value goes on to the next blank or quote, whatever stands in it."""
_OPTION = re.compile(
    r"(?<![\w-])(--?[A-Za-z][\w.-]{1,80})([\"']?,?[ \t]{1,8}[\"']?)([^\s\"'-][^\s\"']{0,4095})"
)
_SETENV = re.compile(
    r"\b((?:setenv|ENV|ARG)[ \t]{1,3})([A-Za-z]\w{1,80})([ \t]{1,3}[\"']?)([^\s\"'=$<][^\s\"']{0,400})"
)
_ELEMENT = re.compile(r"<([A-Za-z][\w.:-]{1,80})([^<>]{0,200}>[ \t]{0,20})([^<>\s][^<>\n]{0,4095})(?=</)")
_HIDDEN = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
"""Characters that cannot be seen: a name that holds one looks like the name without it."""
_VAGUE_NAMES = frozenset((*_LONE_NAMES, "pwd"))
"""Names that mean something else in a text."""
_DIGIT = re.compile("[0-9]")
_LONG_WORD = re.compile(r"[A-Za-z0-9]{24,4096}")
_CLASSES = re.compile(r"[a-z]{1,4096}|[A-Z]{1,4096}|[0-9]{1,4096}")


def is_secret_name(name: str) -> bool:
    """Return True if a key, option or variable is named like a secret: `dbPassword`, `slack_token`."""
    words = [word.lower() for word in _WORDS.findall(name[-200:])]
    if not words:
        return False
    last, before = words[-1], words[-2] if len(words) > 1 else ""
    if _SECRET_WORDS.intersection(words) or last.endswith(_ENDS) or (not before and last in _LONE_NAMES):
        return True
    if any(
        pair in ("apikey", "privatekey", "accesskey", "secretkey")
        for pair in map("".join, zip(words, words[1:]))
    ):
        return True
    if last == "token":
        return before not in _TEXT_TOKENS
    return (last in ("key", "pass", "auth") and before in _KEY_OF) or (
        last.endswith("token") and last != "token"
    )


def mask_secrets(value: Any, name: str = "", depth: int = 0) -> Any:
    """Return a value of JSON types with secrets masked: values under secret names, and secrets in texts.

    `name`: the key of the value.
    """
    if depth > MAX_DEPTH:
        return "..."
    if isinstance(value, Mapping):
        return {
            str(key): mask_secrets(each, _name_below(name, str(key)), depth + 1)
            for key, each in value.items()
        }
    if isinstance(value, (list, tuple, set, frozenset)):
        if value and all(isinstance(each, str) for each in value) and not is_secret_name(name):
            return mask_arguments(list(value))
        return [mask_secrets(each, name, depth + 1) for each in value]
    if value is None or isinstance(value, (bool, float)):
        return value
    if isinstance(value, (str, bytes)):
        text = value if isinstance(value, str) else value.decode("utf-8", "replace")
        return MASK if text and is_secret_name(name) and not _TEXT_LIKE.match(text) else mask_text(text)
    if isinstance(value, int) or as_number(value) is not None:
        return value
    return MASK if is_secret_name(name) else mask_text(as_text(value))


def _name_below(name: str, key: str) -> str:
    """Return the name to judge the value of `key` by: a secret's name also holds for all keys below it."""
    if is_secret_name(key) or not is_secret_name(name):
        return key
    return key if name.lower() in _LONE_NAMES and key.lower() not in _VALUE_KEYS else name


def mask_arguments(arguments: list[str]) -> list[str]:
    """Return a command line with secrets masked: `--hf-token X`, `--hf-token=X`, `API_KEY=X`."""
    masked: list[str] = []
    is_secret = False
    for argument in arguments:
        option, equals, value = argument.partition("=")
        if is_secret and not argument.startswith("--"):
            masked.append(MASK)
            is_secret = False
            continue
        is_name = re.fullmatch(r"-{0,2}[\w.-]{1,100}", option) is not None
        if equals and is_name:
            masked.append(f"{option}={mask_secrets(value, option.lstrip('-'))}")
        else:
            masked.append(mask_text(argument))
        is_secret = not equals and argument.startswith("-") and is_name and is_secret_name(option)
    return masked


def mask_text(text: str) -> str:
    """Return the text, cut to `MAX_TEXT`, with tokens, keys, passwords in URLs and secret values masked."""
    text = text[:MAX_TEXT]
    if not text.isascii():
        text = _HIDDEN.sub("", text).replace("\u00a0", " ").replace("\u3000", " ")
    text = _PRIVATE_KEY.sub(MASK, text)
    text = _URL_TOKEN.sub(MASK, _URL.sub(r"\1:" + MASK, text))
    text = _BEARER.sub(r"\1" + MASK, _HEADER.sub(_header, text))
    text = _WEBHOOK.sub(r"\1" + MASK, _SIGNATURES.sub(r"\1" + MASK, text))
    text = _SETENV.sub(_variable, mask_phrases(text, MASK))
    text = _ELEMENT.sub(_element, text)
    text = _STRONG_NAMES.sub(_strong, _OPTION.sub(_named, _ASSIGNMENTS.sub(_named, text)))
    return _LONG_WORD.sub(_random, _FORMS.sub(MASK, text))


def _random(found: re.Match[str]) -> str:
    """Return `MASK` for a word of random base64, other words as they are.

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


def _element(found: re.Match[str]) -> str:
    name, between, value = found.groups()
    is_plain = not is_secret_name(name) or name.lower() in _VAGUE_NAMES or _TEXT_LIKE.match(value)
    return found.group(0) if is_plain else f"<{name}{between}{MASK}"


def _header(found: re.Match[str]) -> str:
    return found.group(1) + MASK


def _named(found: re.Match[str]) -> str:
    name, between, value = found.groups()
    bare = value.strip("\"'")
    words = _WORDS.findall(name)
    is_vague = name[:1] != "-" and len(words) == 1 and words[0].lower() in _VAGUE_NAMES
    if is_vague and not (words[0].lower() == "token" and _DIGIT.search(bare)):
        return found.group(0)
    if not is_secret_name(name) or _TEXT_LIKE.match(bare) or not bare.strip("0123456789.%/+-"):
        return found.group(0)
    return f"{name}{between}{MASK}"
