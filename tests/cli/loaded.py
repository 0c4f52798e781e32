"""Which modules a command loads."""

from __future__ import annotations

import json
import subprocess
import sys

from tests.cli.running import ROOT, environment

HEAVY = {
    "textual",
    "rich",
    "paramiko",
    "torch",
    "numpy",
    "yaml",
    "cryptography",
    "pynvml",
    "psutil",
}


SPY = """
import json, sys
sys.argv = json.loads(sys.stdin.read())
try:
    from gpuwatch.cli.main import main
    main()
finally:
    sys.stderr.write("\\nLOADED " + " ".join(sorted({name.partition(".")[0] for name in sys.modules})))
"""


def loaded(*arguments: str) -> set[str]:
    """The top-level modules that a command line leaves in the interpreter."""
    done = subprocess.run(
        [sys.executable, "-c", SPY],
        input=json.dumps(["gpuwatch", *arguments]),
        cwd=ROOT,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return set(done.stderr.rpartition("LOADED ")[2].split())
