"""Masks secrets recognisable by form: tokens of known issuers, lines of private keys, random text."""

from ..patterns.module_pattern import pattern_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Match

MASK = "[masked]"
FORM_SIGNS = (
    "hf_", "akia", "asia", "ghp_", "gho_", "ghs_", "ghu_", "ghr_", "github_pat_", "glpat-", "ptt-", "ldt-",
    "lrt-", "xox", "xapp-", "sk-", "aiza", "eyj", "wandb", "webhookb2/", ".org/bot", "dop_v1_", "nvapi-",
    "npm_", "dckr_pat_", "pypi-", "sg.", "ya29.", "k_live_", "k_test_", "hvs.", "hvb.", "gsk_", "xai-",
    "r8_", "dapi", "shpat_", "hooks.slack.com", "/webhooks/", "atatt3x", "secret-key-", "tskey-", "mii",
    "b3blbnnzac1rzxktdj", "gocspx-", "1//0", "q~", "fwogzxivyxdz", "iqojb3jpz2lu",
)  # fmt: skip
"""Substrings in lower case; every text with a token of a known form contains one of them."""
_FORMS = pattern_of(
    r"\bhf_[A-Za-z0-9]{16,200}|\b(?:AKIA|ASIA)[0-9A-Z]{16}\b|\bgh[pousr]_[A-Za-z0-9]{20,255}"
    r"|\bgithub_pat_\w{20,255}|\bgl[a-z]{1,6}t-[\w-]{16,255}|\bx(?:ox[abeoprs]|app)-[A-Za-z0-9-]{10,255}"
    r"|\bsk-(?:ant-|proj-|or-)?[A-Za-z0-9_-]{20,255}|\bAIza[\w-]{35}"
    r"|\bnvapi-[\w-]{16,255}|\bnpm_[A-Za-z0-9]{16,255}|\bdckr_pat_[\w-]{16,255}|\bpypi-Ag[\w-]{16,1000}"
    r"|\bSG\.[\w-]{16,255}\.[\w-]{16,255}|\bya29\.[\w-]{16,2000}"
    r"|\beyJ[\w-]{10,2000}\.[\w-]{10,2000}\.[\w-]{0,2000}"
    r"|\b[sr]k_(?:live|test)_[A-Za-z0-9]{16,255}|\bhv[sb]\.[\w-]{20,255}|\bgsk_[A-Za-z0-9]{32,255}"
    r"|\bxai-[A-Za-z0-9]{32,255}|\br8_[A-Za-z0-9]{32,255}|\b(?:dapi|dop_v1_|shpat_)[0-9a-f]{32,64}"
    r"|\bwandb_v1_\w{20,255}"
    r"|\bATATT3x[\w=-]{20,255}|\bAGE-SECRET-KEY-1[A-Z0-9]{20,255}|\btskey-[a-z]{1,20}-[\w-]{10,255}"
    r"|\b(?:MII[A-Z]|b3BlbnNzaC1rZXktdj)[A-Za-z0-9+/]{28,8192}={0,2}"  # how the body of a private key begins
)
_MARKED_FORMS = (
    ("eyJ", pattern_of(r"(?<![\w.-])eyJ[\w-]{10,8000}(?:\.[\w-]{0,8000}){2,4}")),
    ("GOCSPX-", pattern_of(r"\bGOCSPX-[\w-]{20,64}")),
    ("1//0", pattern_of(r"\b1//0[\w-]{30,256}")),
    ("Q~", pattern_of(r"(?<![\w~.-])[\w~.-]{3}[0-9]Q~[\w~.-]{31,34}(?![\w~-])")),
    ("FwoGZXIvYXdz", pattern_of(r"\bFwoGZXIvYXdz[A-Za-z0-9+/=%]{20,4096}")),
    ("IQoJb3JpZ2lu", pattern_of(r"\bIQoJb3JpZ2lu[A-Za-z0-9+/=%]{20,4096}")),
)
"""A literal and the pattern of each form: signed tokens, Google's and Azure's secrets, AWS session tokens."""
_WEBHOOK = pattern_of(
    r"(hooks\.slack\.com/[a-z]{5,9}/|/api/webhooks/|/webhookb2/|\.telegram\.org/bot)"
    r"([\w/@:-]{8,512}?)(?=[^\w/@:-]|$|/send|/get)"
)
_KEY_LINE = pattern_of(r"(?:(?<=\s)|^)[A-Za-z0-9+/]{64,86}={0,2}(?=\s{0,3}$)")
_KEY_LINE_WIDTH = 64
"""Characters per line of a PEM file (RFC 7468); OpenSSH uses 70, MIME 76, Azure's keys 88."""
_FINGERPRINT = pattern_of(r"(SHA256:[A-Za-z0-9+/]{43}(?![A-Za-z0-9+/=]))")
"""A public key's fingerprint as ssh prints it, which a person compares."""
_LONG_WORD = pattern_of(r"[\w-]{24,4096}")
_RUN = pattern_of(r"[A-Za-z0-9]{24,4096}")
_CLASSES = pattern_of(r"[a-z]{1,4096}|[A-Z]{1,4096}|[0-9]{1,4096}|[^a-zA-Z0-9]{1,4096}")


def without_known_forms(text: str) -> str:
    """Return the text with tokens of known issuers masked, which are recognised by their form."""
    for mark, form in _MARKED_FORMS:
        if mark in text:
            text = form.sub(MASK, text)
    return _WEBHOOK.sub(r"\1" + MASK, _FORMS.sub(MASK, text))


def without_key_line(text: str) -> str:
    """Return the text with a base64 line masked, as in the body of a private key."""
    end = text.rstrip()[-_KEY_LINE_WIDTH:]
    if len(end) < _KEY_LINE_WIDTH or " " in end:
        return text
    return _KEY_LINE.sub(_key_line, text)


def without_random(text: str) -> str:
    """Return the text with random words masked, as tokens of unknown issuers are; not mangled C++ names."""
    if "SHA256:" not in text:
        return _LONG_WORD.sub(_long_word, text)
    parts = _FINGERPRINT.split(text)  # every second one is a fingerprint
    parts[::2] = [_LONG_WORD.sub(_long_word, part) for part in parts[::2]]
    return "".join(parts)


def _long_word(found: "Match[str]") -> str:
    word = found.group(0)
    return word if word.startswith(("_Z", "__Z")) else _RUN.sub(_run, word)


def _run(found: "Match[str]") -> str:
    run = found.group(0)
    digits = sum(each in "0123456789" for each in run)
    return MASK if digits + len(run) // 32 > 1 and is_random(run, 24) else run


def _key_line(found: "Match[str]") -> str:
    return MASK if is_random(found.group(0), _KEY_LINE_WIDTH) else found.group(0)


def is_random(value: str, least: int) -> bool:
    """Return True if a text of at least `least` characters mixes cases and digits as base64 does.

    In random base64 two of three neighbours differ in kind; in words, names and numbers at most one of four.
    Hexadecimal hashes do not match, since they have no capitals.
    """
    changes = len(_CLASSES.findall(value))
    kinds = (value.lower() != value) + (value.upper() != value) + any(each in value for each in "0123456789")
    return len(value) >= least and kinds == 3 and changes * 5 >= len(value) * 2
