"""What holds for every test: no settings of the person who runs them, and none left behind for them."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest


@pytest.fixture(scope="session", autouse=True)
def own_settings_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Rules and silences of a person would change what is found; child processes inherit this, too."""
    before = os.environ.get("XDG_CONFIG_HOME")
    os.environ["XDG_CONFIG_HOME"] = str(tmp_path_factory.mktemp("settings"))
    yield
    if before is None:
        del os.environ["XDG_CONFIG_HOME"]
    else:
        os.environ["XDG_CONFIG_HOME"] = before
