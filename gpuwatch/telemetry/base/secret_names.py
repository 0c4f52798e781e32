"""Finds which values of a configuration are secrets: by their own names, and by the names beside them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Optional

WORDS = re.compile(r"(?:[A-Z]{1,60}(?![a-z])|[A-Z]?[a-z]{1,60})[0-9]{0,2}|[0-9]{1,20}")
_SECRET_WORDS = frozenset((
    "password", "passwords", "passwd", "passphrase", "pwd", "jwt", "secret", "secrets", "credential",
    "credentials", "creds", "cookie", "cookies", "dsn", "apikey", "apikeys", "authorization", "pat",
    "passcode",
))  # fmt: skip
"""Words that make a name that of a secret, at any position."""
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
    "sshpass",
)
_TEXT_TOKENS = frozenset((
    "pad", "padding", "eos", "bos", "eot", "eom", "unk", "unknown", "mask", "sep", "cls", "image", "video",
    "audio", "next", "last", "first", "special", "stop", "end", "start", "num", "max", "min", "per",
    "begin", "fim", "decoder",
))  # fmt: skip
"""Words that, before `token`, mean a piece of text: `pad_token`."""
_KEY_OF = frozenset((
    "api", "access", "private", "auth", "secret", "account", "storage", "ssh", "encryption", "signing",
    "hf", "wandb", "openai", "anthropic", "ngc", "comet", "neptune", "mlflow", "aws", "azure", "gcp",
    "shared", "master", "client", "service", "license", "deploy", "admin", "app", "user", "login", "hmac",
    "session", "webhook", "ssl", "tls", "gpg", "pgp", "vault", "db", "database", "minio", "databricks",
    "bearer", "kaggle", "slack", "github", "gitlab", "redis", "subscription", "sas", "smtp", "mysql", "pg",
    "postgres", "mongo", "mail", "ftp", "root", "proxy", "crypt", "s3", "bot", "registry", "azureml",
    "clearml", "cohere", "dagshub", "encrypt", "gemini", "groq", "jwt", "langsmith", "mistral", "openrouter",
    "pinecone", "rediscli", "roboflow", "security", "sign", "swanlab",
))  # fmt: skip
"""Words that, before `key` or `auth`, mean a secret."""
_PASSES = frozenset((
    "forward", "backward", "fwd", "bwd", "first", "second", "third", "single", "multi", "two", "one",
    "last", "next", "per", "eval", "train", "bypass", "by", "num", "max", "min", "data", "image",
))  # fmt: skip
"""Words that, before `pass`, mean a pass over data."""
_PAIRS = frozenset(("apikey", "privatekey", "accesskey", "secretkey"))
"""Two words, joined, that make a name that of a secret, at any position."""
LONE_NAMES = frozenset(("token", "key", "auth", "pass", "pw", "sig"))
"""Names that mean a secret only if they are the whole name."""
_GROUPS = re.compile(r"(?:.{0,80}[_.-])?(?:token|key|pass)s$", re.IGNORECASE)
"""Matches names of mappings from owners to their secrets: `tokens: {hf: ...}`."""
_NAME_KEYS = re.compile(
    r"[a-z]{0,20}[_-]?(?:name|key)|env|var|variable|field|parameter|option|kind", re.IGNORECASE
)
"""Matches keys whose value is the name of the value beside: `{name: DB_PASSWORD, value: x}`."""
_VALUE_KEYS = re.compile(
    r"[a-z]{0,20}[_-]?value|val|data|raw|plain|plaintext|text|content|string|default", re.IGNORECASE
)
"""Matches keys whose value is the secret itself, beside its name or below it."""
_OPTION = re.compile(r"-{1,2}[A-Za-z][\w.-]{0,98}$")
_NAME = re.compile(r"[A-Za-z][\w.-]{2,80}$")
_LETTERS = frozenset(("-p", "-P", "-a", "-w", "-pw"))
"""Options that take a password in some programs, and a port, a partition or a path in others."""
_MIN_OPAQUE = 8
_CLASSES = re.compile(r"[a-z]{1,4096}|[A-Z]{1,4096}|[0-9]{1,4096}")


def is_secret_name(name: str) -> bool:
    """Return True if a key, option or variable is named like a secret: `dbPassword`, `slack_token`."""
    words = [word.lower() for word in WORDS.findall(name[-200:].rstrip("0123456789_-."))]
    if not words:
        return False
    last, before = words[-1], words[-2] if len(words) > 1 else ""
    if last == "ref":
        return False
    if _SECRET_WORDS.intersection(words) or last.endswith(_ENDS) or (not before and last in LONE_NAMES):
        return True
    if any(pair in _PAIRS for pair in map("".join, zip(words, words[1:]))):
        return True
    if last == "token":
        return before not in _TEXT_TOKENS
    if last == "pass":
        return before not in _PASSES
    return (last in ("key", "auth") and before in _KEY_OF) or (last.endswith("token") and last != "token")


def name_below(name: str, key: str, paired: str = "") -> str:
    """Return the name by which the value of `key` is judged; the name of a secret also holds for keys below.

    `name`: the name of the mapping. `paired`: the name of a secret beside the value, from `paired_name`.
    """
    if paired and _VALUE_KEYS.fullmatch(key):
        return paired
    if key.lower() in LONE_NAMES and _is_owner(name):
        return f"{name}_{key}"
    if _GROUPS.match(name) is not None and _is_owner(key):
        return f"{key}_key"
    if is_secret_name(key) or not is_secret_name(name):
        return key
    return key if name.lower() in LONE_NAMES and not _VALUE_KEYS.fullmatch(key) else name


def _is_owner(name: str) -> bool:
    """Return True if a name is that of a service or account with a secret of its own: `db`, `openai`."""
    words = WORDS.findall(name[-200:])
    return bool(words) and words[-1].lower() in _KEY_OF


def paired_name(pairs: Iterable[tuple[str, Optional[str]]]) -> str:  # noqa: UP045 - Python 3.8
    """Return the name of a secret that a mapping states for the value beside it; "" if there is none.

    `pairs`: the keys of the mapping, and those values that are texts.
    """
    for key, value in pairs:
        if value is not None and _NAME_KEYS.fullmatch(key) and is_secret_name(value):
            return value
    return ""


def secret_items(texts: Sequence[Optional[str]]) -> set[int]:  # noqa: UP045 - Python 3.8
    """Return the positions of items that are secrets because of the item before them.

    `["--api-key", "x"]`, `["run", "-p", "Zx9tQ4wLm27R"]`, and a list of a name and a value with digits.
    """
    found = set()
    for at, (name, value) in enumerate(zip(texts, texts[1:]), 1):
        if name is None or value is None or value.startswith("--") or not value:
            continue
        is_secret = _OPTION.match(name) is not None and is_secret_name(name)
        if is_secret or (name in _LETTERS and _is_opaque(value)):
            found.add(at)
    if len(texts) == 2 and texts[0] and texts[1] and _is_pair(texts[0], texts[1]):
        found.add(1)
    return found


def _is_pair(name: str, value: str) -> bool:
    named = _NAME.match(name) is not None and name.lower() not in LONE_NAMES and is_secret_name(name)
    return named and any(each.isdecimal() for each in value) and not is_secret_name(value)


def _is_opaque(value: str) -> bool:
    """Return True if a text alternates between letters and digits as often as a random password."""
    kinds = (value.lower() != value) + (value.upper() != value) + any(each.isdecimal() for each in value)
    changes = len(_CLASSES.findall(value))
    return value.isalnum() and len(value) >= _MIN_OPAQUE and kinds == 3 and changes * 5 >= len(value) * 2
