"""One agent a file, where several nodes see the same one."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs

from gpuwatch.fleet.fleet import Fleet
from gpuwatch.link.stream.inbox import LinkStatus
from gpuwatch.session.shared_file_owners import SharedFileOwners, followers, left_to_others
from gpuwatch.wire import AnyRequest, LeaveFiles, LogFile, Logs, SearchFolders, SharedFolder
from tests.report.fleets import NODE_TIME, feed, hello, plan


def on_nfs(path: str, *pids: int, state: str = "following", inode: int = 7) -> LogFile:
    return LogFile(path, state=state, identity=f"nas:/export {inode}", pids=list(pids))  # type: ignore[arg-type]


def test_the_node_that_writes_the_file_follows_it() -> None:
    seen = {"gpu-001": [on_nfs("/jobs/a.log")], "gpu-002": [on_nfs("/jobs/a.log", 4711)]}
    chosen = followers(seen, {})
    assert chosen == {"nas:/export 7": "gpu-002"}
    assert left_to_others("gpu-001", seen["gpu-001"], chosen) == ["/jobs/a.log"]
    assert left_to_others("gpu-002", seen["gpu-002"], chosen) == []


def test_without_a_writer_it_stays_with_whoever_had_it() -> None:
    seen = {"gpu-001": [on_nfs("/jobs/a.log")], "gpu-002": [on_nfs("/jobs/a.log")]}
    assert followers(seen, {}) == {"nas:/export 7": "gpu-001"}
    assert followers(seen, {"nas:/export 7": "gpu-002"}) == {"nas:/export 7": "gpu-002"}


def test_a_node_that_went_away_hands_its_files_over() -> None:
    three = {name: [on_nfs("/jobs/a.log")] for name in ("gpu-001", "gpu-002", "gpu-003")}
    chosen = followers(three, {})
    del three["gpu-001"]
    assert followers(three, chosen) == {"nas:/export 7": "gpu-002"}


def test_two_writers_do_not_take_turns() -> None:
    seen = {"gpu-001": [on_nfs("/jobs/a.log", 1)], "gpu-002": [on_nfs("/jobs/a.log", 2)]}
    assert followers(seen, {"nas:/export 7": "gpu-002"}) == {"nas:/export 7": "gpu-002"}


def test_a_node_that_may_not_read_it_does_not_follow_it() -> None:
    seen = {"gpu-001": [on_nfs("/jobs/a.log", state="unreadable")], "gpu-002": [on_nfs("/jobs/a.log")]}
    assert left_to_others("gpu-002", seen["gpu-002"], followers(seen, {})) == []


def test_local_files_are_nobody_elses_business() -> None:
    seen = {name: [LogFile("/var/log/train.log", pids=[1])] for name in ("gpu-001", "gpu-002")}
    assert followers(seen, {}) == {}


def test_the_same_file_under_two_mount_points() -> None:
    seen = {"gpu-001": [on_nfs("/mnt/jobs/a.log")], "gpu-002": [on_nfs("/jobs/a.log", 4711)]}
    assert left_to_others("gpu-001", seen["gpu-001"], followers(seen, {})) == ["/mnt/jobs/a.log"]


@pytest.mark.parametrize("last", [{"pids": [4711]}, {"rank_from": "process", "ranks": [3]}])
def test_a_node_reads_the_logs_of_its_own_ranks_whoever_claims_them(
    last: dict[str, Any],
) -> None:
    own = structs.replace(on_nfs("/jobs/a.log"), **last)
    seen = {"gpu-001": [on_nfs("/jobs/a.log", 1)], "gpu-002": [own]}
    assert left_to_others("gpu-002", seen["gpu-002"], followers(seen, {})) == []


class Agents:
    """The paths sent to the agents, by the frames that they send."""

    def __init__(self, *names: str) -> None:
        self.fleet = Fleet(plan(*names))
        self.owners = SharedFileOwners()
        self.sent: dict[tuple[str, str], list[str]] = {}

    def send(self, node: str, request: AnyRequest) -> bool:
        assert isinstance(request, (LeaveFiles, SearchFolders))
        paths = request.files if isinstance(request, LeaveFiles) else request.folders
        self.sent[node, type(request).__name__] = paths
        return True

    def list(self, node: str, mark: str | None) -> None:
        file = structs.replace(on_nfs("/jobs/a.log"), fingerprint=mark)
        folder = SharedFolder("/jobs", "nas:/export 5", mark)
        logs = Logs(t=NODE_TIME, seq=1, files=[file], shared=[folder], complete=True)
        feed(self.fleet, node, LinkStatus("live"), hello(1, host=node), logs)
        self.owners.update(self.fleet, self.send)


@pytest.mark.parametrize("mark", ["1:2", None])
def test_a_node_that_states_anothers_file_is_not_its_reader_unless_both_see_the_same(
    mark: str | None,
) -> None:
    agents = Agents("gpu-001", "gpu-002")
    agents.list("gpu-001", mark)
    agents.list("gpu-002", "7:9")
    assert ("gpu-002", "LeaveFiles") not in agents.sent
    assert agents.sent["gpu-002", "SearchFolders"] == ["/jobs"]
    agents.list("gpu-001", "7:9")
    assert agents.sent["gpu-002", "LeaveFiles"] == ["/jobs/a.log"]
    assert sorted(map(len, (agents.sent[name, "SearchFolders"] for name in agents.fleet.nodes))) == [0, 1]
