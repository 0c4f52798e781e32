"""Print the benchmark table: `make bench`, or `python -m tests.bench [PART ...]` for some of its parts.

    python -m tests.bench --json FILE       keep the figures, with the commit
    python -m tests.bench --against FILE    print each figure over that of an earlier run

A part that fails costs its own rows only; the exit status is then 1.
"""

from __future__ import annotations

import argparse
import platform
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from gpuwatch import __version__
from tests.bench.figures import Earlier, commit, save
from tests.bench.parts import LIMIT_S, PARTS, Outcome, measured, quiet_machine

MARKS = {True: "yes", False: "NO", None: ""}


def arguments(argv: Sequence[str], known: Mapping[str, str]) -> argparse.Namespace:
    """The command line; a wrong one ends the program with status 2."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description="What gpuwatch costs.")
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"some of: {', '.join(known)}")
    parser.add_argument("--json", type=Path, metavar="FILE", help="keep the figures, with the commit")
    parser.add_argument("--against", type=Path, metavar="FILE", help="print the ratios to kept figures")
    options = parser.parse_args(argv)
    unknown = [part for part in options.parts if part not in known]
    if unknown:
        parser.error(f"no part {unknown[0]!r}; there are {', '.join(known)}")
    try:
        options.earlier = Earlier(options.against) if options.against else None
    except (OSError, ValueError) as error:
        parser.error(f"--against: {error}")
    return options


def table_of(outcome: Outcome, earlier: Earlier | None) -> Table:
    """The rows of one part."""
    table = Table(title=outcome.part, title_justify="left", expand=True)
    for heading, share in (("what", 5), ("measured", 5), ("goal", 3)):
        table.add_column(heading, ratio=share)
    table.add_column("holds", width=5)
    if earlier:
        table.add_column("ratio", width=7)
    for row in outcome.rows:
        ratio = [earlier.ratio(outcome.part, row)] if earlier else []
        table.add_row(row.what, row.measured, row.goal, MARKS[row.holds], *ratio)
    return table


def main(argv: Sequence[str], known: Mapping[str, str] = PARTS, limit_s: float = LIMIT_S) -> int:
    """Measure part by part and print each as it ends; 1 when one failed."""
    options = arguments(argv, known)
    console = Console(width=None if sys.stdout.isatty() else 140)
    heading = (
        f"gpuwatch {__version__} at {commit()}, Python {platform.python_version()}, {platform.machine()}"
    )
    console.print(heading + (f"; ratios to {options.earlier.commit}" if options.earlier else ""))
    outcomes: list[Outcome] = []
    with quiet_machine() as env:
        for part in options.parts or known:
            console.print(f"measuring {part} ...", style="dim")
            outcome = measured(part, known[part], env, limit_s)
            outcomes.append(outcome)
            if outcome.failed is None:
                console.print(table_of(outcome, options.earlier))
            else:
                console.print(f"{part} failed: {outcome.failed}", markup=False)
            if options.json:
                save(options.json, outcomes)
    failed = [outcome.part for outcome in outcomes if outcome.failed]
    if failed:
        console.print(f"failed: {', '.join(failed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
