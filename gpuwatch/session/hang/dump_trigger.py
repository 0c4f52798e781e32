"""Triggers fresh dumps through the pipes of the ranks' job, and waits until they are complete."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from gpuwatch.fleet.pending_request import Asked
from gpuwatch.plain import plain
from gpuwatch.session.hang.dump_selection import File, Key, RankTarget
from gpuwatch.wire import DumpPlaces, DumpResults

WRITE_S = 30.0
"""Seconds for a dump: torch polls its pipe once a second and then resolves all frames before it writes."""
CHECK_EVERY_S = 1.0


class Asks(Protocol):
    """Interface of a session: requests that make ranks write dumps, and that list dumps."""

    def ask_dumps(self, node: str, pids: list[int]) -> Asked:
        """Request that these processes write their dumps; the answer is a `wire.DumpResults`."""
        ...

    def ask_dump_files(self, node: str, pids: list[int]) -> Asked:
        """Request the list of existing dumps; the answer is a `wire.DumpPlaces`."""
        ...


class Writing:
    """Makes ranks write fresh dumps, and watches until they are complete.

    Call `update` until it is `over`.
    """

    def __init__(
        self,
        session: Asks,
        targets: Mapping[Key, RankTarget],
        pids: Mapping[str, list[int]],
        before: Mapping[str, DumpPlaces],
        clock: Callable[[], float],
    ) -> None:
        """Request from the nodes that they make the ranks write dumps.

        Args:
            session: Sends requests to the nodes.
            targets: The ranks' processes.
            pids: Node -> the processes that have a dump pipe.
            before: Node -> the dumps that exist now.
            clock: Monotonic seconds.
        """
        self.places: dict[str, DumpPlaces] = dict(before)
        self.refused: dict[Key, str] = {}
        self.written: set[File] = set()
        """New dumps that are complete: they did not change between two checks."""
        self._session, self._targets, self._clock = session, targets, clock
        self._pids = {node: sorted(pid for name, pid in targets if name == node) for node in pids}
        self._ranks = {
            node: {target.rank for (name, _), target in targets.items() if name == node} for node in pids
        }
        self._before = {
            file: known
            for node in pids
            if node in before
            for file, known in self._known(node, before[node]).items()
        }
        self._seen: dict[File, tuple[float, int]] = {}
        self._to_write: set[Key] = {(node, pid) for node, listed in pids.items() for pid in listed}
        self._deadline = clock() + WRITE_S
        self._triggers = [session.ask_dumps(node, listed) for node, listed in pids.items()]
        self._looks: dict[str, Asked] = {}
        self._check_at: dict[str, float] = {}

    @property
    def over(self) -> bool:
        """True if every rank has written a dump or could not be asked, or the time is up."""
        return not self._triggers and not self._to_write

    @property
    def waiting(self) -> list[str]:
        """Nodes with ranks that have not written yet."""
        return sorted({asked.node for asked in self._triggers} | {node for node, _ in self._to_write})

    def update(self) -> None:
        """Process the answers, and request the lists of dumps again until the new ones stop growing."""
        now = self._clock()
        for asked in [each for each in self._triggers if each.done or now >= self._deadline]:
            self._triggers.remove(asked)
            self._triggered(asked)
        if now >= self._deadline:
            self._to_write.clear()
            return
        started = {asked.node for asked in self._triggers}
        for node in {name for name, _ in self._to_write} - started:
            self._check(node, now)

    def _triggered(self, asked: Asked) -> None:
        reported, unread = asked.read(DumpResults)
        by_pid = {each.pid: each for each in reported.processes} if reported is not None else {}
        for key in [key for key in self._to_write if key[0] == asked.node]:
            answer = by_pid.get(key[1])
            why = unread or (answer.error if answer is not None else "no answer")
            if why:
                self.refused[key] = f"{key[0]}: {plain(why)}"
                self._to_write.discard(key)

    def _check(self, node: str, now: float) -> None:
        asked = self._looks.get(node)
        if asked is None:
            if now >= self._check_at.get(node, 0.0):
                self._check_at[node] = now + CHECK_EVERY_S
                self._looks[node] = self._session.ask_dump_files(node, self._pids[node])
            return
        if not asked.done:
            return
        del self._looks[node]
        reported, _ = asked.read(DumpPlaces)
        if reported is None:
            return
        self.places[node] = reported
        known = self._known(node, reported)
        for file, now_is in known.items():
            if now_is[1] and now_is != self._before.get(file) and now_is == self._seen.get(file):
                self.written.add(file)
        self._seen.update(known)
        for place in reported.places:
            ranks = {each.rank for each in place.files if (node, place.prefix + each.name) in self.written}
            for pid in place.pids:
                target = self._targets.get((node, pid))
                if target is not None and target.rank in ranks:
                    self._to_write.discard((node, pid))

    def _known(self, node: str, reported: DumpPlaces) -> dict[File, tuple[float, int]]:
        """Return (node, path) -> (time, size) of the dumps of a node's own ranks; a change means a new dump.

        On a shared file system every node also lists the dumps of other nodes' ranks.
        """
        return {
            (node, place.prefix + file.name): (file.mtime, file.size_bytes)
            for place in reported.places
            for file in place.files
            if file.rank in self._ranks[node]
        }
