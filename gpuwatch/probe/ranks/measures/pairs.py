"""Measures one directed link between two ranks: bandwidth from source to destination, and latency.

Both ends meet through the store first, so that an absent rank is distinguished from a dead link. The receiver
times the bandwidth, from its "go" message to the last byte: data buffered in the sender's kernel does not
count. Times of a latency step are half round trips, measured by the source.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from datetime import timedelta
from typing import Any, Dict, List, Tuple

from gpuwatch.probe.ranks.measures.checked_values import DataPattern
from gpuwatch.probe.ranks.measures.collectives import Buffers
from gpuwatch.probe.ranks.shared import store_barrier, words
from gpuwatch.probe.ranks.shared.deadlines import within
from gpuwatch.probe.ranks.shared.orders import StepFields
from gpuwatch.probe.ranks.shared.store_client import StoreClient
from gpuwatch.probe.ranks.shared.torch_types import Group, Store, Tensor, Torch, Work

Answer = Dict[str, Any]
"""The fields of `protocol.Done` for one end of a pair."""
MAX_GROUPS = 16
"""Maximum number of groups of two that stay connected; each costs three threads and some buffers."""
CONNECT_S = 10.0
_GO, _DATA, _PING = 0, 1, 2
_SIGNAL_MORE, _SIGNAL_DONE = 1.0, 0.0
_SHARE_OF_TIME = 0.5
"""A slow link stops after this fraction of its time limit, with the iterations completed so far."""
_ELEMENT = 4


class Deadline:
    """The time limit of one pair, for everything that it waits for."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._start = time.monotonic()

    def used(self) -> float:
        """Return the fraction of the time that is over, 1.0 at the end."""
        return (time.monotonic() - self._start) / self.seconds

    def left(self) -> timedelta:
        """Return the remaining time; at least a millisecond, because torch treats zero as infinite."""
        return timedelta(seconds=max(self._start + self.seconds - time.monotonic(), 0.001))


class GlooPairs:
    """Measures pairs over gloo: one group per pair, so that a dead pair does not affect the others.

    Args:
        torch: The module; `torch.distributed` need not be initialized.
        store: The store through which the ranks meet.
        of_groups: The same store, for torch's groups.
        rank: The rank of this process.
        buffers: Shared with the collectives.
    """

    def __init__(
        self, torch: Torch, store: StoreClient, of_groups: Store, rank: int, buffers: Buffers
    ) -> None:
        self._torch, self._store, self._of_groups, self._rank = torch, store, of_groups, rank
        self._buffers = buffers
        self._pattern = DataPattern(torch, "cpu")
        self._groups: OrderedDict[int, Tuple[str, Any]] = OrderedDict()
        """Other rank -> (name of the group, the group), the last used one at the end."""

    def measure(self, step: StepFields, source: int, destination: int) -> Answer:
        """Return the fields of `protocol.Done` for this end of a pair.

        Raises:
            RuntimeError, TimeoutError: the measurement failed; the next step of this pair connects anew.
        """
        peer = destination if source == self._rank else source
        deadline = Deadline(step.timeout_s)
        try:
            group = self._group(step, peer, deadline)
            if step.what == "latency":
                return self._latency(step, group, deadline)
            if source == self._rank:
                return self._send(step, group, deadline)
            return self._receive(step, group, deadline, source)
        except Exception:
            self._groups.pop(peer, None)
            raise

    def _group(self, step: StepFields, peer: int, deadline: Deadline) -> "End":
        """Return this end of the group with a peer: the one that both still have, or a new one."""
        held = self._groups.get(peer, ("", None))[0]
        theirs = store_barrier.meet(
            self._store, f"pair/{step.id}", self._rank, peer, held, deadline.left().total_seconds()
        )
        if held and held == theirs:
            self._groups.move_to_end(peer)
        else:
            self._groups.pop(peer, None)
            low, high = min(self._rank, peer), max(self._rank, peer)
            self._connect(f"pair/{low}-{high}/{step.id}", peer, deadline)
        return End(self._groups[peer][1], 1 if self._rank < peer else 0)

    def _connect(self, name: str, peer: int, deadline: Deadline) -> None:
        dist = self._torch.distributed
        while len(self._groups) >= MAX_GROUPS:
            self._groups.popitem(last=False)
        limit = min(deadline.left(), timedelta(seconds=CONNECT_S))

        def build() -> Group:
            store = dist.PrefixStore(name, self._of_groups)
            return dist.ProcessGroupGloo(store, 0 if self._rank < peer else 1, 2, timeout=limit)

        seconds = limit.total_seconds()
        try:
            group = within(seconds, build)  # where packets are dropped, gloo tries for half a minute
        except TimeoutError as error:
            raise TimeoutError(f"no connection with rank {peer} within {words.seconds(seconds)}") from error
        self._groups[peer] = (name, group)

    def _send(self, step: StepFields, end: "End", deadline: Deadline) -> Answer:
        data, go = self._data(step), self._torch.zeros(1)
        if step.check:
            self._pattern.write(data, self._pattern.wave(self._rank))
        while True:
            end.receive(go, _GO).wait(deadline.left())
            if go.item() == _SIGNAL_DONE:
                return {}
            end.send(data, _DATA).wait(deadline.left())

    def _receive(self, step: StepFields, end: "End", deadline: Deadline, source: int) -> Answer:
        data, go = self._data(step), self._torch.zeros(1)
        answer: Answer = {}
        times: List[float] = []
        for i in range(step.check + step.warmup + step.iterations):
            if times and deadline.used() > _SHARE_OF_TIME:
                break
            coming = end.receive(data, _DATA)
            go.fill_(_SIGNAL_MORE)
            start = time.perf_counter()
            end.send(go, _GO).wait(deadline.left())
            coming.wait(deadline.left())
            took = time.perf_counter() - start
            if step.check and i == 0:
                answer["correct"] = not self._pattern.wrong(data, self._pattern.wave(source))[0]
            elif i >= step.check + step.warmup:
                times.append(took)
        end.send(go.fill_(_SIGNAL_DONE), _GO).wait(deadline.left())
        return dict(answer, times_s=times)

    def _latency(self, step: StepFields, end: "End", deadline: Deadline) -> Answer:
        data = self._data(step)
        times: List[float] = []
        for i in range(step.warmup + step.iterations):
            start = time.perf_counter()
            if step.pairs[0][0] == self._rank:
                end.send(data, _PING).wait(deadline.left())
                end.receive(data, _PING).wait(deadline.left())
                if i >= step.warmup:
                    times.append((time.perf_counter() - start) / 2)
            else:
                end.receive(data, _PING).wait(deadline.left())
                end.send(data, _PING).wait(deadline.left())
        return {"times_s": times}

    def _data(self, step: StepFields) -> Tensor:
        return self._buffers.shares(max(1, step.bytes // _ELEMENT), 0).give


class End:
    """This rank's end of a group of two ranks."""

    def __init__(self, group: Group, other: int) -> None:
        self._group, self._other = group, other

    def send(self, tensor: Tensor, tag: int) -> Work:
        """Start to send; return the work, which can be waited for."""
        return self._group.send([tensor], self._other, tag)

    def receive(self, tensor: Tensor, tag: int) -> Work:
        """Start to receive; return the work, which can be waited for."""
        return self._group.recv([tensor], self._other, tag)
