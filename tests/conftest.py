"""What holds for every test: no settings of the person who runs them, and none left behind for them.

And who runs it: the tests of a file stay in one process, and so do all files that start ranks.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from xdist.scheduler import LoadGroupScheduling

from tests.parts import the_only_job


@pytest.fixture(scope="session", autouse=True)
def own_folders(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Rules and silences of a person would change what is found; child processes inherit this, too."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.mktemp("settings")))
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="module")
def only_job() -> Iterator[None]:
    with the_only_job():
        yield


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Ranks first: they cannot be spread over the test processes, and must not be the last."""
    items.sort(key=lambda item: item.get_closest_marker("xdist_group") is None)


class ByFileOrGroup(LoadGroupScheduling):  # type: ignore[misc]  # xdist has no types
    """A test's file decides where it runs, or its `xdist_group` where it has one."""

    def _split_scope(self, nodeid: str) -> str:
        scope: str = super()._split_scope(nodeid)
        return scope.split("::", 1)[0]


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ByFileOrGroup:
    return ByFileOrGroup(config, log)
