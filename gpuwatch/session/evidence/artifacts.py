"""Finds the artifacts in a job's folders: traces, event files, telemetry, configuration. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import PurePosixPath
from typing import Literal, NamedTuple, TypeAlias

from gpuwatch.number_text import limit_text, mebibytes

ArtifactKind: TypeAlias = Literal["tensorboard", "profiler", "telemetry", "flight recorder", "configuration"]

MAX_ARTIFACT_BYTES = 512 << 20
MAX_TOTAL_BYTES = 4 << 30
MAX_CONFIG_BYTES = 4 << 20
MAX_ARTIFACTS = 4096
_FOLDERS: dict[str, ArtifactKind] = {
    "tensorboard": "tensorboard",
    "lightning_logs": "tensorboard",
    "tb": "tensorboard",
    "profiler": "profiler",
    "profile": "profiler",
    "traces": "profiler",
    "nsys": "profiler",
    "telemetry": "telemetry",
}
"""Folder name -> kind of the files in the folder."""
_TRACES = (".pt.trace.json", ".pt.trace.json.gz", ".nsys-rep", ".qdrep", ".ncu-rep")
_CONFIGS = (".yaml", ".yml", ".toml", ".cfg", ".ini", ".json", ".sbatch", ".slurm")
_WEIGHTS = (
    ".pt",
    ".pth",
    ".bin",
    ".safetensors",
    ".ckpt",
    ".distcp",
    ".npz",
    ".npy",
    ".h5",
    ".onnx",
    ".gguf",
)
"""Suffixes of checkpoints and data, which are never collected."""
_CONFIG_FOLDERS = frozenset(("config", "configs", "conf", ".hydra", "hparams"))


_TEXTS = (".jsonl", ".csv", ".tsv", ".txt", ".log", ".md", *_CONFIGS)


_EVENTS = "events.out.tfevents"
_DUMPS = ("nccl_trace_rank_", "comm_lib_trace_rank_")
WANTED = "|".join(
    (
        f"(?:^|/)(?:{'|'.join(map(re.escape, (_EVENTS, *_DUMPS)))})[^/]*$",
        f"(?:{'|'.join(map(re.escape, (*_TRACES, *_CONFIGS)))})$",
        f"(?:^|/)(?:{'|'.join(_FOLDERS)})/",
    )
)
"""Matches the path of every file that can be an artifact, and of few others; case is ignored."""


class Artifact(NamedTuple):
    """A file of a job that belongs in a bundle: trace, event file, telemetry or configuration."""

    path: str
    """Path below the job's folder."""
    size: int
    kind: ArtifactKind

    @property
    def is_text(self) -> bool:
        """True for a text file whose secrets are to be masked.

        A trace stays unchanged, as its viewer needs it.
        """
        return self.kind in ("configuration", "telemetry") and self.path.lower().endswith(_TEXTS)


def artifact_kind(path: str, size: int) -> ArtifactKind | None:
    """Return the kind of a file; None: not an artifact, such as a log or a checkpoint.

    Args:
        path: Path below the job's folder.
        size: Size in bytes.
    """
    parts = PurePosixPath(path).parts
    name = parts[-1].lower() if parts else ""
    folders = [part.lower() for part in parts[:-1]]
    if name.startswith(_EVENTS):
        return "tensorboard"
    if name.endswith(_TRACES):
        return "profiler"
    if name.startswith(_DUMPS):
        return "flight recorder"
    if name.endswith(_WEIGHTS) and not {"profiler", "telemetry"}.intersection(folders):
        return None
    known = next((_FOLDERS[folder] for folder in reversed(folders) if folder in _FOLDERS), None)
    if known is not None:
        return known
    is_config = name.endswith(_CONFIGS) and (len(folders) == 0 or folders[-1] in _CONFIG_FOLDERS)
    return "configuration" if is_config and size <= MAX_CONFIG_BYTES else None


def chosen_artifacts(
    files: Iterable[tuple[str, int]], before: Iterable[Artifact] = ()
) -> tuple[list[Artifact], list[tuple[str, str]]]:
    """Return the artifacts to copy, and (path, reason) of those that exceed the limits of size or number.

    Args:
        files: For each file, its path below the folder and its size (bytes).
        before: Artifacts of other folders in the same bundle, which count for the limits.
    """
    already = [each.size for each in before]
    chosen: list[Artifact] = []
    left_out: list[tuple[str, str]] = []
    total = sum(already)
    for path, size in sorted(files):
        kind = artifact_kind(path, size)
        if kind is None:
            continue
        if size > MAX_ARTIFACT_BYTES:
            most = limit_text(MAX_ARTIFACT_BYTES)
            left_out.append((path, f"{mebibytes(size)}; an artifact of a bundle has at most {most}"))
        elif total + size > MAX_TOTAL_BYTES or len(already) + len(chosen) >= MAX_ARTIFACTS:
            left_out.append((path, "the artifacts before it fill the bundle"))
        else:
            total += size
            chosen.append(Artifact(path, size, kind))
    return chosen, left_out
