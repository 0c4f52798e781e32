"""Wall clocks that jump while programs run: a preloaded library adds the seconds that a file says."""

from __future__ import annotations

import struct
import subprocess
import time
from pathlib import Path

VARIABLE = "CHAOS_CLOCK"


def compiled(folder: Path) -> Path:
    """Compile the library that is preloaded; its path."""
    made = folder / "shifted_clock.so"
    source = Path(__file__).with_name("shifted_clock.c")
    argv = ["gcc", "-O2", "-Wall", "-Werror", "-fPIC", "-shared", "-o", str(made), str(source), "-ldl"]
    subprocess.run(argv, check=True, capture_output=True)
    return made


class WallClock:
    """The wall clock of one machine: that of the programs with `variables` in their environment."""

    def __init__(self, library: Path, file: Path) -> None:
        self._library, self._file = library, file
        if not file.exists():
            file.write_bytes(struct.pack("=qq", 0, 0))

    @property
    def variables(self) -> dict[str, str]:
        """What lets a program see this clock."""
        return {"LD_PRELOAD": str(self._library), VARIABLE: str(self._file)}

    def set_forward(self, seconds: int) -> None:
        """From now on the clock is so many seconds ahead; 0: right again."""
        with self._file.open("r+b", buffering=0) as file:
            file.write(struct.pack("=qq", seconds, int(time.time())))
