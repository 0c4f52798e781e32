"""The interfaces of a recording that is played, and of the switch that starts and stops one."""

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
    def playing(self) -> bool: ...

    @property
    def at_end(self) -> bool:
        """True if everything recorded so far was played."""
        ...

    @property
    def damaged(self) -> int:
        """Number of parts of the file that could not be read."""
        ...

    def incident_moments(self) -> Sequence[tuple[float, str]]:
        """Return (time first seen, severity) of each incident, the oldest first."""
        ...

    def density(self, columns: int) -> Sequence[int]:
        """Return the number of findings and events in each of `columns` equal parts of the recording."""
        ...

    def pause(self) -> None: ...

    def play(self) -> None:
        """Continue playing; from the beginning if the end was reached."""
        ...

    def change_speed(self, steps: int) -> float:
        """Go this many steps up (negative: down) the list of speeds; return the new speed."""
        ...

    def step(self, seconds: float) -> None:
        """Move by this many recorded seconds; negative: back."""
        ...

    def go_to(self, at: float) -> None:
        """Show this time (unix seconds)."""
        ...


class RecordingSwitch(Protocol):
    """Starts and stops a recording of the running session."""

    @property
    def status(self) -> str:
        """A few words while it records, problems included; "" while it does not."""
        ...

    @property
    def trouble(self) -> str:
        """Why nothing can be written now; "" if it can."""
        ...

    def toggle(self) -> str:
        """Start or stop the recording; return a sentence that names the file."""
        ...
