"""The preflight checklist as text and as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TextIO

import msgspec
from msgspec.structs import asdict
from rich.table import Table
from rich.text import Text

from gpuwatch.blocks.model import Style
from gpuwatch.decode_errors import DECODE_ERRORS
from gpuwatch.diagnose.preflight.check import Check, Status
from gpuwatch.diagnose.preflight.reference_node import Profile
from gpuwatch.hosts.names import fold
from gpuwatch.plain import plain, plain_json
from gpuwatch.report.output.console import STYLES, console_on

STATUS_STYLES: dict[Status, Style] = {"PASS": "ok", "WARN": "warning", "FAIL": "critical", "SKIP": "muted"}

SUMMED: tuple[Status, ...] = ("FAIL", "WARN", "PASS", "SKIP")
"""The order of the statuses in the last line of the checklist."""


class SavedProfile(msgspec.Struct):
    """The file that `check --save-profile` writes."""

    profile: dict[str, str]


def to_json(checks: Sequence[Check]) -> str:
    """Return JSON with `checks[]` and the counts by status; every key is documented in docs/json.md."""
    return plain_json(msgspec.json.encode(_as_data(checks)).decode())


def profiles_json(checks: Sequence[Check], reference: Profile, profiles: Mapping[str, Profile]) -> str:
    """Return the JSON of a comparison with a reference node: adds `reference` and `profiles` by node."""
    data = {**_as_data(checks), "reference": reference, "profiles": profiles}
    return plain_json(msgspec.json.encode(data).decode())


def profile_of(data: bytes) -> dict[str, str]:
    """Return the profile in a file of `check --save-profile`.

    Raises:
        ValueError: the file is not a profile.
    """
    try:
        return msgspec.json.decode(data, type=SavedProfile).profile
    except DECODE_ERRORS as error:
        raise ValueError(f"no profile of a node ({error})") from error


def _as_data(checks: Sequence[Check]) -> dict[str, object]:
    counts = Counter(check.status for check in checks)
    summary = {status: counts[status] for status in STATUS_STYLES}
    return {"checks": [asdict(check) for check in checks], "counts": summary}


def print_checklist(checks: Sequence[Check], out: TextIO) -> None:
    """Write one line per check; below those that failed or warn, their nodes and remedy."""
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0), expand=False)
    for _ in range(3):
        table.add_column(overflow="fold")
    for check in checks:
        table.add_row(
            Text(check.status, style=STYLES[STATUS_STYLES[check.status]]),
            Text(check.id),
            Text(plain(check.detail), style="dim" if check.status == "SKIP" else ""),
        )
        if check.status in ("WARN", "FAIL"):
            where = f"on {fold(check.nodes)}" if check.nodes else ""
            for word in (where, check.remedy and f"-> {check.remedy}"):
                if word:
                    table.add_row("", "", Text(plain(word), style="dim"))
    with console_on(out) as console:
        console.print(table)
        console.print(Text(summary(checks)))


def summary(checks: Sequence[Check]) -> str:
    """Return the counts by status, worst first, with the ids of failed and warning checks.

    So `39 checks: 1 FAIL (env.equal), 38 PASS`.
    """
    ids = {status: [check.id for check in checks if check.status == status] for status in SUMMED}
    reported = [
        f"{len(ids[status])} {status}"
        + (f" ({', '.join(ids[status])})" if status in ("FAIL", "WARN") else "")
        for status in SUMMED
        if ids[status]
    ]
    return f"{len(checks)} checks: {', '.join(reported)}"
