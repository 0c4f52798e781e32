"""A launcher as mpirun: two ranks print into its pipe, and it writes their lines without a prefix."""

from __future__ import annotations

import os
import subprocess
import sys

RANK = """
import time
for step in range(1, 100000):
    print(f"step {step}/100000 loss 2.5", flush=True)
    time.sleep(0.2)
"""

if __name__ == "__main__":
    reading, writing = os.pipe()
    for rank in range(2):
        own = {"OMPI_COMM_WORLD_RANK": str(rank), "OMPI_COMM_WORLD_SIZE": "2", "PMIX_NAMESPACE": sys.argv[1]}
        subprocess.Popen([sys.executable, "-c", RANK], env={**os.environ, **own}, stdout=writing)
    with os.fdopen(reading) as lines:
        for line in lines:
            print(line, end="", flush=True)
