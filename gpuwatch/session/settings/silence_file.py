"""Silences on disk: one JSON file in the settings folder, shared by all cockpits of a user."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from gpuwatch.diagnose.model.alert import Silence
from gpuwatch.own_folders import make_own
from gpuwatch.whole_file import lock_beside, read_own, write_whole
from gpuwatch.wire.codec import decode_strictly

MAX_FILE_BYTES = 16 << 20
_decoder = msgspec.json.Decoder(list[Silence])


class DamagedSilencesError(ValueError):
    """Raised if the file does not contain silences."""


class SilenceFile:
    """The file of silences: read at the start, merged and written at every change.

    A file that cannot be read is left unchanged.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.trouble: str | None = None
        """Why silences cannot be stored now; one sentence with the remedy."""
        self._known: list[Silence] = []
        """The silences in the file when it was last read or written here."""

    def read(self) -> list[Silence]:
        """Return the silences in the file; empty if there is no file.

        If it cannot be read, the last known silences are returned and `trouble` is set.
        """
        try:
            self._known = decode_strictly(read_own(self.path, MAX_FILE_BYTES), _decoder, DamagedSilencesError)
        except FileNotFoundError:
            self._known = []
        except OSError as error:
            self.trouble = f"silences cannot be read from {self.path}: {error.strerror}"
        except DamagedSilencesError as error:
            self.trouble = f"{self.path} is not a file of silences ({error}); correct it or move it away"
        return list(self._known)

    def write(self, silences: Sequence[Silence], wall: float) -> list[Silence]:
        """Merge the changes since the last call into the file, keeping the silences that others wrote.

        Args:
            silences: All silences that are active in this session.
            wall: Unix seconds now; silences that have ended are left out.

        Returns:
            All active silences. If the file cannot be read or written, `trouble` is set.
        """
        before = set(self._known)
        added = [each for each in silences if each not in before]
        removed = before.difference(silences)
        try:
            make_own(self.path.parent)
            with lock_beside(self.path):
                self.trouble = None
                others = [each for each in self.read() if each not in removed]
                if self.trouble is not None:
                    return list(silences)
                kept = [each for each in others if not any(_same(each, own) for own in added)]
                lasting = [each for each in [*kept, *added] if each.until is None or each.until > wall]
                write_whole(self.path, msgspec.json.format(msgspec.json.encode(lasting), indent=2) + b"\n")
                self._known = lasting
        except OSError as error:
            self.trouble = f"silences cannot be saved in {self.path}: {error.strerror}"
            return list(silences)
        return lasting


def _same(one: Silence, other: Silence) -> bool:
    return (one.code, one.node, one.gpu, one.rank) == (other.code, other.node, other.gpu, other.rank)
