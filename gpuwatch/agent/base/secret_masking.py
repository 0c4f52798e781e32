"""Passwords, keys and tokens in command lines and log text are masked where they are read.

What is masked: values of options and assignments whose name ends in a word for a secret, passwords in URLs,
credentials of `Authorization`, signatures in URLs, private keys, and tokens with the form of a known issuer.
A secret that stands without any of these signs cannot be told from other text.
"""

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Match  # noqa: F401 - used in type comments

MASK = "[masked]"
MAX_SECRET = 4096
_SIGNS = (
    "passw", "passphrase", "secret", "token", "apikey", "api_key", "api-key", "access_key", "access-key",
    "accesskey", "auth", "bearer", "://", "hf_", "akia", "asia", "ghp_", "gho_", "ghs_", "ghu_", "ghr_",
    "github_pat_", "glpat-", "xox", "sk-", "aiza", "eyj", "wandb", "private", "credential",
    "nvapi-", "npm_", "dckr_pat_", "pypi-", "sg.", "ya29.", "-pass", "_pass", "pwd", "sig=", "signature=",
    "accountkey", "curl",
)  # fmt: skip
"""One of these words stands in every text with something to mask, in lower case."""
_NAMED = re.compile(
    r"(?:passw(?:or)?d|passphrase|secret|token|api[-_]?key|access[-_]?key|secret[-_]?key|private[-_]?key"
    r"|auth[-_]?key|credentials?)(?P<between>\\?[\"']{0,2} {0,3}[=:] {0,3}|[\"']?[ \t]{1,8})"
    r"(?:[br]{0,2}\\?(?P<quote>[\"'])(?P<quoted>[^\"'\n]{1,4096})|(?P<value>[^\s\"',;&<>(){}\[\]]{1,4096}))",
    re.IGNORECASE,
)
_FORMS = re.compile(
    r"\bhf_[A-Za-z0-9]{16,200}|\b(?:AKIA|ASIA)[0-9A-Z]{16}\b|\bgh[pousr]_[A-Za-z0-9]{20,255}"
    r"|\bgithub_pat_\w{20,255}|\bglpat-[\w-]{16,255}|\bxox[abeoprs]-[A-Za-z0-9-]{10,255}"
    r"|\bsk-(?:ant-|proj-|or-)?[A-Za-z0-9_-]{20,255}|\bAIza[\w-]{35}"
    r"|\bnvapi-[\w-]{16,255}|\bnpm_[A-Za-z0-9]{16,255}|\bdckr_pat_[\w-]{16,255}|\bpypi-Ag[\w-]{16,1000}"
    r"|\bSG\.[\w-]{16,255}\.[\w-]{16,255}|\bya29\.[\w-]{16,2000}"
    r"|\beyJ[\w-]{10,2000}\.[\w-]{10,2000}\.[\w-]{0,2000}"
)
_BEARER = re.compile(
    r"(\bBearer {1,3}|\bAuthorization[\"']?: {0,3}[\"']?(?:Basic|Token|Api-?Key|Digest) {1,3})"
    r"([\w.~+/=-]{8,4096})",
    re.IGNORECASE,
)
_URL = re.compile(r"(?<=://)([^\s/@:\"']{0,256})(:[^\s/\"']{0,256})?(?=@)")
_SIGNED = re.compile(
    r"([?&;]sig(?:nature)?=|\bX-(?:Amz|Goog)-(?:Signature|Security-Token)=|\b(?:Account|SharedAccess)Key=)"
    r"([^\s\"'&;]{4,4096})",
    re.IGNORECASE,
)
"""Signatures in URLs, and keys of connection strings."""
_OPTION = re.compile(
    r"((?:^|(?<=[\s\"']))--?(?:[A-Za-z]{1,24}[-_]){0,3}(?:pass|pwd|auth)(?:=|[ \t]{1,8})[\"']?)"
    r"([^\s\"',;&<>-][^\s\"']{3,4095})",
    re.IGNORECASE,
)
_CURL_USER = re.compile(
    r"((?:^|(?<=\s))(?:-u|--user|--proxy-user)[= ]{0,3}[\"']?[^\s:\"']{1,256}:)([^\s\"']{1,4096})"
)
_PRIVATE_KEY = re.compile(r"(-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----)([^-]{1,16384})")
_METHODS = frozenset(
    ("basic", "digest", "gssapi", "kerberos", "ldap", "munge", "auth/munge", "oauth", "oauth2")
)
"""Ways to log in, which `--auth` may name."""
_WANDB = re.compile(r"(wandb login (?:--?[\w-]{1,20} )?)([0-9a-f]{40})", re.IGNORECASE)
_NO_SECRETS = frozenset(
    [
        "none",
        "null",
        "true",
        "false",
        "nil",
        "undefined",
        "required",
        "missing",
        "invalid",
        "expired",
        "is",
        "for",
        "was",
        "not",
        "and",
        "or",
        "in",
        "of",
        "to",
        "the",
        "id",
        "error",
        "found",
        "unset",
        "empty",
        "default",
    ]
)
_TEXT_TOKEN = re.compile(
    r"(?:pad|eos|bos|eot|unk|mask|sep|cls|image|next|last|first|special|stop|end|start)[_ -]$", re.IGNORECASE
)
_LONG_TOKEN = 8
_LONG_USER = 20


def masked(text):
    # type: (str) -> str
    """The text with `MASK` in place of every secret; the same text where there is none."""
    lower = text.lower()
    if not any(sign in lower for sign in _SIGNS):
        return text
    text = _URL.sub(_url, text)
    text = _BEARER.sub(r"\1" + MASK, text)
    text = _WANDB.sub(r"\1" + MASK, text)
    text = _PRIVATE_KEY.sub(r"\1" + MASK, text)
    text = _SIGNED.sub(r"\1" + MASK, text)
    text = _OPTION.sub(_option, text)
    if "curl" in lower:
        text = _CURL_USER.sub(r"\1" + MASK, text)
    text = _FORMS.sub(MASK, text)
    return _NAMED.sub(_named, text)


def _url(found):
    # type: (Match[str]) -> str
    user, password = found.group(1), found.group(2)
    if password is not None:
        return user + ":" + MASK
    return MASK if len(user) >= _LONG_USER else user


def _option(found):
    # type: (Match[str]) -> str
    value = found.group(2).lower()
    plain = value in _METHODS or value in _NO_SECRETS or value.startswith((MASK, "*", "$", "<"))
    return found.group(0) if plain else found.group(1) + MASK


def _named(found):
    # type: (Match[str]) -> str
    """A value behind a name; behind a space it is one only in an option."""
    whole, between = found.group(0), found.group("between")
    value = (found.group("quoted") or found.group("value")).rstrip("\\")
    spaced = not between.strip("\\ \t\"'")
    if spaced and (value.startswith("-") or not _in_option(found)):
        return whole
    if not value or value.strip().lower() in _NO_SECRETS or value.startswith((MASK, "*", "$", "<")):
        return whole
    if _is_number(value) and (between[:1] == '"' or whole[:5].lower() == "token"):
        return whole  # of a JSON record, or a count of tokens
    if whole[:5].lower() == "token" and _is_text_token(found, value):
        return whole
    at = whole.rindex(value)
    return whole[:at] + MASK + whole[at + len(value) :]


def _is_number(value):
    # type: (str) -> bool
    return not value.strip("0123456789.%/")


def _is_text_token(found, value):
    # type: (Match[str], str) -> bool
    """Whether a token is a piece of text of a language model, and no credential."""
    text = len(value) < _LONG_TOKEN or " " in value or "/" in value or value.startswith(("-", "."))
    return text or _TEXT_TOKEN.search(found.string[max(0, found.start() - 12) : found.start()]) is not None


def _in_option(found):
    # type: (Match[str]) -> bool
    """Whether the name is that of an option, `--hf-token` or `-password`."""
    before = found.string[max(0, found.start() - 48) : found.start()].replace("\t", " ")
    return before[before.rfind(" ") + 1 :].lstrip("\"'([=")[:1] == "-"
