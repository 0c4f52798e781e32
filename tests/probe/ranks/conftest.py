"""Ranks that many tests share: starting torch is what takes time here."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.parts import need_torch
from tests.probe.ranks.driver import Cluster


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Two workers with two ranks and one, as on two nodes."""
    need_torch()
    with Cluster((2, 1)) as made:
        made.ready()
        yield made
