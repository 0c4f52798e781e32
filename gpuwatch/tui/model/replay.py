"""A recording as the screens play it, and the switch for making one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class Replaying(Protocol):
    """The replay of a recording. Times are recorded times, in unix seconds."""

    @property
    def position(self) -> float:
        """The time that is shown."""
        ...

    @property
    def extent(self) -> tuple[float, float]:
        """The first and the last time of the recording, as far as it is written."""
        ...

    @property
    def speed(self) -> float:
        """Recorded seconds per second."""
        ...

    @property
    def playing(self) -> bool:
        """True while it plays."""
        ...

    @property
    def at_end(self) -> bool:
        """True if everything recorded so far was played."""
        ...

    @property
    def damaged(self) -> int:
        """Number of parts of the file that could not be read."""
        ...

    def incident_moments(self) -> Sequence[tuple[float, str]]:
        """(time when an incident was first seen, its severity), the oldest first."""
        ...

    def density(self, columns: int) -> Sequence[int]:
        """Number of findings and events in each of `columns` equal parts of the recording."""
        ...

    def pause(self) -> None:
        """Pause."""
        ...

    def play(self) -> None:
        """Continue; from the beginning if the end was reached."""
        ...

    def change_speed(self, steps: int) -> float:
        """Change the speed by this many steps; returns the new speed."""
        ...

    def step(self, seconds: float) -> None:
        """Move by this much recorded time; negative: back."""
        ...

    def go_to(self, at: float) -> None:
        """Show this time."""
        ...


class RecordingSwitch(Protocol):
    """Starts and stops a recording of the running session."""

    @property
    def status(self) -> str:
        """A few words while it records, problems included; "": nothing is recorded."""
        ...

    @property
    def trouble(self) -> str:
        """Why nothing can be written now; "": no problem."""
        ...

    def toggle(self) -> str:
        """Start or stop it; returns a sentence with the file."""
        ...
