"""A recording as the screens play it, and a recording that the screens make."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class Replaying(Protocol):
    """The replay of a recording. Times are recorded time, in unix seconds."""

    @property
    def position(self) -> float:
        """The moment that is shown."""
        ...

    @property
    def extent(self) -> tuple[float, float]:
        """The first and the last moment of the recording, as far as it is written."""
        ...

    @property
    def speed(self) -> float:
        """Recorded seconds a second."""
        ...

    @property
    def playing(self) -> bool:
        """Whether time goes on."""
        ...

    @property
    def at_end(self) -> bool:
        """Whether everything that is recorded so far was played."""
        ...

    @property
    def damaged(self) -> int:
        """Parts of the file that could not be read."""
        ...

    def incident_moments(self) -> Sequence[tuple[float, str]]:
        """When each incident was first seen, and its severity; oldest first."""
        ...

    def density(self, columns: int) -> Sequence[int]:
        """Findings and events in each of so many equal parts of the recording."""
        ...

    def pause(self) -> None:
        """Stand still."""
        ...

    def play(self) -> None:
        """Go on; from the beginning where the end was reached."""
        ...

    def change_speed(self, steps: int) -> float:
        """So many steps faster, or slower; returns the new speed."""
        ...

    def step(self, seconds: float) -> None:
        """Move on by so much recorded time, or back."""
        ...

    def go_to(self, at: float) -> None:
        """Show a moment."""
        ...


class RecordingSwitch(Protocol):
    """What starts and ends a recording of the running session."""

    @property
    def status(self) -> str:
        """A few words while it records, what is wrong among them; empty: nothing is recorded."""
        ...

    @property
    def trouble(self) -> str:
        """Why nothing can be written at present; empty: all is well."""
        ...

    def toggle(self) -> str:
        """Start or end it; returns a sentence with the file."""
        ...
