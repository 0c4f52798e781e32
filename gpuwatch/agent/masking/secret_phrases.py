"""Masks secrets in phrases of commands, netrc files and records, and those named on the line above."""

import re

from ..patterns.module_pattern import pattern_of
from .secret_forms import MASK
from .secret_names import is_secret, is_secret_name, named_in, opens_value, value_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Match

PHRASE_SIGNS = ("wandb", "-pass", "--proxy", "password", "passwd", "secret", "token", "login", "identified")
"""Substrings in lower case; every text with a phrase about a secret contains one of them."""
_CLIENTS = ("mysql", "mariadb", "redis-cli", "ldap", "ipmitool", "login")
_GAP = r"[\"']?,?[ \t]{1,3}[\"']?"
_WANDB = pattern_of(
    r"(\bwandb" + _GAP + r"login(?:" + _GAP + r"--?[\w-]{1,20}(?:=[^\s\"']{1,200})?){0,4}" + _GAP + r")"
    r"([A-Za-z0-9_-]{8,256})(?![\w/=-])",
    re.IGNORECASE,
)
_OPENSSL = pattern_of(
    r"(-pass(?:in|out)?(?:=|" + _GAP + r")pass:|\bopenssl\b.{0,200}? -k )([^\s\"']{1,4096})"
)
_PROXY_USER = pattern_of(
    r"(--proxy-(?:user|auth)(?:=|" + _GAP + r")[\"']?[^\s:\"']{1,256}:)([^\s\"']{1,4096})"
)
_AUTH_PAIR = pattern_of(
    r"(\bauth[\"']?[ \t]{0,3}[:=][ \t]{0,3}[(\[][ \t]{0,3}[\"'][^\"'\n]{1,200}[\"'],[ \t]{0,3}[\"'])"
    r"([^\"'\n]{1,400})"
)
_PIPED = pattern_of(
    r"(\becho[ \t]{1,3}(?:-n[ \t]{1,3})?[\"']?)([^\s\"'$|]{1,400})"
    r"(?=[\"']?[ \t]{0,3}\|[^|\n]{0,200}--password-stdin)"
)
_SSHPASS = pattern_of(r"(\bsshpass[\"']?,?[ \t]{1,3}[\"']?-p(?:[\"'],)?[ \t]{0,3}[\"']?)([^\s\"']{1,4096})")
_LETTER = pattern_of(r"([\s\"']-([apPw])(?:=|[\"'],)?)([ \t]{0,3}[\"']?)([^\s\"'-][^\s\"']{0,4095})")
_PROGRAMS = {
    "a": pattern_of(r"\bredis-cli\b"),
    "p": pattern_of(
        r"\b(?:mysql|mariadb)|\b(?:docker|podman|nerdctl|helm|skopeo|buildah|oras|az)\b.{0,60}\blogin\b"
    ),
    "P": pattern_of(r"\bipmitool\b"),
    "w": pattern_of(r"\bldap[a-z]{3,8}\b"),
}
"""One-letter option -> programs for which it is the password."""
_COMMAND_CHARS = 240
_COMMAND_ENDS = pattern_of(r"[\n|;]")
_EXPORT = pattern_of(
    r"(\b(?:export|setenv|ENV|ARG|set(?: -[a-zA-Z]{1,4}){1,2})[ \t]{1,3}[A-Z0-9_]{0,64}?"
    r"(?:TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|PASS|PWD|CREDENTIALS?|(?:API|ACCESS|SECRET|PRIVATE|AUTH)_?KEY)"
    r"[ \t]{1,3}[\"']?)([^\s\"'=$<][^\s\"']{3,4095})"
)
_SQL = pattern_of(
    r"(\b(?:IDENTIFIED BY|PASSWORD)(?: {1,3}| {0,3}\( {0,3})\\{0,3}[\"'])([^\"'\n\\]{4,4096})", re.IGNORECASE
)
_NETRC = pattern_of(
    r"((?:\bmachine[ \t]{1,8}[^\s]{1,256}|\bdefault)[ \t]{1,8}(?:login[ \t]{1,8}[^\s]{1,256}[ \t]{1,8})?"
    r"(?:account[ \t]{1,8}[^\s]{1,256}[ \t]{1,8})?password[ \t]{1,8}"
    r"|^[ \t]{0,16}login[ \t]{1,8}[^\s]{1,256}[ \t]{1,8}password[ \t]{1,8})([^\s]{1,4096})"
)
_NETRC_LINE = pattern_of(r"(^[ \t]{0,16}password[ \t]{1,8})([^\s:=]{4,4096})(?=[ \t]{0,8}$)")
_NAME = (
    r"(?:passw(?:or)?ds?|passphrases?|secrets?|tokens?|api[-_]?keys?|access[-_]?keys?|secret[-_]?keys?"
    r"|private[-_]?keys?|auth[-_]?keys?|credentials?)"
)
_QUOTE = r"\\{0,3}[\"']"
_OPENS = r"(" + _NAME + r")((?:" + _QUOTE + r")?[ \t]{0,3}[:=][ \t]{0,3}"
_LIST = pattern_of(_OPENS + r"\[)([^\[\]\n]{4,4096})(?=\])", re.IGNORECASE)
_NESTED = pattern_of(_OPENS + r"\{)([^{}\n]{4,4096})(?=\})", re.IGNORECASE)
_ASSIGNED_GROUP = pattern_of(r"[:=][ \t]{0,3}[\[{]")
_ITEM = pattern_of(r"[^\s\"',\\]{4,4096}")
_ENTRY = pattern_of(
    r"(" + _QUOTE + r"?\b(?:value|secret|key|token|data|plaintext|plain|raw|access|refresh|password|private)"
    r"(?:" + _QUOTE + r")?[ \t]{0,3}[:=][ \t]{0,3}(?:" + _QUOTE + r")?)([^\s\"',\\]{4,4096})",
    re.IGNORECASE,
)
_PLACEHOLDERS = frozenset((
    "none", "null", "true", "false", "hidden", "redacted", "masked", "secure", "filtered", "secret",
    "removed", "required", "optional", "string", "str", "sensitive", "default", "error", "failed",
    "file", "env",
))  # fmt: skip
_NAME_ENDS = pattern_of(
    r"(?<![\w.-])([\w.-]{3,80})[\"']?"
    r"(?:[ \t]{0,3}[:=][ \t]{0,3}(?:[&!][\w!]{1,40}[ \t]{0,3}){0,2}[>|\[{(]?[-+]?[ \t]{0,3}\\?|[ \t]{1,3}\\)$"
)
"""A line that ends with a secret's name; its value is in the next line (YAML's `secret: >`)."""
_KEY_BEGINS = pattern_of(r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY(?: BLOCK)?-----\W{0,8}$")
_LAST_SIGNS = tuple(":=>|-+\\[{(")
"""Last characters of a line whose value, or private key, follows."""
_PREFIX = pattern_of(r"^(?:\[[^\]\n]{1,64}\]:?[ \t]|[\w.-]{1,64}:[ \t]|[ \t]{1,64}){0,4}")
_BASE64 = pattern_of(r"[A-Za-z0-9+/=]{4,128}[ \t]{0,8}$|\[masked\]|Proc-Type:|DEK-Info:|$")
_VALUE_LINE = pattern_of(r"(?:- )?(?:[\"']([^\"'\n]{1,4096})[\"']|([^\s\"':=]{4,4096})),?[ \t]{0,8}\\?$")


def without_phrases(text: str, lower: str) -> str:
    """Return the text with secrets masked in phrases of commands, netrc files and records.

    `lower`: the text in lower case.
    """
    if "wandb" in lower:
        text = _WANDB.sub(_mixed, text)
    if "-pass" in lower or "openssl" in lower:
        text = _OPENSSL.sub(r"\1" + MASK, text)
    if "--proxy" in lower:
        text = _PROXY_USER.sub(r"\1" + MASK, text)
    if "auth" in text:
        text = _AUTH_PAIR.sub(_named, text)
    if "--password-stdin" in text:
        text = _PIPED.sub(_named, text)
    if "sshpass" in lower:
        text = _SSHPASS.sub(r"\1" + MASK, text)
    if any(program in lower for program in _CLIENTS):
        text = _LETTER.sub(_letter, text)
    if "password" in lower:
        text = _NETRC_LINE.sub(_mixed, _NETRC.sub(_named, text))
    if "password" in lower or "identified" in lower:
        text = _SQL.sub(_mixed, text)
    if any(verb in text for verb in ("export", "setenv", "ENV", "ARG", "set -")):
        text = _EXPORT.sub(_mixed, text)
    if _ASSIGNED_GROUP.search(text):
        text = _NESTED.sub(_nested, _LIST.sub(_listed, text))
    return text


MAX_ABOVE = 8
"""Lines above a value in which its name is looked for."""


class SecretLines(object):
    """Masks values named on the line above, and lines of private keys, line by line."""

    def __init__(self) -> None:
        self._above = ""
        self._named = ""
        """The secret name that is nearest above."""
        self._lines_below = 0
        """Lines since that name."""
        self._in_key = False
        self._item = ""
        """First character of a secret that is an item of a list."""
        self._words_before = 0
        """Within a private key: number of prefix words, as on the key's first line."""

    def masked(self, line: str) -> str:
        """Return the next line with its secrets masked.

        Below the name of a secret, only a line of one word can be the value.
        """
        above, self._above = self._above, line
        name = self._name_above(line)
        paired = value_in(line) if name else ""
        is_below = name != "" and opens_value(above)
        if paired or is_below or "}" in line:
            self._named = ""
        if paired and is_secret(name, paired):
            at = line.rindex(paired)
            return line[:at] + MASK + line[at + len(paired) :]
        goes_on = self._item != "" and line.lstrip()[:1] == self._item
        self._item = ""
        if not (self._in_key or goes_on) and above.rstrip()[-1:] not in _LAST_SIGNS:
            return line
        begins = _KEY_BEGINS.search(above)
        if begins is not None:
            self._words_before = len(above[: begins.start()].split())
        self._in_key = (self._in_key or begins is not None) and "-----" not in line
        at = _PREFIX.match(line).end()  # type: ignore[union-attr]  # the pattern matches every line
        words = line.split() if self._in_key else []
        if len(words) == self._words_before + 1:
            at = line.rindex(words[-1])
        rest = line[at:]
        if self._in_key:
            self._in_key = _BASE64.match(rest) is not None
            return line[:at] + MASK if self._in_key else line
        ends = _NAME_ENDS.search(above[-128:])
        is_named = goes_on or is_below or (ends is not None and is_secret_name(ends.group(1)))
        found = _VALUE_LINE.match(rest) if is_named else None
        value = "" if found is None else found.group(1) or found.group(2)
        if not _has_digit(value) or not _is_secret(value):
            return line
        self._item = rest[:1] if rest[:1] in "-\"'" else ""
        return line[:at] + rest.replace(value, MASK)

    def _name_above(self, line: str) -> str:
        """Return the secret name that is nearest above a line; store the line's own name for later lines."""
        name, own = self._named, named_in(line)
        self._lines_below += 1
        if own is not None:
            self._named, self._lines_below = own if is_secret_name(own) else "", 0
        elif self._lines_below >= MAX_ABOVE:
            self._named = ""
        return name


def masked_lines(lines: "list[str]") -> "list[str]":
    """Return consecutive lines with secrets masked, also values and keys that span lines."""
    secrets = SecretLines()
    return [secrets.masked(line) for line in lines]


def _letter(found: "Match[str]") -> str:
    """Return the match, with the password of a one-letter option masked if a login program precedes it.

    The command is searched only for such an option, so that repeated program names cost nothing.
    """
    option, letter, gap, value = found.groups()
    start = found.start()
    command = _COMMAND_ENDS.split(found.string[max(0, start - _COMMAND_CHARS) : start])[-1]
    is_spaced = gap != "" or option[-1] in "=,"
    if value.startswith(MASK) or _PROGRAMS[letter].search(command) is None:
        return found.group(0)
    is_prompt = is_spaced and ("mysql" in command or "mariadb" in command)
    return found.group(0) if is_prompt else option + gap + MASK


def _mixed(found: "Match[str]") -> str:
    """Return the match; its value is masked if it is secret and has a digit, which no word of a text has."""
    value = found.group(2)
    return found.group(1) + MASK if _has_digit(value) and _is_secret(value) else found.group(0)


def _named(found: "Match[str]") -> str:
    return found.group(1) + MASK if _is_secret(found.group(2)) else found.group(0)


def _listed(found: "Match[str]") -> str:
    is_token = found.group(1).lower().startswith("token")
    items = _ITEM.sub(lambda item: _item(item.group(0), is_token), found.group(3))
    return found.group(1) + found.group(2) + items


def _nested(found: "Match[str]") -> str:
    is_token = found.group(1).lower().startswith("token")
    entries = _ENTRY.sub(lambda entry: entry.group(1) + _item(entry.group(2), is_token), found.group(3))
    return found.group(1) + found.group(2) + entries


def _item(value: str, is_token: bool) -> str:
    """Return `MASK` if an item may be a secret, else the item. Short or digitless model tokens stay."""
    plain = is_token and (len(value) < 8 or not _has_digit(value))
    return value if plain or not _is_secret(value) else MASK


def _is_secret(value: str) -> bool:
    bare = value.strip("\"'[]<>*.,;").lower()
    return bare != "" and bare not in _PLACEHOLDERS and value[:1] != "$" and not _is_number(bare)


def _is_number(value: str) -> bool:
    return not value.strip("0123456789.%/+-e")


def _has_digit(value: str) -> bool:
    return any(each in value for each in "0123456789")
