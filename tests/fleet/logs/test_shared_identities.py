"""Which nodes see one file stays known while another node lists files without an end."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gpuwatch.agent.logs.files.follower import Follower
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


class GrowingLogs:
    """Logs that two nodes follow by a clock of their own; a step is written every 50 ms."""

    def __init__(self, paths: list[Path]) -> None:
        self.now, self.paths = 100.0, paths
        for path in paths:
            path.write_text("epoch 0\n")
        self.followers = [Follower(str(path), lambda: self.now) for path in (paths[0], paths[-1])]
        for follower in self.followers:
            follower.open()

    def step(self, number: int) -> None:
        self.now += 0.05
        for at, path in enumerate(self.paths):
            with path.open("a") as log:
                log.write(f"step {number} loss 2.31\n")
            written = int(self.now * 1e9) + at
            os.utime(path, ns=(written, written))

    def listed(self, node: int) -> list[LogFile]:
        return [LogFile("/data/train.log", fingerprint=self.followers[node].fingerprint())]

    def identities(self, seconds: int) -> list[str | None]:
        """Those of the file on both nodes, which list their files every 5 s, 1.75 s apart."""
        found = SharedIdentities()
        for number in range(1, seconds * 20):
            self.step(number)
            for node, name in enumerate(("n1", "n2")):
                if number % 100 == 35 * node:
                    found.take(name, listed(self.listed(node)))
        return [identity(found, name, self.listed(node)) for node, name in enumerate(("n1", "n2"))]


def test_a_file_with_20_writes_a_second_is_one_on_both_nodes(tmp_path: Path) -> None:
    first, second = GrowingLogs([tmp_path / "train.log"]).identities(seconds=60)
    assert first == second is not None


def test_two_logs_of_one_text_that_grow_in_step_are_two_files(tmp_path: Path) -> None:
    logs = GrowingLogs([tmp_path / "n1.log", tmp_path / "n2.log"])
    assert logs.identities(seconds=60) == [None, None]


def test_two_files_of_one_image_that_grow_unlike_are_two() -> None:
    """Equal inode and text; the node that has the larger file wrote it earlier."""
    found = SharedIdentities()
    for at in range(1, 6):
        for node, size, written in (("n1", 0x1010, 5), ("n2", 0x1020, 4)):
            growth = (
                f"7:9|{0x1000 * at:x}:a:{at:x}|{size + 0x1000 * at:x}:{written + 16 * at:x}:a:b{at}{node}"
            )
            found.take(node, listed([LogFile("/data/train.log", fingerprint=growth)]))
    files = [LogFile("/data/train.log", fingerprint="")]
    assert [identity(found, node, files) for node in ("n1", "n2")] == [None, None]
