"""The same launcher on every Python that a node may have."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path

import pytest

from gpuwatch.probe.protocol import (
    Count,
    Counters,
    Died,
    Leaving,
    Listen,
    Listening,
    Reached,
    Ready,
    Stop,
    Target,
    TryReach,
)
from tests.agent.pythons import VERSIONS, all_at_work, interpreter
from tests.fake_nvml.build import FakeNvml
from tests.probe.launcher.driving import Driven, dial, fake_torch, gone, one_rank


def live_a_little(version: str, fake: FakeNvml, torch: Path) -> None:
    """Every order once; the worker on the same Python where that can run ranks."""
    names = ("LD_LIBRARY_PATH", "FAKE_NVML_CONTROL", "FAKE_NVML_COUNTS")
    environ = {**{name: fake.env()[name] for name in names}, "PYTHONPATH": str(torch)}
    with Driven(dial(environ), python=interpreter(version)) as driven:
        inventory = driven.inventory()
        assert len(inventory.gpus) == 8 and inventory.nics and inventory.notes == []
        old = version in ("3.6", "3.7")
        assert (inventory.python_from == "hosts file") is not old
        driven.send(Listen(address="127.0.0.1"))
        here = driven.until(Listening)
        driven.send(TryReach(targets=[Target(node="self", address="127.0.0.1", port=here.port)]), Count())
        assert driven.until(Reached).tries[0].ok
        assert driven.until(Counters).values
        driven.send(one_rank(store_here=True, store_port=here.port))
        if inventory.python is None:
            assert "torch" in driven.until(Died).reason
        else:
            assert driven.until(Ready).rank == 0
        driven.send(Stop())
        assert driven.until(Leaving).reason == "stopped"
        assert gone(inventory.pid)
        driven.wait_for_the_end()
        assert driven.carrier.stderr() == ""


@pytest.fixture(scope="module")
def lives(
    request: pytest.FixtureRequest, library: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Future[None]]]:
    folder = tmp_path_factory.mktemp("pythons")
    torch = fake_torch(folder / "torch")
    yield from all_at_work(
        request, lambda version: live_a_little(version, FakeNvml(library, folder / version), torch)
    )


@pytest.mark.sampled(2)
@pytest.mark.parametrize("version", VERSIONS)
def test_the_launcher_runs_on(version: str, lives: dict[str, Future[None]]) -> None:
    assert lives[version].result() is None
