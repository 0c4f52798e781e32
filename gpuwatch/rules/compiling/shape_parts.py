"""Parts of a pattern for shapes of lines: their text, where blanks may stand, and how repeats are joined."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from gpuwatch.rules.compiling.check import op

BORDER = r"\b"


class Repeat(NamedTuple):
    """A repeat of one character of the set `own`, from `least` to `most` times."""

    own: frozenset[int]
    least: int
    most: Any


class Part(str):
    """A part of the pattern that is made for shapes of lines."""

    __slots__ = ("begins", "ends", "least", "repeat", "separates")
    least: str
    """The part of the text that is required at an edge of the pattern; "": none."""
    begins: bool
    ends: bool
    """True if the first or last character of the part may be a blank."""
    separates: bool
    """True if the part keeps the blanks on its two sides apart in a line."""
    repeat: Repeat | None
    """The repeat of one character that this part is, else None."""

    def __new__(
        cls,
        text: str,
        least: str | None = None,
        *,
        begins: bool = False,
        ends: bool = False,
        separates: bool | None = None,
        repeat: Repeat | None = None,
    ) -> Part:
        """Return a part with these properties; `least` None: all of its text is required."""
        self = super().__new__(cls, text)
        self.least = text if least is None else least
        self.begins, self.ends = begins, ends
        self.separates = bool(self.least) if separates is None else separates
        self.repeat = repeat
        return self

    def followed(self, *, separates: bool) -> Part:
        """Return the part as it is once a digit follows, which leaves no character in a shape.

        `separates`: the digit keeps blanks before and after it apart.
        """
        return Part(
            self,
            self.least,
            begins=self.begins,
            ends=self.ends and not separates,
            separates=self.separates or separates,
            repeat=self.repeat,
        )


def may_begin_blank(parts: Iterable[Part]) -> bool:
    """Return True if the first character of a sequence may be a blank of the shape."""
    for part in parts:
        if part.begins:
            return True
        if part.separates:
            return False
    return False


def may_end_blank(parts: Sequence[Part], *, behind: bool = False) -> bool:
    """Return True if the last character of a sequence may be a blank.

    `behind`: the character before the sequence may be one; it counts if all parts may be empty.
    """
    for part in reversed(parts):
        if part.ends:
            return True
        if part.separates:
            return False
    return behind


def trimmed(parts: Sequence[Part]) -> list[str]:
    """Return the texts of the parts, without parts at either edge that a match may lack.

    Of the first and the last part that remain only what a match requires.
    """
    kept = list(parts)
    while kept and not kept[0].least:
        del kept[0]
    while kept and not kept[-1].least:
        del kept[-1]
    texts: list[str] = list(kept)
    if texts:
        texts[-1] = kept[-1].least
        texts[0] = kept[0].least
    return texts


def has_separator(parts: Iterable[Part]) -> bool:
    """Return True if a part of the sequence keeps blanks before it and after it from being adjacent."""
    return any(part.separates for part in parts)


def joined_repeat(first: Part, second: Part) -> Part | None:
    """Return one part in place of two adjacent ones; None: both stay.

    A second part without text is dropped; of two repeats, an optional one is merged into one of the same
    characters or more. Digits that are left out make repeats adjacent, which could match a text in many ways.
    """
    if not second and first != BORDER:
        return first.followed(separates=second.separates)
    one, other = first.repeat, second.repeat
    if one is None or other is None:
        return None
    larger, smaller = (one, other) if one.own >= other.own else (other, one)
    if smaller.least or not larger.own >= smaller.own:
        return None
    most = op.MAXREPEAT if op.MAXREPEAT in (one.most, other.most) else one.most + other.most
    return of_repeat(
        Repeat(larger.own, larger.least, most),
        begins=first.begins or (second.begins and not first.separates),
        ends=second.ends or (first.ends and not second.separates),
        separates=first.separates or second.separates,
    )


def of_repeat(repeat: Repeat, *, begins: bool, ends: bool, separates: bool) -> Part:
    """Return the part of a pattern for shapes that matches a repeat of one character."""
    one, least = _class(repeat.own), repeat.least
    text = f"{one}{counted(least, repeat.most)}"
    required = f"{one}{counted(least, least)}" if least else ""
    return Part(text, required, begins=begins, ends=ends, separates=separates, repeat=repeat)


def counted(least: int, most: Any) -> str:
    """Return the quantifier of a pattern for a number of repetitions, such as `{2,5}`."""
    if most is op.MAXREPEAT:
        return "*" if least == 0 else "+" if least == 1 else f"{{{least},}}"
    if least == most:
        return "" if least == 1 else f"{{{least}}}"
    return "?" if (least, most) == (0, 1) else f"{{{least},{most}}}"


def _class(own: frozenset[int]) -> str:
    if len(own) == 1:
        return escaped(next(iter(own)))
    ranges: list[list[int]] = []
    for each in sorted(own):
        if ranges and ranges[-1][1] == each - 1:
            ranges[-1][1] = each
        else:
            ranges.append([each, each])
    return "[" + "".join(_range(low, high) for low, high in ranges) + "]"


def _range(low: int, high: int) -> str:
    return escaped(low) if low == high else f"{escaped(low)}-{escaped(high)}"


def escaped(byte: int) -> str:
    """Return a byte as a literal in a regular expression."""
    return chr(byte) if chr(byte).isalpha() and byte < 128 else f"\\x{byte:02x}"
