"""A stranger on the node, who can reach the store of a probe but not its links."""

from __future__ import annotations

import importlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest

from gpuwatch.probe.protocol import Died, Ready
from gpuwatch.probe.ranks.shared import store_barrier
from gpuwatch.probe.ranks.shared.sealed_store import TAMPERED, SealedStore, StoreTamperedError
from gpuwatch.probe.ranks.shared.store_barrier import meet, roll_call
from tests.parts import need_torch
from tests.probe.ranks.driver import Cluster

SECRET = "ab" * 32
NAMES = ("join/answer", "join/settled", "join/here", "join/0", "join/1", "built/answer", "step/1/answer")


@contextmanager
def stores(count: int) -> Iterator[list[Any]]:
    """A store and clients of it."""
    need_torch()
    dist = importlib.import_module("torch.distributed")

    host = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    limit = timedelta(seconds=60)
    clients = [
        dist.TCPStore("127.0.0.1", host.port, is_master=False, wait_for_workers=False, timeout=limit)
        for _ in range(count)
    ]
    yield clients
    del clients, host


def test_what_a_stranger_writes_under_the_names_of_old_is_not_seen() -> None:
    with stores(3) as (first, second, stranger):
        for name in NAMES:
            stranger.set(name, json.dumps([1]))
        absent: list[list[int]] = []
        ranks = [
            threading.Thread(
                target=lambda rank=rank, store=store: absent.append(
                    roll_call(SealedStore(store, SECRET), "join", rank, 2, 5.0)
                )
            )
            for rank, store in ((0, first), (1, second))
        ]
        for rank in ranks:
            rank.start()
        for rank in ranks:
            rank.join(60)
        assert absent == [[], []]


def test_a_stranger_who_lists_the_keys_is_noticed() -> None:
    """Newer stores list their keys, so that the prefix is not hidden: the signature is."""
    with stores(2) as (one, stranger):
        store = SealedStore(one, SECRET)
        forged = SealedStore(stranger, "not the secret")
        store.set("pair/1/1", "note")
        for name, value in (("join/answer", "[1]"), ("pair/1/1", "note"), ("pair/1/1", "other")):
            key = f"{store._prefix}/{name}"
            signature = forged._sign(name, value.encode())
            for text in (value, f"{signature} {value}", f" {value}", ""):
                stranger.set(key, text)
                with pytest.raises(StoreTamperedError, match=TAMPERED):
                    store.get(name)
        stranger.set(f"{store._prefix}/pair/2/1", "forged")
        with pytest.raises(StoreTamperedError):
            meet(store, "pair/2", 0, 1, "", 1.0)


@pytest.mark.parametrize("counter", ["join/0", "join/here"])
def test_a_rank_that_was_counted_before_it_came_is_noticed(counter: str) -> None:
    with stores(2) as (one, stranger):
        store = SealedStore(one, SECRET)
        stranger.add(f"{store._prefix}/{counter}", 2)
        with pytest.raises(StoreTamperedError):
            roll_call(store, "join", 0, 2, 1.0)


def absent_of(store: Any, rank: int, patience_s: float, answers: dict[int, object]) -> None:
    try:
        answers[rank] = roll_call(SealedStore(store, SECRET), "join", rank, 3, patience_s)
    except StoreTamperedError as error:
        answers[rank] = error


@pytest.mark.parametrize("also_all", [False, True], ids=["own-count", "both-counts"])
def test_a_rank_that_a_stranger_removes_is_not_called_absent(
    also_all: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rank 2 really is absent; the stranger wants rank 1 to be named."""
    monkeypatch.setattr(store_barrier, "GRACE_S", 0.5)
    with stores(4) as (zero, one, reader, stranger):
        answers: dict[int, object] = {}
        ranks = [
            threading.Thread(target=absent_of, args=(store, rank, 1.5, answers))
            for rank, store in enumerate((zero, one))
        ]
        for rank in ranks:
            rank.start()
        sealed = SealedStore(reader, SECRET)
        while sealed.add("join/here", 0) < 2:
            pass
        stranger.delete_key(f"{sealed._prefix}/join/1")
        if also_all:
            stranger.add(f"{sealed._prefix}/join/here", -1)
        for rank in ranks:
            rank.join(60)
        assert any(isinstance(each, StoreTamperedError) for each in answers.values()), answers
        assert isinstance(answers[1], StoreTamperedError)


def test_a_value_of_one_key_is_none_of_another() -> None:
    with stores(1) as (one,):
        store = SealedStore(one, SECRET)
        store.set("step/1/answer", "[1]")
        one.set(f"{store._prefix}/step/2/answer", one.get(f"{store._prefix}/step/1/answer"))
        assert store.get("step/1/answer") == "[1]"
        with pytest.raises(StoreTamperedError):
            store.get("step/2/answer")


def test_ranks_of_a_probe_meet_and_measure_beside_a_stranger() -> None:
    need_torch()
    dist = importlib.import_module("torch.distributed")

    with Cluster([2], secret=SECRET) as cluster:
        limit = timedelta(seconds=60)
        stranger = dist.TCPStore(
            "127.0.0.1", cluster.port, is_master=False, wait_for_workers=False, timeout=limit
        )
        for name in NAMES:
            stranger.set(name, json.dumps([1]))
        assert [type(each) for each in cluster.ready()] == [Ready, Ready]
        done = cluster.do("collective", collective="all_reduce", bytes=1 << 16)
        assert [each.error for each in done] == [None, None]
        done = cluster.do("bandwidth", pairs=[(0, 1)], bytes=1 << 16)
        assert [each.error for each in done] == [None, None]


def test_a_rank_that_finds_the_store_changed_says_so() -> None:
    need_torch()
    dist = importlib.import_module("torch.distributed")

    with Cluster([1], missing=1, secret=SECRET, join_s=20.0) as cluster:
        limit = timedelta(seconds=60)
        stranger = dist.TCPStore(
            "127.0.0.1", cluster.port, is_master=False, wait_for_workers=False, timeout=limit
        )
        stranger.set(f"{SealedStore(None, SECRET)._prefix}/join/answer", "[1]")
        (died,) = cluster.all_of(Died, 1)
        assert TAMPERED in died.reason
