"""Recognises names of secrets, and masks their values in arguments, XML and `name`/`value` pairs."""

import re

from ..patterns.module_pattern import pattern_of
from .secret_forms import MASK

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Match

SECRET_KEYS = frozenset((
    "wandb", "hf", "openai", "anthropic", "storage", "encryption", "encrypt", "signing", "sign", "ngc",
    "comet", "neptune", "mlflow", "aws", "azure", "gcp", "account", "shared", "master", "ssh",
    "client", "service", "license", "deploy", "admin", "app", "user", "login", "crypt", "jwt", "hmac",
    "secret", "session", "webhook", "ssl", "tls", "gpg", "pgp", "vault", "db", "database", "s3",
    "minio", "azureml", "databricks", "bearer", "kaggle", "langsmith", "mistral", "cohere", "groq", "gemini",
    "openrouter", "swanlab", "clearml", "dagshub", "roboflow", "pinecone", "slack", "github", "gitlab",
    "mysql", "pg", "postgres", "mongo", "redis", "rediscli", "smtp", "mail", "ftp", "root", "proxy",
    "registry", "security", "bot", "sas", "subscription",
))  # fmt: skip
"""Words before `_KEY` or `_PASS` that make it a secret."""
PASSES = frozenset((
    "forward", "backward", "fwd", "bwd", "first", "second", "third", "single", "multi", "two", "one",
    "last", "next", "per", "eval", "train", "bypass", "by", "num", "max", "min", "data", "image",
))  # fmt: skip
"""Words before `_pass` that make it a pass over data."""
_KEY_OF = frozenset(("api", "access", "private", "auth"))
_ENDS = (
    "password", "passwd", "passphrase", "secret", "token", "credential", "credentials", "apikey", "accesskey",
    "secretkey", "privatekey", "authkey", "sshpass", "sshkey", "passcode", "jwt", "dsn", "cookie", "cookies",
    "creds", "passwords", "secrets", "apikeys", "authorization",
)  # fmt: skip
_TEXT_TOKENS = frozenset((
    "pad", "eos", "bos", "eot", "unk", "mask", "sep", "cls", "image", "next", "last", "first", "special",
    "stop", "end", "start", "num", "max", "min", "padding", "eom", "unknown", "video", "audio", "per",
    "begin", "fim", "decoder",
))  # fmt: skip
_WORDS = pattern_of(r"(?:[A-Z]{1,60}(?![a-z])|[A-Z]?[a-z]{1,60})[0-9]{0,2}|[0-9]{1,20}")
_IDENTIFIER = r"([\w.:-]{3,80})"
_QUOTE = r"\\{0,3}[\"']?"
_NAME_KEY = r"\b(?:[a-z]{0,12}_?(?:name|key)|env|variable|field)"
_VALUE_KEY = r"\b(?:[a-z]{0,12}value|val|content|default)"
_BARE = r"((?:(?!value[:=])[^\s\"',;{}<>()\[\]\\]){1,4096})"
_QUOTED = r"(?:\\{0,3}\"([^\"\n\\]{1,4096})|\\{0,3}'([^'\n\\]{1,4096})|" + _BARE + ")"
_IS = _QUOTE + r"[ \t]{0,3}[:=][ \t]{0,3}"
_SEPARATOR = r"(?:[ \t]{0,3}[,;][ \t]{0,3}|[ \t]{1,20})"
_PAIR = pattern_of(
    _NAME_KEY
    + _IS
    + _QUOTE
    + _IDENTIFIER
    + _QUOTE
    + _SEPARATOR
    + r"(?:[^{}\n]{0,80}?[,;.][ \t]{0,3}(?:--set[ \t]{1,3})?[\"']?(?:[\w\[\]]{1,24}\.)?)?"
    + _QUOTE
    + _VALUE_KEY
    + _IS
    + r"(?:\{[ \t]{0,3}\\{0,3}[\"']\w{1,20}\\{0,3}[\"'][ \t]{0,3}:[ \t]{0,3})?"
    + _QUOTED,
    re.IGNORECASE,
)
"""`{"name": "DB_PASSWORD", "value": "x"}`, `<add key="ApiKey" value="x"/>`, `{Name:X Value:x}`."""
_PAIR_BACKWARDS = pattern_of(
    _VALUE_KEY + _IS + _QUOTED + _QUOTE + _SEPARATOR + _QUOTE + _NAME_KEY + _IS + _QUOTE + r"([\w.:-]{3,80})",
    re.IGNORECASE,
)
_TEXT = r"[ \t]{0,20}(?:<!\[CDATA\[)?[ \t]{0,20}([^<>\s\]][^<>\]\n]{0,4095})(?=</|\]\]>)"
_ELEMENT = pattern_of(r"<" + _IDENTIFIER + r"(?:[ \t][^<>]{0,200})?>" + _TEXT)
_PROPERTY = pattern_of(
    r"<(?:name|key)>[ \t]{0,20}" + _IDENTIFIER + r"[ \t]{0,20}</(?:name|key)>[ \t]{0,20}"
    r"<(?:value|string)>" + _TEXT
)
_QUOTED_PAIR = pattern_of(r"([\"'])([\w.-]{3,80})=([^\"'\n]{1,4096})(?=\1)")
"""A quoted assignment to a secret's name, as in `"DB_PASSWORD=two words"`."""
_NAME_LINE = pattern_of(
    r"(?:(?:^|[\s\"'{-])" + _NAME_KEY + _IS + _QUOTE + _IDENTIFIER + _QUOTE + r"[ \t]{0,3},?"
    r"|<(?:name|key)>[ \t]{0,20}" + _IDENTIFIER + r"[ \t]{0,20}</(?:name|key)>"
    r"|(?:^|[\s\"'{])(?![a-z]{0,12}value)" + _IDENTIFIER + _QUOTE + r"[ \t]{0,3}:[ \t]{0,3}\{?)"
    r"[ \t]{0,8}(?:#.{0,200})?$",
    re.IGNORECASE,
)
_VALUE_LINE = pattern_of(
    r"(?:(?:^|[\s\"'{-])"
    + _VALUE_KEY
    + _IS
    + r"(?:[&!][\w!]{1,40} ){0,2}"
    + _QUOTED
    + r"|<(?:value|string)>"
    + _TEXT
    + r")",
    re.IGNORECASE,
)
_NAME_SIGN = pattern_of(r"name|key|env|variable|field|[:{] {0,8}$|NAME|KEY|Name|Key")
_VALUE_SIGN = pattern_of("alue|val|string>|efault|ontent")
_VALUE_OPENS = pattern_of(
    r"(?:(?:^|[\s\"'{-])" + _VALUE_KEY + _QUOTE + r"[ \t]{0,3}[:=]|<(?:value|string)>)[ \t>|+-]{0,8}$",
    re.IGNORECASE,
)
_NAME = pattern_of(r"[\w.+-]{1,64}$")
_OPTION = pattern_of(r"--[a-z]|-[A-Za-z]{1,2}$|-[a-z-]{1,64}$")
_NO_VALUES = frozenset(("none", "null", "true", "false", "required", "missing", "unset", "empty", "default"))
_NUMBER = "0123456789.%/+-"


def is_secret_name(name: str) -> bool:
    """Return True if a name ends in a word for a secret: `DB_PASSWORD`, `apiKey`, `datasource.password`."""
    words = [word.lower() for word in _WORDS.findall(name.rstrip("0123456789_-."))]
    if not words:
        return False
    last, before = words[-1], words[-2] if len(words) > 1 else ""
    if last == "token":
        return before not in _TEXT_TOKENS
    if last.endswith(_ENDS):
        return True
    if last == "key":
        return before in SECRET_KEYS or before in _KEY_OF
    if last == "auth":
        return before in SECRET_KEYS or before in _KEY_OF
    return last in ("pass", "pwd", "pat") and before != "" and (last != "pass" or before not in PASSES)


def masked_arguments(arguments: "list[str]") -> "list[str]":
    """Return a program's arguments, with the values of options and variables named like a secret masked.

    Values in quotes or of several words are left to `masked`.
    """
    shown, name = [], ""
    for argument in arguments:
        if name and not _OPTION.match(argument) and _is_whole(argument) and is_secret(name, argument):
            shown.append(MASK)
            name = ""
            continue
        option, equals, value = argument.partition("=")
        name = "" if equals else option.lstrip("-") if option[:1] == "-" else ""
        is_named = equals and _NAME.match(option) and _is_whole(value) and is_secret(option, value)
        shown.append(option + equals + MASK if is_named else argument)
    return shown


def _is_whole(value: str) -> bool:
    return value[:1] not in "\"'" and not any(each.isspace() for each in value)


def without_paired(text: str, lower: str) -> str:
    """Return the text with values of secret names masked in XML and in name/value pairs.

    `lower`: the text in lower case.
    """
    if "val" in lower:
        text = _PAIR_BACKWARDS.sub(_backwards, _PAIR.sub(_paired, text))
    if "=" in text and (" " in text):
        text = _QUOTED_PAIR.sub(_whole, text)
    if "</" in text or "]]>" in text:
        text = _ELEMENT.sub(_paired, _PROPERTY.sub(_paired, text))
    return text


def named_in(line: str) -> "str | None":
    """Return the name at the end of a line whose value may be on the next line, as in a Kubernetes manifest.

    None: it names none.
    """
    if _NAME_SIGN.search(line) is None:
        return None
    named = _NAME_LINE.search(line[-200:])
    return None if named is None else next(each for each in named.groups() if each)


def value_in(line: str) -> str:
    """Return a line's value if its name may be on the line above, else ""."""
    found = _VALUE_LINE.search(line) if _VALUE_SIGN.search(line) else None
    value = "" if found is None else next(each for each in found.groups() if each)
    return value if value.strip(">|+-") else ""


def opens_value(line: str) -> bool:
    """Return True if a line ends with a value's key (`value:`, `<string>`); the value is on the next line."""
    return _VALUE_OPENS.search(line[-80:]) is not None


def _paired(found: "Match[str]") -> str:
    return _masked(found, 1, range(2, found.re.groups + 1))


def _whole(found: "Match[str]") -> str:
    return _masked(found, 2, range(3, 4))


def _backwards(found: "Match[str]") -> str:
    return _masked(found, 4, range(1, 4))


def _masked(found: "Match[str]", name: int, values: "range") -> str:
    """Return the match with its value masked if the name is a secret's.

    `name`, `values`: group numbers; the first of `values` that matched is the value.
    """
    value = next(each for each in values if found.group(each))
    whole = found.group(0)
    if not is_secret(found.group(name), found.group(value)):
        return whole
    begin, end = found.start(value) - found.start(), found.end(value) - found.start()
    return whole[:begin] + MASK + whole[end:]


def is_secret(name: str, value: str) -> bool:
    """Return True if the value of a name is a secret, not a reference, a word of a sentence or a count."""
    bare = value.strip()
    plain = bare.lower() in _NO_VALUES or bare[:1] in ("$", "<", "[") or bare.startswith(MASK)
    if plain or not is_secret_name(name):
        return False
    if name.lower().endswith("token"):
        return len(bare) >= 8 and any(each.isdecimal() for each in bare) and bool(bare.strip(_NUMBER))
    return bool(bare.strip(_NUMBER)) or name.lower().endswith(("password", "passwd", "pass", "pwd"))
