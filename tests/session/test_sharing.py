"""One agent a file, where several nodes see the same one."""

from __future__ import annotations

from gpuwatch.session.shared_file_owners import followers, left_to_others
from gpuwatch.wire import LogFile


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
