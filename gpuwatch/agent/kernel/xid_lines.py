"""Parses the NVIDIA driver's error lines in the kernel log."""

import re

from ..base.procfs import clean
from ..logs.lines.user_words import CALLER, without_user_words
from .xid_table import meaning

MAX_DETAIL = 300

_PLACE = r"\(((?:PCI:|[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:)[^)]*)\)?"
"""A PCI address: with it the form is longer than a process's name, which the kernel may quote first."""
_XID = re.compile(CALLER + r"NVRM:.*?\bXid " + _PLACE + r":\s*(\d{1,5})\b,?\s*(.*)", re.DOTALL)
_SXID = re.compile(
    CALLER + r"nvidia-nvswitch\d*:.*?\bSXid " + _PLACE + r":\s*(\d{1,6})\b,?\s*(.*)", re.DOTALL
)
_FELL_OFF = re.compile(CALLER + "NVRM:.*fallen off the bus", re.DOTALL)
_BUS = re.compile(r"\b([0-9a-fA-F]{4,8}):([0-9a-fA-F]{2}):([0-9a-fA-F]{2})(?:\.([0-7]))?(?![0-9a-fA-F:])")
_PID = re.compile(r"\bpid=(\d+)")

_SWITCH_REMEDY = (
    "Fatal: drain the node, then reset GPUs and switches together (fabric manager). "
    "Not fatal: compare with the Xids of the same second."
)


def event(text: str) -> "dict[str, object] | None":
    """Return the fields of `wire.Event` and `bus_id` from a kernel line about an Xid or SXid, else None.

    `bus_id` is formatted as by NVML (`00000000:41:00.0`). A GPU that fell off the bus without an Xid gives an
    event with code None. The driver's name begins the text: elsewhere a user may have chosen it.
    """
    if "Xid" not in text and "fallen off" not in text:
        return None
    text = without_user_words(text)
    for pattern, describe in ((_XID, _xid), (_SXID, _switch)):
        match = pattern.match(text)
        if match:
            place, code, body = match.groups()
            return _with_place(describe(int(code), body), place)
    if _FELL_OFF.match(text):
        _, severity, title, remedy = meaning(79)
        lost: dict[str, object] = {"event": "xid", "code": None}
        lost.update(title=title, severity=severity, remedy=remedy)
        lost["detail"] = clean(" ".join(text.replace("NVRM:", " ").split()), MAX_DETAIL)
        return _with_place(lost, text)
    return None


def bus_id(text: str) -> "str | None":
    """Return the first PCI address in `text` in NVML's format (`00000000:41:00.0`, upper case), or None."""
    match = _BUS.search(text)
    if match is None:
        return None
    domain, bus, device, function = match.groups()
    return "{}:{}:{}.{}".format(domain.zfill(8), bus, device, function or "0").upper()


def _xid(code: int, body: str) -> "dict[str, object]":
    _, severity, title, remedy = meaning(code, body)
    facts: dict[str, object] = {"event": "xid", "code": code}
    facts.update(title=title, severity=severity, remedy=remedy)
    pid = _PID.search(body)
    if pid:
        facts["pid"] = int(pid.group(1))
    detail = clean(body, MAX_DETAIL)
    if detail:
        facts["detail"] = detail
    return facts


def _switch(code: int, body: str) -> "dict[str, object]":
    return {
        "event": "sxid",
        "code": code,
        "title": "NVSwitch error {}".format(code),
        "severity": "critical" if re.match(r"fatal\b", body, re.IGNORECASE) else "warning",
        "remedy": _SWITCH_REMEDY,
        "detail": clean(body, MAX_DETAIL),
    }


def _with_place(facts: "dict[str, object]", text: str) -> "dict[str, object]":
    place = bus_id(text)
    if place is not None:
        facts["bus_id"] = place
    facts["source"] = "kernel"
    return facts
