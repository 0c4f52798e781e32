"""What is wrong with a hosts file, told all at once and in the order of the file."""

from __future__ import annotations

from collections.abc import Sequence


class HostsError(Exception):
    """A source of nodes that cannot be used. `problems` are whole lines, `hosts.yaml:14:5: text` where a place is known."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = tuple(problems)
