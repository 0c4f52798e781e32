"""Builds the command line of a process that runs a module of gpuwatch, safe in any working folder.

`python -m` and `python -c` search the working folder first: a `json.py` that another user left there would be
imported, and run, in place of the standard library's.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

_PACKAGE_HOME = str(Path(__file__).resolve().parents[1])
"""The folder that contains the package: a checkout is not always on the module search path."""
_LOADER = """\
import os, sys  # loaded before the working folder is put on the search path
try:
    here = os.getcwd()  # what an empty entry of PYTHONPATH means, too
except OSError:
    here = ""
sys.path[:] = [entry for entry in sys.path if entry not in ("", here)] + [sys.argv.pop(1)]
import runpy
runpy.run_module(sys.argv.pop(1), run_name="__main__", alter_sys=True)
"""


def module_command(module: str, *arguments: str) -> list[str]:
    """Return the argv that runs `module` as `python -m` does, without the working folder in `sys.path`.

    Args:
        module: A module of gpuwatch, with its dotted name.
        arguments: For its `sys.argv`, from the second item on.
    """
    return [sys.executable, "-c", _LOADER, _PACKAGE_HOME, module, *arguments]


def worker_context(how: str) -> Any:  # noqa: ANN401 - the stubs do not know that a context has `Process`
    """Return the context of `multiprocessing` that starts processes by the method `how` (`fork`, `spawn`).

    A spawned process begins with `python -c`, too, which searches the working folder for modules;
    PYTHONSAFEPATH, set here in our environment, prevents that from Python 3.11 on.
    """
    import multiprocessing  # noqa: PLC0415 - needed for workers only

    if how != "fork":
        os.environ["PYTHONSAFEPATH"] = "1"
    return multiprocessing.get_context(how)
