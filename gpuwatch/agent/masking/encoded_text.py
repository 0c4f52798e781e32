"""Decodes text so that secrets whose name or value is encoded are recognised.

Decoded are: escapes of C, Python, JSON and URLs, entities of HTML, quoted-printable, hexadecimal and base64
words, overstruck characters, split shell words, and look-alike letters.
"""

import binascii
import re
import unicodedata

from ..base.procfs import UNSEEN
from ..patterns.quick_checks import is_ascii

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Match

MAX_ROUNDS = 3
"""Maximum depth of nested encodings, such as JSON in a JSON record in a URL."""
MAX_GROWTH = 2
"""Maximum growth factor of a text by the decomposition of its characters."""
_BYTE = (
    r"(?:(?:%(?:25){0,3}|\\{1,8}x)([0-9A-Fa-f]{2})|\\{1,8}([0-3][0-7]{2})|(?<!&)#(0[0-3][0-7])"
    r"|=([2-7][0-9A-F]){})"
)
_BYTES = re.compile(_BYTE.replace("{})", "(?=[A-Za-z=]))") + "{1,4096}")
_EACH_BYTE = re.compile(_BYTE.replace("{})", ")"))
_CHARACTER = re.compile(
    r"(?:\\{1,8}u\{([0-9A-Fa-f]{1,6})\}|(?:\\{1,8}|%)u([0-9A-Fa-f]{4})|\\{1,8}U([0-9A-Fa-f]{8})"
    r"|&#[xX]([0-9A-Fa-f]{1,8});?|<?U\+([0-9A-F]{4,6})>?|&#([0-9]{1,8});?)"
)
_ENTITIES = {
    "amp": "&", "quot": '"', "apos": "'", "equals": "=", "colon": ":", "lowbar": "_", "hyphen": "-",
    "dash": "-", "period": ".", "sol": "/", "commat": "@", "lt": "<", "gt": ">", "nbsp": " ",
}  # fmt: skip
_ENTITY = re.compile("&(" + "|".join(_ENTITIES) + ");")
_CONTROLS = re.compile(r"\\{1,8}b(?=.)|\^H|\u2408|(\\{1,8}e(?=\[)|\^\[(?=\[)|\u241b)")
_COLOURS = re.compile("\x1b(?:\\[[0-?]{0,64}[ -/]{0,8}[@-~])?")
_HEX_WORD = re.compile(r"(?<![0-9A-Za-z])(?:[2-7][0-9A-Fa-f]|0[09AaDd]){8,4096}(?![0-9A-Za-z])")
"""Hexadecimal digits of printable characters alone, as the kernel's audit writes command lines."""
_BASE64_WORD = re.compile(r"(?<![A-Za-z0-9+/_-])[A-Za-z0-9+/_-]{16,8192}(?![A-Za-z0-9+/_-])")
_PRINTABLE = re.compile(rb"[\t\n\r -~]+$")
_SPLIT_WORD = re.compile(r"(?<=\w)(?:''|\"\"|\\(?=[A-Za-z_-]))(?=[\w-])")
"""Quotes within a word, as in `--pass''word`, which a shell reads as one word."""
_MARKS = re.compile("[\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]+")
_LOOKALIKES = {ord(each): letter for each, letter in zip(  # noqa: B905 - strict needs Python 3.10
    "\u03b1\u03b5\u03b9\u03ba\u03bd\u03bf\u03c1\u03c4\u03c5\u03c7\u0391\u0395\u0399\u039a\u039f\u03a1\u03a4"
    "\u0131\u0251\u0261\u1d00\u1d04\u1d05\u1d07\u026a\u1d0a\u1d0b\u0274\u1d0f\u1d18\u0280\ua731\u1d1b\u1d1c\u1d20"
    "\u1d21\u028f\u1d22",
    "aeikvoptux" "AEIKOPT" "iagacdeijknoprstuvwyz",
)}  # fmt: skip
"""Greek letters and small capitals that look like those of ASCII."""
_NARROW_FORMS = {0xFEE0 + each: each for each in range(0x21, 0x7F)}
"""Full-width form -> the character of ASCII."""
_CYRILLIC = str.maketrans(
    "\u0430\u0435\u043e\u0440\u0441\u0443\u0445\u0455\u0456\u0410\u0415\u041e\u0420\u0421\u0422\u041a",
    "aeopcyxsiAEOPCTK",
)
_MIXED_WORD = re.compile(
    "(?:[A-Za-z]{1,60}[\u0400-\u0460]|[\u0400-\u0460]{1,60}[A-Za-z])[A-Za-z\u0400-\u0460]{0,60}"
)
"""A word of Latin and Cyrillic letters, which looks like one of Latin letters alone."""
_MAY_BE = re.compile(
    r"[\\%&^\u2408\u241b\x08]|#0[0-3][0-7]|=[2-7][0-9A-F][A-Za-z=]|<?U\+|''|\"\"|[A-Za-z0-9+/]{16}"
)
_ESCAPED = (
    r"[\\\u2408\u241b\x08\x1b]|%(?:[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4})|&[#a-z]|\^[H\[]|#0[0-3][0-7]"
    r"|=[2-7][0-9A-F][A-Za-z=]|U\+"
)
_ESCAPES = re.compile(_ESCAPED)
"""What each text has that one of the patterns for escapes, entities or colours changes."""
_ENCODED = re.compile(_ESCAPED + r"|''|\"\"|[A-Za-z0-9+/_-]{16}")
"""What each text has that any of the patterns changes."""


def decoded(text: str) -> str:
    """Return the text with escapes, entities, hex and base64 words decoded, also nested ones.

    Only the decomposition of characters makes it longer.
    """
    for _ in range(MAX_ROUNDS):
        before, text = text, _once(text)
        if text == before:
            break
    return text


def _once(text: str) -> str:
    if not is_ascii(text):
        text = _in_ascii(text)
    if _MAY_BE.search(text) is None or _ENCODED.search(text) is None:
        return text
    if _ESCAPES.search(text) is not None:
        text = _CHARACTER.sub(_character, _BYTES.sub(_of_bytes, text))
        text = _ENTITY.sub(lambda found: _ENTITIES[found.group(1)], text)
        text = _CONTROLS.sub(lambda found: "\x1b" if found.group(1) else "\b", text)
        text = _COLOURS.sub("", text)
    if "\b" in text:
        text = _struck(text)
    text = _BASE64_WORD.sub(_of_base64, _HEX_WORD.sub(_of_hex, text))
    return _SPLIT_WORD.sub("", text) if "''" in text or '""' in text or "\\" in text else text


def _of_bytes(found: "Match[str]") -> str:
    """Return the characters that escaped bytes stand for.

    Tabs and line ends are blanks; other controls than backspace and escape are left out.
    """
    codes = bytearray()
    for each in _EACH_BYTE.finditer(found.group()):
        hexadecimal = each.group(1) or each.group(4)
        codes.append(int(hexadecimal, 16) if hexadecimal else int(each.group(2) or each.group(3), 8) & 0xFF)
    return "".join(_shown(each) for each in codes.decode("utf-8", "replace"))


def _character(found: "Match[str]") -> str:
    decimal = found.group(6)
    code = int(decimal) if decimal else int(next(each for each in found.groups() if each), 16)
    return _shown(chr(code)) if code <= 0x10FFFF else found.group()


def _shown(character: str) -> str:
    if character in "\b\x1b" or character >= " ":
        return character
    return " " if character in "\t\n\r" else ""


def _of_hex(found: "Match[str]") -> str:
    return bytes.fromhex(found.group()).decode("ascii").replace("\0", " ").replace("\n", " ")


def _of_base64(found: "Match[str]") -> str:
    word = found.group().replace("-", "+").replace("_", "/")
    try:
        data = binascii.a2b_base64(word + "=" * (-len(word) % 4))
    except ValueError:
        return found.group()
    return data.decode("ascii").replace("\n", " ") if _PRINTABLE.match(data) else found.group()


def _struck(text: str) -> str:
    """Return text as a printer shows it: a backspace deletes the character before it, unless `_` follows."""
    shown: list[str] = []
    taken = ""
    for character in text:
        if character == "\b":
            taken = shown.pop() if shown else ""
            continue
        shown.append(taken if taken and character == "_" else character)
        taken = ""
    return "".join(shown)


def _in_ascii(text: str) -> str:
    """Return text with ASCII letters in place of look-alikes, without combining marks."""
    whole = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    simple = _MARKS.sub("", unicodedata.normalize("NFKD", UNSEEN.sub("", whole))).translate(_LOOKALIKES)
    return simple if len(simple) <= MAX_GROWTH * len(text) else text


def in_latin(text: str) -> str:
    """Return text without unseen characters, in narrow forms, with words of mixed letters in Latin ones."""
    return _MIXED_WORD.sub(_latin_word, UNSEEN.sub("", text).translate(_NARROW_FORMS))


def _latin_word(found: "Match[str]") -> str:
    return found.group().translate(_CYRILLIC)
