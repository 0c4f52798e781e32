"""Masks passwords, keys and tokens in command lines and log text, where they are read.

Masked are: values of options and assignments whose name ends in a word for a secret, passwords in URLs,
credentials of `Authorization`, signatures in URLs, private keys, and tokens with the form of a known issuer.
A secret without any of these signs cannot be distinguished from other text.
"""

import re

from ..patterns.module_pattern import pattern_of
from ..patterns.quick_checks import has_one, is_ascii
from .encoded_text import decoded, in_latin
from .secret_forms import MASK, is_random, without_key_line, without_known_forms, without_random
from .secret_names import PASSES, SECRET_KEYS, without_paired
from .secret_phrases import without_phrases
from .secret_signs import may_hold_secret

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Match, Pattern

    Masks = tuple[tuple[tuple[str, ...], Pattern[str], str | Callable[[Match[str]], str]], ...]

_BETWEEN = (
    r"(?P<between>\\{0,7}[\"']{0,2}[ \u00a0]{0,3}(?::=|=>|->|[=:\uff1a])[ \t\u00a0\u3000]{0,3}"
    r"(?:[&!][\w!]{1,40}[ \t]{1,3}){0,2}"
    r"|%(?:2[27]%)?3[Aa](?:%2[27])?|%3[Dd]|[\"'\]]{0,2}[ \t]{0,60}(?:\.{3,120}|[:=|\u2502\u2503])[ \t]{0,60}"
    r"|\\?[\"'],[ \t]{0,3}(?=[br]?\\?[\"'])|[\"']?[ \t]{1,60}(?:is[ \t]{1,3})?)"
)
_REST = r"(?:[,;&<>(){}\[\]](?![\w.-]{1,40}[=:])[^\s\"',;&<>(){}\[\]]{1,4096}){0,64}"
"""After a separator, text still belongs to the value unless the next name begins."""
_VALUE = (
    r"(?:(?P<masked>\[masked\])|(?P<call>[A-Za-z_][\w.]{0,63}\()?[br]{0,2}"
    r"(?:\\{1,7}[\"'](?P<escaped>[^\"'\n]{1,4096})"
    r"|(?P<quote>[\"'])(?P<quoted>(?! )(?:\\[^\n]|(?!(?P=quote))[^\\\n]){1,4096}))"
    r"|(?P<value>[^\s\"',;&<>(){}\[\]]{1,4096}" + _REST + r")|(?P<bracketed>[<({][^\s\"']{5,4096}))"
)
_SECRET_NAME = pattern_of(
    r"(?:passw(?:or[dt]|d)|passphrase|secret|token|(?:api|access|secret|private|auth|subscription)[-_ ]?key"
    r"|key[-_]data|credentials?|sshpass|mot de passe|\u5bc6\u7801|(?:j|php)?sess(?:ion)?id"
    r"|(?:sign(?:ing)?|account|encryption|master|license)key)(?:[_-]?[0-9])?" + _BETWEEN + _VALUE,
    re.IGNORECASE,
)
_WEAK = pattern_of(
    r"(?<![A-Za-z0-9])(?P<name>pass|pwd|pw|key|jwt|auth|session|cookie)" + _BETWEEN + _VALUE, re.IGNORECASE
)
"""Names that often mean something else: the value must look like a secret too."""
_BEARER = pattern_of(
    r"(\bBearer {1,3}|\bAuthorization[\"']?[:,] {0,3}b?[\"']?(?:Basic|Token|Api-?Key|Digest) {1,3})"
    r"([\w.~+/=-]{8,4096})",
    re.IGNORECASE,
)
_URL = pattern_of(r"(?<=://)([^\s/@:\"']{0,256})(:[^\s/\"']{0,256})?(?=@)")
_URL_SLASH = pattern_of(r"(?<=://)([^\s/@:\"']{1,256}:)(?!\d{1,5}(?:/|$))([^\s\"'@]{1,256})(?=@)")
"""A password in a URL with an unescaped slash."""
_SIGNED = pattern_of(
    r"([?&;]sig(?:nature)?=|\bX-(?:Amz|Goog)-(?:Signature|Security-Token)=|\b(?:Account|SharedAccess)(?:Key|Signature)=)"
    r"([^\s\"'&;]{4,4096})",
    re.IGNORECASE,
)
"""Signatures in URLs, and keys in connection strings."""
_OPTION = pattern_of(
    r"((?:^|(?<=[\s\"']))--?(?:[A-Za-z]{1,24}[-_]){0,3}(?:store|key)?(?:pass|pwd|pw|auth)"
    r"(?:=|[ \t]{1,8}|[\"'],[ \t]{0,3})[\"']?)"
    r"([^\s\"',;&<>-][^\s\"']{3,4095})",
    re.IGNORECASE,
)
_DIGIT_CODE = pattern_of(r"(\b(?:otp|pin|passcode)[\"']?[ \t]?[:=][ \t]?[\"']?)[0-9]{4,8}\b", re.IGNORECASE)
_CURL_USER = pattern_of(
    r"((?:^|(?<=[\s\"']))(?:-u|-U|--user)(?:[= ]{0,3}|[\"'], {0,3})[\"']?[^\s:\"']{1,256}:)"
    r"([^\s\"']{1,4096})"
)
_HEADER = pattern_of(
    r"(\b(?:(?:Proxy-)?Authorization|(?:Set-)?Cookie)(?:[\"']{0,2}: {0,3}[\"']?|[\"'], {0,3}b?[\"']))"
    r"([^\"'\n]{8,4096})",
    re.IGNORECASE,
)
_USER_AT = pattern_of(
    r"(?<![\w@/.:%+-])([A-Za-z_][\w.-]{0,63}:)([^\s@\"'/:,;()]{6,256})(?=@[A-Za-z0-9][\w-]{0,62}(?:[.:/]|$))"
)
"""`user:password@host` without a scheme."""
_PRIVATE_KEY = pattern_of(r"(-----BEGIN [A-Z ]{0,40}PRIVATE KEY(?: BLOCK)?-----)([^-]{1,16384})")
_METHODS = frozenset(
    ("basic", "digest", "gssapi", "kerberos", "ldap", "munge", "auth/munge", "oauth", "oauth2")
)
"""Login methods that `--auth` may name."""
_NO_SECRETS = frozenset((
    "none", "null", "true", "false", "nil", "undefined", "required", "missing", "invalid", "expired",
    "is", "for", "was", "not", "and", "or", "in", "of", "to", "the", "id", "error", "found", "unset",
    "empty", "default", "session", "password", "token", "secret", "key", "str", "string", "bytes",
    "|", "|-", "|+",
))  # fmt: skip
_TEXT_TOKEN = pattern_of(
    r"(?:pad|eos|bos|eot|unk|mask|sep|cls|image|next|last|first|special|stop|end|start)[_ -]$", re.IGNORECASE
)
_LONG_TOKEN = 8
_LONG_USER = 20
_TOKEN_AS_USER = ":x-oauth-basic"  # noqa: S105 - GitHub's word
"""GitHub's password beside a token in place of the user."""
_REFERENCE = pattern_of(r"\$(?:\w{1,64}|\{[^}\s]{0,200}\}?|\(.{0,4096})$|\*{1,4096}$|<[^>\n]{0,200}>?$")
"""`$NAME`, `$(command)`, `****`, `<hidden>`: placeholders for a secret."""
_LAST_WORD = pattern_of(r"[A-Za-z0-9]{1,24}$")
_CLOSED = pattern_of(r"[<({\[].{0,4096}[>)}\]][,;.]?$")
_MEASURE = pattern_of(r"[+-]?[0-9.]{1,20}(?:[eE][+-]?[0-9]{1,3})?(?:/[0-9]{1,20})?[%a-zA-Z]{0,3}$")
_HEX = pattern_of(r"(?=[0-9]{0,128}[a-f])(?=[a-f]{0,128}[0-9])[0-9a-f]{32,128}$")
_EXPRESSION = pattern_of(r"(?:[a-z_]{1,40}\.[a-z_.]{1,80}|Optional|Union|Column|Field|SecretStr)[\[(]")
_READS = pattern_of(r"(?:env|get|environ|open|load|read|pass|prompt|input|Error)\($", re.IGNORECASE)
"""Functions whose argument is the name of a secret."""
_RULES = ("|", "\u2502", "\u2503")
"""Separators of table cells."""
_MIN_WEAK = 4
_MIN_RANDOM = 12
_SHORT_PASSWORD = 6
_MIN_OPAQUE, _MIN_DIGITS = 16, 3


def masked(text: str) -> str:
    """Return the text with every recognised secret replaced by `MASK`.

    If secrets are recognised only in the decoded text, that is returned, without backspaces.
    """
    shown = _masked(text.replace("\b", ""))
    plain = decoded(text)
    if plain == text:
        return shown
    readable = plain if shown == text else decoded(shown)
    best = min({_masked(each) for each in (readable, plain)}, key=_left)
    return best if MASK in best and _left(best) < _left(readable) else shown


def _left(text: str) -> int:
    """Return how many characters of a masked text are not part of a `MASK`."""
    return len(text.replace(MASK, ""))


def _masked(text: str) -> str:
    other_letters = not is_ascii(text)
    if other_letters:
        text = in_latin(text)
    lower = text.lower()
    if not may_hold_secret(lower):
        return without_random(without_key_line(text))
    if "@" in text:
        text = _URL_SLASH.sub(_url_with_slash, _URL.sub(_url, text))
    for words, pattern, mask in _OF_WORDS:
        if other_letters or has_one(lower, words):  # they may match ASCII's in another case
            text = pattern.sub(mask, text)
    text = without_paired(without_phrases(text, lower), lower)
    if "curl" in lower or ("://" in text and "-u" in text):
        text = _CURL_USER.sub(_user, text)
    if "@" in text:
        text = _USER_AT.sub(_user_at, text)
    text = without_key_line(without_known_forms(text))
    for words, pattern, mask in _OF_NAMES:
        if other_letters or has_one(lower, words):
            text = pattern.sub(mask, text)
    return without_random(text)


def _url_with_slash(found: "Match[str]") -> str:
    return found.group(0) if found.group(2).startswith(MASK) else found.group(1) + MASK


def _header(found: "Match[str]") -> str:
    return found.group(0) if MASK in found.group(2) else found.group(1) + MASK


def _user(found: "Match[str]") -> str:
    """Return the match with the password in `-u name:password` masked; a group (`-u 1000:1000`) stays."""
    return found.group(0) if found.group(2).isdecimal() else found.group(1) + MASK


def _user_at(found: "Match[str]") -> str:
    value = found.group(2)
    plain = (
        value.startswith("[") or not re.search(r"[0-9!#$%^&*+=?~]", value) or not re.search("[A-Za-z]", value)
    )
    return found.group(0) if plain else found.group(1) + MASK


def _url(found: "Match[str]") -> str:
    user, password = found.group(1), found.group(2)
    if password is not None:
        return (MASK if len(user) >= _LONG_USER or password == _TOKEN_AS_USER else user) + ":" + MASK
    return MASK if len(user) >= _LONG_USER else user


def _option(found: "Match[str]") -> str:
    value = found.group(2).lower()
    plain = value in _METHODS or value in _NO_SECRETS or _is_reference(found.group(2)) or _is_number(value)
    return found.group(0) if plain else found.group(1) + MASK


def _masked_named(found: "Match[str]") -> str:
    """Return the match of a name, its value masked if secret; after a blank: of an option, or if random."""
    whole, between = found.group(0), found.group("between")
    value = _value(found)
    spaced = not between.strip("\\ \t\"',is")
    if _is_code(found, value):
        return whole
    if spaced and not value.startswith("-") and not _in_option(found):
        is_stated = "is" in between and _is_opaque(value, whole[:4].lower() == "pass")
        return _masked_value(found) if is_stated or _is_listed(found, value) else whole
    if spaced and value.startswith("-"):
        return whole
    if between.strip()[:1] in _RULES and not (re.search("[0-9]", value) or is_random(value, _MIN_RANDOM)):
        return whole
    is_closed = found.group("bracketed") and (whole[:5].lower() == "token" or _CLOSED.match(value))
    if is_closed or not value or value.strip().lower() in _NO_SECRETS or _is_reference(value):
        return whole
    if _is_number(value) and (between[:1] == '"' or whole[:5].lower() == "token"):
        return whole  # of a JSON record, or a count of tokens
    if whole[:5].lower() == "token" and _is_text_token(found, value):
        return whole
    return _masked_value(found)


def _is_opaque(value: str, is_password: bool) -> bool:
    """Return True if a value that a sentence calls a secret is one, not just a word of that sentence."""
    digits = sum(each in "0123456789" for each in value)
    letters = sum(each.isalpha() for each in value)
    if is_password:
        return len(value) >= _SHORT_PASSWORD and digits > 0 and letters > 0
    return len(value) >= _MIN_OPAQUE and digits >= _MIN_DIGITS and letters > 0 and "/" not in value


def _masked_weak_name(found: "Match[str]") -> str:
    """Return the match of a weak name, its value masked for `DB_PASS=`, `WANDB_KEY=`, not `forward_pass=`."""
    name, value = found.group("name").lower(), _value(found)
    assigned = any(sign in found.group("between") for sign in "=:%>") or _in_option(found)
    plain = value.lower() in _NO_SECRETS or value.lower() in _METHODS or _is_reference(value)
    if plain or _is_measure(value):
        return found.group(0)
    before = _word_before(found)
    if not assigned:
        is_token = before in SECRET_KEYS and _is_listed(found, value)
        return _masked_value(found) if is_token else found.group(0)
    if name in ("pass", "pwd", "pw"):
        is_pair = before != "" and before not in PASSES and ":" not in found.group("between")
        named = is_pair or before in SECRET_KEYS or (name != "pass" and _is_bare_password(found, before))
        secret = named or (found.group("name") == "PASS" and "=" in found.group("between"))
        secret = secret and len(value) >= _MIN_WEAK and "/" not in value and not value.startswith("-")
    else:
        secret = name == "key" or (name == "auth" and any(each in value for each in "0123456789"))
        secret = secret and before in SECRET_KEYS and len(value) >= 8 and "/" not in value[:3]
    secret = secret and not found.group("bracketed")
    opens = before in SECRET_KEYS or (before == "" and found.group("quote"))
    if name == "jwt" or (name == "key" and opens):
        secret = secret or _is_key(value)
    return _masked_value(found) if secret or is_random(value, _MIN_RANDOM) else found.group(0)


def _is_code(found: "Match[str]", value: str) -> bool:
    """Return True if an expression follows the name: `os.environ["X"]`, `Optional[str]`, `getenv("X")`."""
    if not found.group("call"):
        return _EXPRESSION.match(value + found.string[found.end() : found.end() + 1]) is not None
    mixed = any(each in "0123456789" for each in value) and not value.isupper()
    return not mixed or len(value) < _SHORT_PASSWORD or _READS.search(found.group("call")) is not None


def _is_key(value: str) -> bool:
    """Return True if a value looks random, also in hexadecimal digits."""
    return is_random(value, _MIN_RANDOM) or _HEX.match(value) is not None


def _is_listed(found: "Match[str]", value: str) -> bool:
    """Return True if a value that follows its name in a list or after a blank is random text."""
    opaque = "," in found.group("between") and value.isalnum() and len(value) >= _MIN_RANDOM
    return _is_key(value) or (opaque and _is_opaque(value, True))


def _is_bare_password(found: "Match[str]", before: str) -> bool:
    """Return True if the name is `pwd` or `pw` alone and its value a password.

    A path is the shell's PWD; after a colon, the value must have a digit.
    """
    value, is_assigned = _value(found), "=" in found.group("between")
    mixed = any(each in value for each in "0123456789") and not value.isdecimal()
    return before == "" and value[:1] not in ("~", ".") and "/" not in value and (is_assigned or mixed)


def _word_before(found: "Match[str]") -> str:
    """Return the word of a name before its last one: `db` for `X_DB_PASS` or `--x-db-pass`; else ""."""
    start = found.start()
    if found.string[start - 1 : start] not in ("-", "_", "."):
        return ""
    known = _LAST_WORD.search(found.string[max(0, start - 25) : start - 1])
    return "" if known is None else known.group(0).lower()


def _value(found: "Match[str]") -> str:
    groups = ("masked", "quoted", "escaped", "value", "bracketed")
    return next(found.group(each) for each in groups if found.group(each)).rstrip("\\")


def _masked_value(found: "Match[str]") -> str:
    whole, value = found.group(0), _value(found)
    at = whole.rindex(value)
    return whole[:at] + MASK + whole[at + len(value) :]


def _is_reference(value: str) -> bool:
    if value[:1] in ("$", "<") and value[-1:] != ">" and is_random(value, _MIN_RANDOM):
        return False
    return value.startswith(MASK) or _REFERENCE.match(value) is not None


def _is_measure(value: str) -> bool:
    """Return True if a value is a number with or without unit: `12.3ms`, `3/5`, `1e-3`."""
    return _MEASURE.match(value) is not None


def _is_number(value: str) -> bool:
    return not value.strip("0123456789.%/")


def _is_text_token(found: "Match[str]", value: str) -> bool:
    """Return True if a "token" is a language model's piece of text, not a credential."""
    words = " " in value and not _in_option(found)
    text = len(value) < _LONG_TOKEN or words or "/" in value or value.startswith(("-", "."))
    return text or _TEXT_TOKEN.search(found.string[max(0, found.start() - 12) : found.start()]) is not None


def _in_option(found: "Match[str]") -> bool:
    """Return True if a matched name is that of an option: `--hf-token` or `-password`."""
    before = found.string[max(0, found.start() - 48) : found.start()].replace("\t", " ")
    return before[before.rfind(" ") + 1 :].lstrip("\\\"'([=")[:1] == "-"


_MASKED = r"\1" + MASK
_OF_WORDS: "Masks" = (
    (("bearer", "authorization"), _BEARER, _MASKED),
    (("authorization", "cookie"), _HEADER, _header),
    (("private key",), _PRIVATE_KEY, _MASKED),
    (("sig", "-token=", "key="), _SIGNED, _MASKED),
    (("pass", "pw", "auth"), _OPTION, _option),
    (("otp", "pin", "passcode"), _DIGIT_CODE, _MASKED),
)
"""Words in lower case, a pattern of which each match has one of them, and what replaces the match."""
_OF_NAMES: "Masks" = (
    (("pass", "secret", "token", "key", "credential", "sess"), _SECRET_NAME, _masked_named),
    (("pass", "pw", "key", "jwt", "auth", "session", "cookie"), _WEAK, _masked_weak_name),
)
"""The same for values behind the name of a secret."""
