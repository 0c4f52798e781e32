"""Silences survive a session: one JSON file in the settings folder, written whole or not at all."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from gpuwatch.diagnose.silences import Silence
from gpuwatch.session.whole_file import write_whole

_decoder = msgspec.json.Decoder(list[Silence])


class SilenceFile:
    """Read at the start, written at every change. What cannot be read is told, and kept as it is."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.trouble: str | None = None
        """Why silences do not survive now; one sentence with the remedy."""

    def read(self) -> list[Silence]:
        """The silences; none where there is no file."""
        try:
            return _decoder.decode(self.path.read_bytes())
        except FileNotFoundError:
            return []
        except OSError as error:
            self.trouble = f"silences cannot be read from {self.path}: {error.strerror}"
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            self.trouble = f"{self.path} holds no silences ({error}); correct it or move it away"
        return []

    def write(self, silences: Sequence[Silence], wall: float) -> None:
        """Keep those that have not ended (`wall`: unix seconds now). A file that could not be read stays."""
        if self.trouble is not None and self.path.exists():
            return
        lasting = [each for each in silences if each.until is None or each.until > wall]
        text = msgspec.json.format(msgspec.json.encode(lasting), indent=2)
        try:
            write_whole(self.path, text)
            self.trouble = None
        except OSError as error:
            self.trouble = f"silences cannot be kept in {self.path}: {error.strerror}"
