"""Compile the fake `libnvidia-ml.so.1` and steer it while a program uses it; the settings are in fake.h."""

from __future__ import annotations

import os
import struct
import subprocess
import tempfile
from collections.abc import Iterable
from functools import cache
from pathlib import Path

SOURCES = ("control.c", "device.c", "fields.c", "activity.c")
SONAME = "libnvidia-ml.so.1"
_ROW = struct.Struct("=56s65Q")


def build(folder: Path, *, old_driver: bool = False) -> Path:
    """Put the library into `folder` and give the folder back, for LD_LIBRARY_PATH; compiled once a process.

    Raises:
        subprocess.CalledProcessError: the compiler refused; its words are in `stderr`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder / SONAME).write_bytes(_compiled(old_driver))
    return folder


@cache
def _compiled(old_driver: bool) -> bytes:
    here = Path(__file__).parent
    flags = ["-DOLD_DRIVER"] if old_driver else []
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / SONAME
        subprocess.run(
            ["gcc", "-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared", "-pthread",
             *flags, f"-Wl,-soname,{SONAME}", "-o", str(made), *(str(here / name) for name in SOURCES)],
            check=True, capture_output=True, text=True,
        )  # fmt: skip
        return made.read_bytes()


class FakeNvml:
    """One fake driver: the environment that makes a program use it, its settings, and its call counts."""

    def __init__(self, library: Path, work: Path) -> None:
        work.mkdir(parents=True, exist_ok=True)
        self.folder = library
        self.control = work / "control"
        self.counts = work / "counts"
        self.control.write_text("")

    def env(self) -> dict[str, str]:
        """This process's environment, with the fake in front of any real driver."""
        ours = {
            name: os.environ.get(name, "") for name in list(os.environ)
        }  # pytest's own come and go meanwhile
        return {**ours, "LD_LIBRARY_PATH": str(self.folder), "FAKE_NVML_CONTROL": str(self.control),
                "FAKE_NVML_COUNTS": str(self.counts)}  # fmt: skip

    def set(self, *lines: str) -> None:
        """Replace all settings at once; a program that runs sees them at its next call."""
        self._write(lines)

    def add(self, *lines: str) -> None:
        """Add settings to those that hold."""
        self._write([*self.control.read_text().splitlines(), *lines])

    def calls(self) -> dict[str, dict[int, int]]:
        """Function -> GPU index -> calls so far; index -1 holds the calls that name no GPU."""
        if not self.counts.exists():
            return {}
        found: dict[str, dict[int, int]] = {}
        for name, *numbers in _ROW.iter_unpack(self.counts.read_bytes()):
            call = name.rstrip(b"\0").decode()
            if call:
                found[call] = {index - 1: n for index, n in enumerate(numbers) if n}
        return found

    def calls_of(self, gpu: int) -> int:
        """All calls about one GPU so far."""
        return sum(by_gpu.get(gpu, 0) for by_gpu in self.calls().values())

    def _write(self, lines: Iterable[str]) -> None:
        new = self.control.with_suffix(".new")
        new.write_text("".join(f"{line}\n" for line in lines))
        new.replace(self.control)
