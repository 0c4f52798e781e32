"""Which nodes see one file stays known while another node lists files without an end."""

from __future__ import annotations

import pytest

from gpuwatch.fleet.logs.shared_identities import MAX_FILES, SharedIdentities
from gpuwatch.wire import LogFile, Logs

SHARED = [LogFile("/nfs/a.log", identity="nas:/export 7", fingerprint="7:400:9")]
MOUNTED = [LogFile("/data/a.log", fingerprint="8:200:3")]
FRAME_FILES = 2_000


def listed(files: list[LogFile]) -> Logs:
    return Logs(t=1.0, seq=1, files=files)


def identity(identities: SharedIdentities, node: str, files: list[LogFile]) -> str | None:
    return identities.files(node, files)[0].identity


@pytest.mark.sampled(2)
@pytest.mark.parametrize("files", [SHARED, MOUNTED])
@pytest.mark.parametrize("stated", [True, False], ids=["on a network file system", "on a local one"])
def test_a_node_that_lists_ever_new_files_costs_no_other_node_its_knowledge(
    files: list[LogFile], stated: bool
) -> None:
    identities = SharedIdentities()
    for node in ("n1", "n2"):
        identities.take(node, listed(files))
    for start in range(0, 2 * MAX_FILES, FRAME_FILES):
        numbers = range(start, start + FRAME_FILES)
        flood = [
            LogFile(f"/x/{n}", identity=f"nas:/x {n}" if stated else None, fingerprint=f"{n}:1:1")
            for n in numbers
        ]
        identities.take("flood", listed(flood))
    identities.take("n3", listed(files))
    assert identity(identities, "n1", files) == identity(identities, "n2", files) is not None
    assert identity(identities, "n3", files) == identity(identities, "n1", files)
