"""Parses step and path from a line about a checkpoint. Pure; also used by the cockpit."""

import re

from ...patterns.module_pattern import pattern_of

SAVED, BEGUN = "place.checkpoint_saved", "place.checkpoint_begun"
"""Ids of the rules for lines that report a written or begun checkpoint; they are in no pack."""
MAX_STEP = 10**12
_NUMBER = r"(\d{1,3}(?:,\d{3}){1,3}|\d{1,12})"
_STEP = (
    pattern_of(r"(?i)\b(?:iteration|iter|global[_ ]?step|step)s?[ :=#_]{1,10}" + _NUMBER + r"\b"),
    pattern_of(r"(?i)(?:global_step|checkpoint|ckpt|step|iter)[-_=]?0{0,9}(\d{1,12})(?!\d)"),
    pattern_of(r"(?i)\b(?:checkpoint|ckpt|snapshot) " + _NUMBER + r"\b"),
    pattern_of(r"/(\d{1,12})(?=[/`'\"\s.,)]|$)"),
    pattern_of(r"(?i)\bepoch[ =_:-]{0,3}(\d{1,9})\b"),
)
_PATH = pattern_of(r"(?:[a-z][a-z0-9]{1,9}:/)?[\w.+@=~-]{0,100}(?:/[\w.+@=:-]{1,200}){1,24}")
_FILE = pattern_of(r"[\w.+@=-]{1,200}\.(?:pt|pth|ckpt|safetensors|bin|npz|tar|distcp)\b")
_OF_STEP = pattern_of(
    r"(?i)(?:global_step|checkpoint|ckpt|step|iter|epoch)?[-_=]?\d{1,12}(?:\.[A-Za-z-]{1,40})?"
)


def checkpoint_of(line: str) -> "tuple[int | None, str | None]":
    """Return (step, path) of a checkpoint from a log line, each None if the line does not name it.

    The path is that of the step's folder or of the file.
    """
    text = line[:2000]
    path = _path(text)
    for pattern in _STEP:
        found = pattern.search(text)
        if found is not None:
            step = int(found.group(1).replace(",", ""))
            return (step if step < MAX_STEP else None), path
    return None, path


def _path(text: str) -> "str | None":
    found = [one.group() for one in _PATH.finditer(text) if _is_path(one.group())]
    if not found:
        name = _FILE.search(text)
        return None if name is None else name.group()
    parts = found[-1].rstrip("/.,:").split("/")
    for at in range(len(parts) - 1, 0, -1):
        if _OF_STEP.fullmatch(parts[at]):
            return "/".join(parts[: at + 1])
    return "/".join(parts)


def _is_path(text: str) -> bool:
    """Return True if a match of `_PATH` has two adjacent letters, as a path or an `s3://` URL has.

    A date in digits or a fraction such as 3/16 has not.
    """
    return not text.startswith("//") and re.search(r"[A-Za-z]{2}", text) is not None
