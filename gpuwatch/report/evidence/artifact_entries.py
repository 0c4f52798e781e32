"""Makes the entries of artifacts in a bundle: texts masked, binary files and traces as they are."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import TypeAlias

from gpuwatch.report.evidence.bundle_file import BundleEntry, safe_name, unique_name
from gpuwatch.report.evidence.environment import safe
from gpuwatch.report.evidence.log_files import binary_pieces, masked_text
from gpuwatch.session.evidence.artifact_fetch import ArtifactFetched
from gpuwatch.session.evidence.artifacts import Artifact

Piece: TypeAlias = str | bytes
Guard: TypeAlias = Callable[[str, Iterator[Piece]], Iterator[Piece]]
"""A function that takes the path and the pieces of a file and yields the pieces; it records an error."""


def fetched_entries(files: Sequence[ArtifactFetched]) -> Iterator[BundleEntry]:
    """Yield an entry `artifacts/NODE/PATH` for each artifact that a node sent completely."""
    taken: set[str] = set()
    for file in files:
        if file.trouble is not None or not file.over:
            continue
        found, content = file.found, file.spooled.path
        pieces: Path | Iterator[Piece] = (
            masked_text(content.parent, content.name, found.artifact.path)
            if found.artifact.is_text
            else content
        )
        name = entry_name(PurePosixPath(found.node, found.artifact.path), taken)
        yield BundleEntry(name, pieces, about(found.artifact, f"{found.node}:{found.path}"))


def folder_entries(folder: Path, artifacts: Sequence[Artifact], guard: Guard) -> Iterator[BundleEntry]:
    """Yield an entry `artifacts/PATH` for each artifact in a folder of this machine."""
    taken: set[str] = set()
    for artifact in artifacts:
        pieces: Iterator[Piece] = (
            masked_text(folder, artifact.path)
            if artifact.is_text
            else binary_pieces(folder, artifact.path, artifact.size)
        )
        name = entry_name(PurePosixPath(artifact.path), taken)
        yield BundleEntry(name, guard(artifact.path, pieces), about(artifact, artifact.path))


def entry_name(path: PurePosixPath, taken: set[str]) -> str:
    """Return a name that is not in `taken`, and add it."""
    return unique_name(f"artifacts/{'/'.join(map(safe_name, path.parts))}", taken)


def about(artifact: Artifact, path: str) -> str:
    """Return the description of an artifact for the index of the bundle."""
    return f"{artifact.kind}: {safe(path)}"
