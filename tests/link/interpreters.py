"""The interpreters of this machine."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path


def interpreters() -> list[str]:
    found = [shutil.which(f"python3.{minor}") for minor in range(6, 14)]
    pyenv = sorted(Path("~/.pyenv/versions").expanduser().glob("3.*/bin/python"))
    unique = {os.path.realpath(path): path for path in [*filter(None, found), *map(str, pyenv)]}
    usable = [path for path in unique.values() if "pyenv/shims" not in path]
    return usable or [sys.executable]
