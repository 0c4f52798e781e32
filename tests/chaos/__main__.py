"""Print the table of docs/faults.md: `python -m tests.chaos [FAULT ...]`.

They take some minutes, and need root for the namespaces. The exit status is 1 if an invariant is broken.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence

from gpuwatch.link.start.log_settings import VARIABLE as DISCOVER
from gpuwatch.session.history.incident_memory import VARIABLE as HISTORY
from tests.bench.parts import quiet_machine
from tests.chaos.apart import played
from tests.chaos.faults.table import FAULTS, OF_MANY
from tests.chaos.invariants import Outcome
from tests.chaos.scene.polling import NUMBER

HEADING = """| fault | what `once` and the problems show, after | live again after |
|---|---|---|"""
SIGN = re.compile(r"\S+(?: GPU \d+)? (?P<code>[a-z]\w+): (?P<text>.*)")
"""Place, code and text of a condition."""


def row(outcome: Outcome) -> str:
    """One row of the table, in Markdown."""
    shown: dict[str, str] = {}
    for after, sign in outcome.signs:
        found = SIGN.fullmatch(sign)
        words = sign if found is None else f"`{found['code']}`: {found['text']}"
        shown.setdefault(NUMBER.sub("", words), f"{after:.1f} s: {words.replace('|', '/')}")
    back = "" if outcome.back_s is None else f"{outcome.back_s:.1f} s"
    return f"| {outcome.what} | {'<br>'.join(shown.values()) or 'nothing: it goes on'} | {back} |"


def main(argv: Sequence[str]) -> int:
    """Play the named faults, all by default, and print a row for each."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description="What each fault shows.")
    parser.add_argument(
        "faults", nargs="*", metavar="FAULT", help=f"some of: {', '.join([*FAULTS, *OF_MANY])}"
    )
    names = parser.parse_args(argv).faults or [*FAULTS, *OF_MANY]
    if unknown := {*names} - {*FAULTS, *OF_MANY}:
        parser.error(f"no fault {min(unknown)!r}; there are {', '.join([*FAULTS, *OF_MANY])}")
    sides = [name for name in names if name in FAULTS], [name for name in names if name in OF_MANY]
    with quiet_machine() as env:
        quiet = {**env, DISCOVER: "off", HISTORY: "off"}
        outcomes = [outcome for side in sides if side for outcome in played(side, quiet)]
    print(HEADING)
    for outcome in outcomes:
        print(row(outcome))
    broken = [f"{outcome.fault}: {text}" for outcome in outcomes for text in outcome.broken()]
    print(*broken, sep="\n", file=sys.stderr)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
