"""The cluster and the session that the drills of one file share: each drill starts a job of its own."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from gpuwatch.session import Session
from tests.drills.jobs import StartJob, job
from tests.drills.namespaces import Cluster, nodes

DEAD = """\
2024-05-01 10:00:00 step 100 loss 2.5
[rank1]: Traceback (most recent call last):
[rank1]:   File "train.py", line 9, in <module>
[rank1]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 GiB.
"""
AGO_S = 3600.0


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with nodes(tmp_path_factory.mktemp("nodes"), ("n1", "n2")) as found:
        yield found


@pytest.fixture(scope="module")
def dead_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The log of a job that ended long ago; both nodes see it."""
    path = tmp_path_factory.mktemp("old") / "train.log"
    path.write_text(DEAD)
    os.utime(path, (time.time() - AGO_S,) * 2)
    return path


@pytest.fixture(scope="module")
def session(cluster: Cluster, dead_log: Path) -> Iterator[Session]:
    """It was given the log of a dead job, too."""
    with cluster.session(log_options=(str(dead_log),)) as found:
        yield found


@pytest.fixture
def start_job(cluster: Cluster, session: Session, tmp_path: Path) -> StartJob:
    """Starts a job of the test's own, in the folder `job` of `tmp_path`."""
    return partial(job, cluster, session, tmp_path / "job")
