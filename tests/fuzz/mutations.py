"""Changes of a valid input that readers of it may meet: damage in transit, other versions, hostility."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from random import Random
from typing import Any

from tests.hostile_text import EVIL

MAX_BYTES = 256 * 1024
NUMBERS = (0, -1, 2**31, 2**63, -(2**63), 2**64, 10**30, 10**400, 1e308, float("inf"), float("nan"), 0.1)
TEXTS = ("", EVIL, "x" * 5000, "\ud800", "0", "NaN", "-1", "../../etc/passwd", "{}", "0x" + "f" * 40)
VALUES: tuple[Any, ...] = (None, True, False, [], {}, [[]], *NUMBERS, *TEXTS)
PIECES = (
    EVIL.encode("utf-8", "surrogatepass"), b"\x00", b"\xff\xfe", b"\n" * 50, b"[" * 200, b"{" * 200, b'"',
    b"\\", b"9" * 400, b"9" * 5000, b"-", b"*" * 60, b" " * 300, b"1e999", b"%s%n", b"\r",
    b"\x1b]0;x\x07", b"!" * 20, b"|1|", b"&a;",
)  # fmt: skip
DEPTH = 100


def changed_bytes(data: bytes, chance: Random) -> bytes:
    """A few changes of the bytes: flipped, cut, doubled, exchanged, with hostile pieces between them."""
    found = bytearray(data)
    for _ in range(chance.randint(1, 6)):
        at = chance.randrange(len(found) + 1)
        to = min(len(found), at + chance.randint(1, 200))
        match chance.randrange(7):
            case 0 if at < len(found):
                found[at] ^= 1 << chance.randrange(8)
            case 1:
                del found[at:to]
            case 2:
                found[at:at] = found[at:to] * chance.randint(1, 20)
            case 3:
                found[at:at] = chance.choice(PIECES)
            case 4:
                found[at:to] = chance.choice(PIECES)
            case 5:
                found[at:at] = bytes(chance.randrange(256) for _ in range(chance.randint(1, 40)))
            case _ if chance.random() < 0.2:
                del found[at:]
    return bytes(found[: max(MAX_BYTES, len(data))])


def changed_tree(held: Any, chance: Random) -> Any:
    """A few changes of values inside of lists and mappings; other types as often as other values."""
    for _ in range(chance.randint(1, 4)):
        held = _changed_once(held, chance)
    return held


def _changed_once(held: Any, chance: Random) -> Any:
    if isinstance(held, dict) and held and chance.random() < 0.9:
        key = chance.choice([*held])
        match chance.randrange(6):
            case 0:
                return {name: value for name, value in held.items() if name != key}
            case 1:
                return {**held, chance.choice(TEXTS[:4]): held[key]}
            case _:
                return {**held, key: _changed_once(held[key], chance)}
    if isinstance(held, (list, tuple)) and held and chance.random() < 0.9:
        found, at = [*held], chance.randrange(len(held))
        match chance.randrange(6):
            case 0:
                del found[at]
            case 1:
                found += [held[at]] * chance.choice((1, 3, 200))
            case _:
                found[at] = _changed_once(found[at], chance)
        return type(held)(found)
    if chance.random() < 0.02:
        for _ in range(DEPTH):
            held = [held]
        return held
    return chance.choice(VALUES)


def as_json(data: bytes, chance: Random) -> bytes:
    """Changed values of a JSON document, or changed bytes of it."""
    if chance.random() < 0.4:
        return changed_bytes(data, chance)
    return json.dumps(changed_tree(json.loads(data), chance)).encode()[:MAX_BYTES]


def as_json_lines(data: bytes, chance: Random) -> bytes:
    """The same for one of the lines, each of which is a JSON document."""
    lines = data.splitlines()
    at = chance.randrange(len(lines))
    lines[at] = as_json(lines[at], chance)
    return b"\n".join(lines) + b"\n"


def as_pickle(data: bytes, chance: Random) -> bytes:
    """Changed values of a pickle, or changed bytes of it."""
    if chance.random() < 0.4:
        return changed_bytes(data, chance)
    return pickle.dumps(changed_tree(pickle.loads(data), chance), 2)[:MAX_BYTES]  # noqa: S301 - our own


Mutation = Callable[[bytes, Random], bytes]
