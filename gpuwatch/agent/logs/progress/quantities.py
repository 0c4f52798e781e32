"""Defines the quantities of progress lines: meaning of a number, conversion to a field in gpuwatch's units.

A quantity is what a dialect assigns to a word or a named group: `step_time_ms` is the field `step_time_s`, in
milliseconds unless the line has a unit. Fields: step, total_steps, epoch, loss, lr, grad_norm, loss_scale,
skipped, step_time_s, samples_per_s, tokens_per_s, tflops, mfu and mfu_overall (0 to 1), mem_gib, eta_s,
rank; of inference servers requests_running, requests_waiting, cache_share (0 to 1), and of a line about one
request requests (1), requests_failed (1), request_s. Non-finite values are the texts "nan", "inf" or "-inf",
since JSON has none.
"""

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict, Tuple, Union

    Value = Union[int, float, str]
    Fields = Dict[str, Value]
    Quantity = Tuple[str, str, float]

NUMBER = r"(?:\d{1,3}(?:,\d{3})+(?!\d)(?:\.\d+)?|\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?"
CLOCK = r"(?:\d{1,4} days?, )?\d{1,4}:\d\d(?::\d\d)?(?:\.\d+)?"
SPELLED = (
    r"(?:(?:\d+ ?d(?:ays?)?,? ?)?(?:\d+ ?h(?:ours?|rs?)?,? ?)?(?:\d+ ?m(?:in(?:utes?)?)?,? ?)?"
    r"\d+(?:\.\d+)? ?s(?:ec(?:onds?)?)?\b"
    r"|(?:\d+ ?d(?:ays?)?,? ?)?\d+ ?h(?:ours?|rs?)?,? ?\d+ ?m(?:in(?:utes?)?)?\b"
    r"|\d+ ?d(?:ays?)?,? ?\d+ ?h(?:ours?|rs?)?\b)"
)
ODD = r"nan|[-+]?inf(?:inity)?"

_S, _MS, _US, _MINUTE, _H, _DAY = 1.0, 1e-3, 1e-6, 60.0, 3600.0, 86400.0
SECONDS = {
    "s": _S, "sec": _S, "secs": _S, "second": _S, "seconds": _S, "ms": _MS, "msec": _MS, "us": _US,
    "m": _MINUTE, "min": _MINUTE, "mins": _MINUTE, "minute": _MINUTE, "minutes": _MINUTE,
    "h": _H, "hr": _H, "hrs": _H, "hour": _H, "hours": _H, "d": _DAY, "day": _DAY, "days": _DAY,
}  # fmt: skip
GIB = {
    "b": 1.0 / (1 << 30), "bytes": 1.0 / (1 << 30), "kb": 1.0 / (1 << 20), "kib": 1.0 / (1 << 20),
    "m": 1.0 / 1024, "mb": 1.0 / 1024, "mib": 1.0 / 1024, "g": 1.0, "gb": 1.0, "gib": 1.0,
    "t": 1024.0, "tb": 1024.0, "tib": 1024.0,
}  # fmt: skip
"""Frameworks that print MB and GB divide by powers of 1024."""
THOUSANDS = {"k": 1e3, "m": 1e6, "b": 1e9, "g": 1e9, "t": 1e12}

MAX_QUANTITY = 1e18
"""The largest number that counts as a valid quantity."""
_UNIT_REQUIRED = 0.0
"""Marks quantities that require a unit in the line."""
QUANTITIES: "Dict[str, Quantity]" = {
    "step": ("step", "of", 1.0),
    "total_steps": ("total_steps", "count", 1.0),
    "epoch": ("epoch", "plain", 1.0),
    "loss": ("loss", "any", 1.0),
    "lr": ("lr", "plain", 1.0),
    "grad_norm": ("grad_norm", "any", 1.0),
    "loss_scale": ("loss_scale", "plain", 1.0),
    "skipped": ("skipped", "count", 1.0),
    "step_time": ("step_time_s", "time", _UNIT_REQUIRED),
    "step_time_s": ("step_time_s", "time", _S),
    "step_time_ms": ("step_time_s", "time", _MS),
    "step_time_us": ("step_time_s", "time", _US),
    "steps_per_s": ("step_time_s", "inverse", 1.0),
    "steps_per_min": ("step_time_s", "inverse", 60.0),
    "samples_per_s": ("samples_per_s", "plain", 1.0),
    "tokens_per_s": ("tokens_per_s", "plain", 1.0),
    "kilotokens_per_s": ("tokens_per_s", "plain", 1e3),
    "tflops": ("tflops", "plain", 1.0),
    "gflops": ("tflops", "plain", 1e-3),
    "flops": ("tflops", "plain", 1e-12),
    "mfu": ("mfu", "share", _UNIT_REQUIRED),
    "mfu_pct": ("mfu", "share", 0.01),
    "mfu_overall": ("mfu_overall", "share", _UNIT_REQUIRED),
    "mem": ("mem_gib", "size", _UNIT_REQUIRED),
    "mem_bytes": ("mem_gib", "size", GIB["b"]),
    "mem_mib": ("mem_gib", "size", GIB["m"]),
    "mem_gib": ("mem_gib", "size", GIB["g"]),
    "eta": ("eta_s", "time", _UNIT_REQUIRED),
    "eta_s": ("eta_s", "time", _S),
    "eta_min": ("eta_s", "time", _MINUTE),
    "eta_h": ("eta_s", "time", _H),
    "eta_days": ("eta_s", "time", _DAY),
    "rank": ("rank", "count", 1.0),
    "requests_running": ("requests_running", "count", 1.0),
    "requests_waiting": ("requests_waiting", "count", 1.0),
    "cache_share": ("cache_share", "share", 1.0),
    "requests": ("requests", "one", 1.0),
    "requests_failed": ("requests_failed", "one", 1.0),
    "request_time": ("request_s", "time", _UNIT_REQUIRED),
}
"""Name -> field, parser, and factor for a number without unit."""
NOTHING = "-"
"""Marks a word without meaning in this dialect, whatever it means elsewhere."""

_QUANTITY = re.compile(
    r"\A\s*[\"']?"
    r"(?:(?P<clock>" + CLOCK + r")(?![\d:])|(?P<odd>" + ODD + r")|(?P<number>[-+]?" + NUMBER + r"))"
    r"(?:\s*(?:/|(?:out )?of)\s*(?P<of>" + NUMBER + r"))?(?:\s?(?P<unit>[A-Za-z%]+))?",
    re.I,
)
_SPELLED = re.compile(r"\A\s*[\"']?(?P<spelled>" + SPELLED + r")", re.I)
_ABBREVIATED = re.compile(r"\A\s*[\"']?[-+]?[\d.]+[KMB](?!\w)")
_PART = re.compile(r"(?<!\d)(\d+(?:\.\d+)?) ?([a-z])")
_DAYS = re.compile(r"(\d+) days?, ")


def put(fields: "Fields", quantity: str, text: str) -> bool:
    """Parse `text` as a quantity and store it in `fields`, unless set; return True if it is valid."""
    name, kind, factor = QUANTITIES[quantity]
    if kind == "one":
        value: Value | None = 1
    elif kind == "time":
        value = _duration(text, factor)
        if value is not None and (value < 0 or value == 0 and name == "step_time_s"):
            value = None
    else:
        value = _value(fields, text, kind, factor)
    if value is None or not (isinstance(value, str) or abs(value) < MAX_QUANTITY):
        return False
    fields.setdefault(name, value)
    return True


def _value(fields: "Fields", text: str, kind: str, factor: float) -> "Value | None":
    found = _QUANTITY.match(text)
    if found is None or found.group("clock"):
        return None
    odd, unit = found.group("odd"), (found.group("unit") or "").lower()
    if odd:
        return _odd(odd) if kind == "any" else None
    number = float(found.group("number").replace(",", ""))
    if not abs(number) < MAX_QUANTITY:
        return None
    if kind in ("count", "of"):
        return _count(fields, number * THOUSANDS.get(unit, 1.0), found.group("of") if kind == "of" else None)
    if kind == "inverse":
        return factor / number if number > 0 else None
    if kind == "share":
        return _share(number, unit, factor)
    if kind == "size":
        factor = GIB.get(unit, factor)
        return number * factor if factor and number >= 0 else None
    if kind == "plain" or _ABBREVIATED.match(text):  # `loss 2.5 m` states something else
        factor *= THOUSANDS.get(unit, 1.0)
    return number * factor


def _count(fields: "Fields", number: float, of: "str | None") -> "int | None":
    """Return a count as a whole number; None: it is negative or a fraction.

    `of`: its total, which is stored in `fields` if no step is known yet.
    """
    if number < 0 or number != int(number):
        return None
    total = None if of is None else float(of.replace(",", ""))
    if total is not None and total < MAX_QUANTITY and "step" not in fields:
        fields.setdefault("total_steps", int(total))
    return int(number)


def _odd(text: str) -> str:
    text = text.lower()
    return "nan" if text == "nan" else "-inf" if text.startswith("-") else "inf"


def _share(number: float, unit: str, factor: float) -> "float | None":
    """Return a share as a fraction; None if that is negative (-1 means unknown) or over 1.5.

    A number over 1.5, or stated in percent, is divided by 100.
    """
    if unit == "%" or factor == QUANTITIES["mfu_pct"][2] or number > 1.5:
        number /= 100.0
    return number if 0 <= number <= 1.5 else None


def _duration(text: str, factor: float) -> "float | None":
    """Return a duration in seconds; None if invalid. `factor`: for a plain number.

    Accepted: `1:02:03`, `2 days, 1:02:03`, `4m 28s`, `360 ms`, a plain number.
    """
    spelled = _SPELLED.match(text)
    if spelled is not None and len(_PART.findall(spelled.group("spelled").lower())) > 1:
        parts = _PART.findall(spelled.group("spelled").lower())
        return sum(float(number) * SECONDS[letter] for number, letter in parts)
    found = _QUANTITY.match(text)
    if found is None or found.group("odd"):
        return None
    clock = found.group("clock")
    if clock:
        return _of_clock(clock)
    unit = (found.group("unit") or "").lower()
    factor = SECONDS.get(unit, factor * THOUSANDS.get(unit, 1.0))
    return float(found.group("number").replace(",", "")) * factor if factor else None


def _of_clock(text: str) -> float:
    days = _DAYS.match(text)
    seconds = 0.0
    for part in text[days.end() if days else 0 :].split(":"):
        seconds = 60.0 * seconds + float(part)
    return seconds + (int(days.group(1)) * _DAY if days else 0.0)
